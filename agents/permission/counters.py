"""What an agent counts of its gates, and samples of how long they took. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """What a gatekeeper did since its start."""

    slots: int = 0
    late: int = 0
    expired: int = 0
    yields: int = 0
    voided_bytes: int = 0
    directive_to_gate_ns: list[int] = field(default_factory=list)
    """The newest samples of (gate changed - directive received) for slots that were due when received."""
    backlog_to_directive_ns: list[int] = field(default_factory=list)
    """The newest samples of (directive received - BACKLOG sent) for destinations that became backlogged."""
    lateness_ns: list[int] = field(default_factory=list)
    """The newest samples of (gate changed - slot's start)."""
    obeyed_ns: list[int] = field(default_factory=list)
    """When it began to obey, and began again, by the local clock."""
    first_slot_ns: list[int] = field(default_factory=list)
    """When it opened its first slot after it began to obey."""
    released_ns: list[int] = field(default_factory=list)
    """When every gate had been opened: the leader fell silent, the operator said so, or the agent left."""
    ahead_ns: list[int] = field(default_factory=list)
    """The newest samples of (slot's start - directive received)."""


SAMPLES = 20_000
"""How many newest samples of each latency are kept."""


def keep_sample(samples: list[int], value: int) -> None:
    """Appends a sample; drops the older half when there are more than `SAMPLES`."""
    samples.append(value)
    if len(samples) > SAMPLES:
        del samples[: SAMPLES // 2]
