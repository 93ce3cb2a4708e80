"""How long permission takes: from backlog to directive, and from directive to gate.

Method: the emulated star, every pair regulated (mode `always`), one host sending a datagram of 20 KB every 5 ms: each datagram
finds its gate closed and its link free. The host's agent takes three times by its own monotonic clock: when it sends the
BACKLOG; when it receives the DIRECTIVE (between the two are kernel, switch and coordinator); and when its netlink message to
the gate has been sent, by which time the kernel has carried it out (the agent reads the acknowledgement later). The slots start
at once, so that sending directives ahead hides nothing. The agent polls for the answer to a BACKLOG, and meanwhile runs through
what a directive takes, without effect: otherwise its caches would be cold, and the gate would take a third longer. Only
samples of the measured time count, not those of the second of warm-up before it.
"""

from __future__ import annotations

from typing import Any

from emulation.measuring.fidelity import environment
from emulation.measuring.measure import percentile
from emulation.stack.star import RECEIVER, SENDERS, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow

WARMUP_S = 1.0
PERIOD_S = 0.005
DATAGRAM_BYTES = 20_000
SAMPLES = 500
"""In a record, of each latency."""


def run(duration_s: float = 10.0) -> dict[str, Any]:
    """Percentiles in microseconds."""
    with star(coordinator={"mode": "always", "slice": "10ms"}, agent_settings={"mice_bytes": "16KB"}) as (emulated, baton):
        rate_bps = round(DATAGRAM_BYTES * 8 / PERIOD_S)
        flow = Flow("udp", SENDERS[0], RECEIVER, rate_bps=rate_bps, size=DATAGRAM_BYTES)
        outcome = experiment.run(emulated, [flow], duration_s=duration_s, warmup_s=WARMUP_S, host_queues=False)
        found = baton.stop_agents()[SENDERS[0]]
        to_directive = since(outcome.started_ns, found["backlog_to_directive_ns"], found["answered_ns"])
        to_gate = since(outcome.started_ns, found["directive_to_gate_ns"], found["gate_changed_ns"])
        return {
            "backlog_to_directive_us": summary(to_directive),
            "directive_to_gate_us": summary(to_gate),
            "samples_us": {"agent": thinned(to_gate), "controller": thinned(to_directive)},
            "yields": found["yields"],
            "cpu": outcome.fidelity.to_dict(),
            "confidence": outcome.confidence().to_dict(),
            "environment": environment(),
        }


def since(from_ns: int, samples_ns: list[int], at_ns: list[int]) -> list[int]:
    """The samples that were taken from an instant on; `at_ns`: when each was."""
    return [sample for sample, at in zip(samples_ns, at_ns, strict=True) if at >= from_ns]


def thinned(samples_ns: list[int], most: int = SAMPLES) -> list[float]:
    """At most so many of the samples, in microseconds, evenly from all: for `--agent-delay` and `--controller-delay`."""
    step = -(-len(samples_ns) // most) or 1
    return [round(sample / 1e3, 1) for sample in samples_ns[::step]]


def summary(samples_ns: list[int]) -> dict[str, float | int | None]:
    """Count and percentiles of samples in ns, in microseconds."""

    def at(percent: float) -> float | None:
        value = percentile(samples_ns, percent)
        return None if value is None else round(value / 1e3, 1)

    return {"samples": len(samples_ns), "p50": at(50), "p90": at(90), "p99": at(99), "max": at(100)}
