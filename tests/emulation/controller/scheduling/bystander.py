"""A star whose sixth sender has no agent and sends at 30 % of the receiver's link; measured once, printed as JSON.

`python -m tests.emulation.controller.scheduling.bystander RATE_BPS SECONDS [POLICY]`, in virtual time or in a box.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from emulation import box
from emulation.stack.running import with_baton
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from topology import shapes

MEMBERS = ("h1", "h2", "h3", "h4")
BYSTANDER, RECEIVER = "h5", "h6"
BOTTLENECK = ("s1", RECEIVER)
SHARE = 0.3
DATAGRAM_BYTES = 1400


def measure(rate_bps: int, duration_s: float, policy: str, warmup_s: float = 3.0) -> dict[str, Any]:
    """What members and bystander got of the receiver's link, what its port dropped, and that link in the status."""
    fabric = shapes.build("star", hosts=6, rate_bps=rate_bps)
    aside = Flow("udp", BYSTANDER, RECEIVER, rate_bps=int(SHARE * rate_bps), size=DATAGRAM_BYTES)
    flows = [aside, *(Flow("udp" if host in MEMBERS[:2] else "tcp", host, RECEIVER) for host in MEMBERS)]
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    coordinator = {"policy": policy, "slice": "2ms", "mode": "on_demand"}
    with with_baton(fabric, buffer_packets=100, start_agents=False, coordinator=coordinator) as (emulated, baton):
        baton.start_agents(*MEMBERS, RECEIVER)
        outcome = experiment.run(
            emulated, flows, duration_s=duration_s, warmup_s=warmup_s, bottlenecks=[BOTTLENECK], host_queues=False,
            events=[(duration_s - 0.1, lambda: found.append((baton.status(), baton.store.capacities())))],
        )  # fmt: skip
    (status, capacities), *_ = found
    links = {(link["source"], link["target"]): link for link in capacities}
    return {**outcome.to_dict(), "link": links.get(BOTTLENECK), "contended": status["contended"]}


def main() -> None:
    """Prints `measure` of the arguments."""
    rate_bps, duration_s = int(sys.argv[1]), float(sys.argv[2])
    box.enter([sys.executable, "-m", "tests.emulation.controller.scheduling.bystander", *sys.argv[1:]])
    print(json.dumps(measure(rate_bps, duration_s, *sys.argv[3:4] or ("timeslice",))))


if __name__ == "__main__":
    main()
