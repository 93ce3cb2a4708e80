"""Runs in virtual time, in a box: pings, TCP and a flood over links that take time; prints what became of them."""

from __future__ import annotations

import json
import sys

from emulation import box
from emulation.fabric.fabric import EmulatedFabric
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from topology import shapes

ROUND_TRIP_NS = 2_000_000
RATE_BPS = 100_000_000


def main() -> None:
    box.enter([sys.executable, *sys.argv])
    fabric = shapes.star(hosts=4, rate_bps=RATE_BPS)
    alone = [Flow("tcp", "h1", "h3", count=2, trace_ns=5_000_000)]
    flood = [Flow("udp", "h1", "h3", size=1400), Flow("udp", "h2", "h3", size=1400)]
    found = []
    with EmulatedFabric(fabric, static_arp=True, round_trip_ns=ROUND_TRIP_NS) as emulated:
        for flows in ([], alone, flood):
            outcome = experiment.run(
                emulated, flows, duration_s=0.3, warmup_s=0.3, bottlenecks=[("s1", "h3")], ping=("h4", "h2")
            )
            found.append(outcome.to_dict())
        drifts = emulated.verify()
    print(json.dumps({"runs": found, "drifts": drifts}))


if __name__ == "__main__":
    main()
