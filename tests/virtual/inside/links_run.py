"""Runs in virtual time, in a box: two hosts send datagrams to a third as fast as their links take them.

Prints what became of the packets as JSON: the record of the run, and the counts of `ip` at each end.
"""

from __future__ import annotations

import json
import sys
import time

from emulation import box
from emulation.fabric.fabric import EmulatedFabric
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from topology import shapes
from topology.fabric import DirectedLink

BOTTLENECK = DirectedLink("s1", "h3")


def count(emulated: EmulatedFabric, host: str, direction: str) -> int:
    """The packets that a host's interface has sent ("tx") or received ("rx")."""
    shown = json.loads(emulated.run_in(host, "ip", "-j", "-s", "link", "show", "dev", emulated.interface(host)))
    return int(shown[0]["stats64"][direction]["packets"])


def main() -> None:
    rate_bps, size, duration_s, exact = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "exact"
    box.enter([sys.executable, *sys.argv])
    fabric = shapes.star(hosts=3, rate_bps=rate_bps)
    with EmulatedFabric(fabric, static_arp=True, exact_links=exact) as emulated:
        before = [count(emulated, host, "tx") for host in ("h1", "h2")], count(emulated, "h3", "rx")
        dropped = emulated.counters(BOTTLENECK).drops
        flows = [Flow("udp", host, "h3", size=size) for host in ("h1", "h2")]
        outcome = experiment.run(
            emulated, flows, duration_s=duration_s, warmup_s=0.05, bottlenecks=[BOTTLENECK], sample_occupancy=True
        )
        time.sleep(0.5)  # until the buffer is empty
        found = {
            **outcome.to_dict(),
            "sent": [count(emulated, host, "tx") - was for host, was in zip(("h1", "h2"), before[0], strict=True)],
            "received": count(emulated, "h3", "rx") - before[1],
            "dropped": emulated.counters(BOTTLENECK).drops - dropped,
            "longest_queue": max(outcome.occupancy[BOTTLENECK].packets),
            "drifts": emulated.verify(),
            "environment": emulated.environment(),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
