"""What every benchmark of coordination does: it loads the emulated star, makes something happen, and times the hosts'
recovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from emulation.fabric.fabric import EmulatedFabric
from emulation.measuring.fidelity import environment
from emulation.stack.star import BOTTLENECK, SENDERS, mixed_flows
from emulation.traffic import experiment
from emulation.traffic.experiment import Outcome

WARMUP_S = 2.0


def run_under_load(
    emulated: EmulatedFabric,
    udp_senders: int,
    duration_s: float,
    *,
    events: Sequence[tuple[float, Callable[[], None]]] = (),
    bucket_ns: int = 0,
) -> Outcome:
    """Runs `udp_senders` UDP senders at full speed and the others as long TCP flows, all into one link, under agents.

    Args:
        events: (seconds after the measurement's begin, what to do then), in order of time.
        bucket_ns: if not 0, each flow's received bytes are counted in buckets of this length too.
    """
    return experiment.run(
        emulated,
        mixed_flows(udp_senders),
        duration_s=duration_s,
        warmup_s=WARMUP_S,
        bottlenecks=[BOTTLENECK],
        host_queues=False,
        bucket_ns=bucket_ns,
        events=events,
    )


def first_after(times_ns: Sequence[int], at_ns: int) -> int | None:
    """The first time after an instant; None if there is none."""
    return next((time_ns for time_ns in times_ns if time_ns > at_ns), None)


def slowest_ms(times_ns: Sequence[int | None], at_ns: int) -> float | None:
    """How long after an instant the last of the times was, ms; None unless every host has a time."""
    known = [time_ns for time_ns in times_ns if time_ns is not None]
    return round((max(known) - at_ns) / 1e6, 1) if known and len(known) == len(times_ns) else None


def slowest_host_ms(agents: Mapping[str, Mapping[str, Any]], log: str, at_ns: int) -> float | None:
    """How long after an instant the slowest sender's agent logged, under `log`, that it had happened, ms; None unless all
    did."""
    return slowest_ms([first_after(agents[host][log], at_ns) for host in SENDERS], at_ns)


def recovery(agents: Mapping[str, Mapping[str, Any]], at_ns: int) -> dict[str, float | None]:
    """How long after a leader was lost every host was free, was a member again, and had a slot again, ms."""
    return {
        "free_after_ms": slowest_host_ms(agents, "released_ns", at_ns),
        "member_again_after_ms": slowest_host_ms(agents, "obeyed_ns", at_ns),
        "coordinated_again_after_ms": slowest_host_ms(agents, "first_slot_ns", at_ns),
    }


def traffic(outcome: Outcome) -> dict[str, Any]:
    """The end of a record: what the traffic got, whether the machine kept up, and what it was."""
    return {
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "drops": outcome.drops,
        "confidence": outcome.confidence().to_dict(),
        "environment": environment(),
    }
