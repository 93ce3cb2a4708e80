"""Work conservation, XCo's Figure 21: five UDP flows into one link, three of them at 5 % of it.

Method: the emulated star under timeslices of 10 ms, once with yields (an agent gives an unused slot back after a hysteresis
of 0.1 ms) and once with a hysteresis so long that no agent gives a slot back before its end; and once uncoordinated. Link use
is the application bytes received over the application bytes that the link can carry (97.7 % of its rate with 60 KB
datagrams).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulation.measuring.confidence import goodput, margin, together
from emulation.measuring.fidelity import environment
from emulation.stack.star import BOTTLENECK, RATE_BPS, RECEIVER, SENDERS, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow

LOW_SHARE = 20
"""A slow flow sends the link's rate divided by this."""
APPLICATION_SHARE = 0.977
DATAGRAM_BYTES = 1400
"""Of the slow flows: they send small datagrams often, as those of the paper do."""
YIELDING, KEEPING = {"yield_hysteresis": "0.1ms"}, {"yield_hysteresis": "1s"}
"""The configuration under which agents give unused slots back, and under which they never do."""


def run(duration_s: float = 6.0) -> dict[str, Any]:
    """Link use with and without yields, and uncoordinated."""
    result: dict[str, Any] = {}
    with star(agents=False, coordinator={"slice": "10ms", **YIELDING}) as (emulated, baton):
        result["uncoordinated"] = _measure(emulated, duration_s, agents=False)
        baton.start_agents()
        result["with_yields"] = _measure(emulated, duration_s, agents=True)
    with star(coordinator={"slice": "10ms", **KEEPING}) as (emulated, _):
        result["without_yields"] = _measure(emulated, duration_s, agents=True)
    result["confidence"] = _confidence(result)
    result["environment"] = environment()
    return result


def _confidence(result: Mapping[str, Any]) -> dict[str, Any]:
    """How sure it is that yields raise the use of the link."""
    runs = {name: result[name] for name in ("uncoordinated", "with_yields", "without_yields")}
    bounds = {name: goodput(run, run["goodput_mbps"], RATE_BPS / 1e6) for name, run in runs.items()}
    least = margin(bounds["with_yields"], bounds["without_yields"])
    without, with_them = (runs[name]["link_use"] for name in ("without_yields", "with_yields"))
    raised = f"yields raise the use of the link from {without:.0%} to {with_them:.0%}"
    sureness = f"by {least:.1f} Mb/s at least" if least > 0 else "but by no more than the machine may have changed"
    return together({name.replace("_", " "): run for name, run in runs.items()}, f"{raised}, {sureness}")


def flows(rate_bps: int = RATE_BPS) -> list[Flow]:
    """Two at full speed, three at 5 % of a link of this rate."""
    fast = [Flow("udp", host, RECEIVER) for host in SENDERS[:2]]
    return fast + [Flow("udp", host, RECEIVER, rate_bps=rate_bps // LOW_SHARE, size=DATAGRAM_BYTES) for host in SENDERS[2:]]


def _measure(emulated: Any, duration_s: float, *, agents: bool) -> dict[str, Any]:  # noqa: ANN401 -- an EmulatedFabric
    outcome = experiment.run(
        emulated, flows(), duration_s=duration_s, warmup_s=2, bottlenecks=[BOTTLENECK], host_queues=not agents
    )
    return {
        "link_use": round(outcome.goodput_mbps * 1e6 / RATE_BPS / APPLICATION_SHARE, 4),
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "flows_mbps": [round(flow.goodput_mbps, 2) for flow in outcome.flows],
        "drops": outcome.drops,
        "confidence": outcome.confidence().to_dict(),
    }
