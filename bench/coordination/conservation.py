"""Work conservation, XCo's Figure 21: five UDP flows into one link, three of them at 5 % of it.

Method: the emulated star under timeslices of 10 ms, once with yields (an agent gives an unused slot back after a hysteresis of
0.1 ms) and once with a hysteresis so long that no agent ever gives a slot back; and once uncoordinated. Link use is the
application bytes received over the application bytes that the link can carry (97.7 % of its rate with 60 KB datagrams).
"""

from __future__ import annotations

from typing import Any

from emulation.measuring.fidelity import environment
from emulation.stack.star import BOTTLENECK, RATE_BPS, RECEIVER, SENDERS, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow

LOW_BPS = RATE_BPS // 20
APPLICATION_SHARE = 0.977
DATAGRAM_BYTES = 1400
"""Of the slow flows: they send small datagrams often, as those of the paper do."""


def run(duration_s: float = 6.0) -> dict[str, Any]:
    """Link use with and without yields, and uncoordinated."""
    result: dict[str, Any] = {}
    with star(agents=False, coordinator={"slice": "10ms", "yield_hysteresis": "0.1ms"}) as (emulated, baton):
        result["uncoordinated"] = _measure(emulated, duration_s, agents=False)
        baton.start_agents()
        result["with_yields"] = _measure(emulated, duration_s, agents=True)
    with star(coordinator={"slice": "10ms", "yield_hysteresis": "1s"}) as (emulated, _):
        result["without_yields"] = _measure(emulated, duration_s, agents=True)
    result["environment"] = environment()
    return result


def flows() -> list[Flow]:
    """Two at full speed, three at 5 % of the link."""
    fast = [Flow("udp", host, RECEIVER) for host in SENDERS[:2]]
    return fast + [Flow("udp", host, RECEIVER, rate_bps=LOW_BPS, size=DATAGRAM_BYTES) for host in SENDERS[2:]]


def _measure(emulated: Any, duration_s: float, *, agents: bool) -> dict[str, Any]:  # noqa: ANN401 -- an EmulatedFabric
    outcome = experiment.run(
        emulated, flows(), duration_s=duration_s, warmup_s=2, bottlenecks=[BOTTLENECK], host_queues=not agents
    )
    return {
        "link_use": round(outcome.goodput_mbps * 1e6 / RATE_BPS / APPLICATION_SHARE, 4),
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "flows_mbps": [round(flow.goodput_mbps, 2) for flow in outcome.flows],
        "drops": outcome.drops,
        "valid": outcome.valid,
    }
