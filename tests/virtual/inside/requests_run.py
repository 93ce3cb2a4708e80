"""Runs in virtual time, in a box: blocks, short connections, a bulk transfer, a flood on a star; prints JSON."""

from __future__ import annotations

import json
import sys

from emulation import box
from emulation.fabric.fabric import EmulatedFabric
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from topology import shapes

BLOCK_BYTES, CONNECTION_BYTES, BULK_BYTES = 100_000, 30_000, 2_000_000
FLOWS = (
    Flow("block", "h1", "h4", size=BLOCK_BYTES),
    Flow("block", "h2", "h4", size=BLOCK_BYTES),
    Flow("short", "h1", "h3", size=CONNECTION_BYTES, count=5),
    Flow("tcp", "h2", "h3", total=BULK_BYTES, phase_ns=200_000_000),
    Flow("tcp", "h4", "h3", total=10 * BULK_BYTES, phase_ns=480_000_000),
)

FLOOD = (Flow("udp", "h1", "h3"), Flow("udp", "h2", "h3"))


def main() -> None:
    box.enter([sys.executable, *sys.argv])
    with EmulatedFabric(shapes.build("star", hosts=4, rate_bps=100_000_000), buffer_packets=400) as emulated:
        outcome = experiment.run(emulated, FLOWS, duration_s=0.5, warmup_s=0.2, bucket_ns=10_000_000)
        flooded = experiment.run(emulated, FLOOD, duration_s=0.2, warmup_s=0.2, bottlenecks=[("s1", "h3")])
    print(
        json.dumps(
            {
                "drops": flooded.drops,
                "sent": [flow.sender["sent_bytes"] for flow in flooded.flows],
                "rounds_ns": outcome.rounds_ns,
                "received": [flow.received_bytes for flow in outcome.flows],
                "buckets": [sum(flow.buckets) for flow in outcome.flows],
                "connections": outcome.flows[2].sender["connections"],
                "connection_ms": outcome.flows[2].sender["connection_ms"],
                "bulk_ns": outcome.flows[3].sender["completed_ns"],
                "cut_ns": outcome.flows[4].sender["completed_ns"],
            }
        )
    )


if __name__ == "__main__":
    main()
