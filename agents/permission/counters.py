"""An agent's counters of slots and gates, and its latency samples. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

ANSWERS = 9
LATE_NS = 500_000
"""A slot counts as late if its gate opened later than this after its start."""


@dataclass(slots=True)
class Counters:
    """Counts since the gatekeeper's start, and the newest samples of each latency. The statistics file has these names."""

    slots: int = 0
    late: int = 0
    expired: int = 0
    yields: int = 0
    voided_bytes: int = 0
    directive_to_gate_ns: list[int] = field(default_factory=list)
    """(gate changed - directive received), for slots that had started when the directive arrived."""
    gate_changed_ns: list[int] = field(default_factory=list)
    """When, of each sample of `directive_to_gate_ns`, by the local clock."""
    backlog_to_directive_ns: list[int] = field(default_factory=list)
    """(directive received - BACKLOG sent), for destinations that became backlogged."""
    answered_ns: list[int] = field(default_factory=list)
    """Not later than when, of each sample of `backlog_to_directive_ns`, the directive came, by the local clock: the C code does
    not keep each directive's time, so of its samples it is when it began to wait."""
    lateness_ns: list[int] = field(default_factory=list)
    """(gate changed - start of the slot)."""
    obeyed_ns: list[int] = field(default_factory=list)
    """Each time it began to enforce permissions, by the local clock."""
    first_slot_ns: list[int] = field(default_factory=list)
    """When it opened the first slot after it began to enforce."""
    released_ns: list[int] = field(default_factory=list)
    """When it had opened every gate: after the leader fell silent, the operator set the override, or the agent left."""
    ahead_ns: list[int] = field(default_factory=list)
    """(start of the slot - directive received)."""

    def opened(self, opened_ns: int, start_ns: int, received_ns: int) -> None:
        """Counts a slot whose gate was opened for it, and whose directive came at `received_ns`."""
        self.slots += 1
        self.late += opened_ns - start_ns > LATE_NS
        keep_sample(self.lateness_ns, opened_ns - start_ns)
        keep_sample(self.ahead_ns, start_ns - received_ns)
        if start_ns <= received_ns:
            keep_sample(self.directive_to_gate_ns, opened_ns - received_ns)
            keep_sample(self.gate_changed_ns, opened_ns)

    def answered(self, after_ns: int, at_ns: int) -> None:
        """Counts a directive that came so long after the BACKLOG of its destination, not before `at_ns`."""
        keep_sample(self.backlog_to_directive_ns, after_ns)
        keep_sample(self.answered_ns, at_ns)

    def usual_answer_ns(self) -> int:
        """The median of how long after their BACKLOG the last `ANSWERS` directives came; 0 before the first."""
        newest = self.backlog_to_directive_ns[-ANSWERS:]
        return sorted(newest)[len(newest) // 2] if newest else 0


SAMPLES = 20_000
"""At most this many samples of each latency are kept."""


def keep_sample(samples: list[int], value: int) -> None:
    """Appends a sample; drops the older half if there are more than `SAMPLES`."""
    samples.append(value)
    if len(samples) > SAMPLES:
        del samples[: SAMPLES // 2]
