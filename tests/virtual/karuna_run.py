"""Runs in virtual time, in a box: a flow with a deadline beside two long ones, under one scheme; prints how they fared."""

from __future__ import annotations

import json
import sys

from agents.priorities.congestion_control import DCTCP, MCP
from emulation import box
from emulation.stack import schemes
from emulation.stack.star import BOTTLENECK, RECEIVER
from emulation.traffic import flow_run
from emulation.traffic.flow_schedule import Schedule, ScheduledFlow

START_NS, LENGTH_NS = 200_000_000, 400_000_000
DEADLINE_MS, SIZE_BYTES = 80, 400_000
"""It needs 40 % of the link, and the two long flows leave it a third."""
LONG_BYTES = 8_000_000
SCHEMES = {"mcp": schemes.Scheme("mcp", DCTCP, deadline_transport=MCP), "dctcp": schemes.dctcp()}


def main() -> None:
    scheme = SCHEMES[sys.argv[1]]
    box.enter([sys.executable, *sys.argv])
    due = ScheduledFlow(2, START_NS, "h1", RECEIVER, SIZE_BYTES, 1, DEADLINE_MS)
    long = (ScheduledFlow(number, 0, f"h{4 + number}", RECEIVER, LONG_BYTES, 3) for number in (0, 1))
    schedule = Schedule((*long, due), LENGTH_NS)
    with schemes.on_star(scheme) as star:
        assert star.control is not None, "the scheme has DCTCP"
        ended: list[str] = []
        ring = star.control.ends(lambda end: ended.append(end.outcome.name))
        choices = scheme.choices(schedule.flows)
        found = flow_run.run(star.emulated, schedule, port=BOTTLENECK, drain_s=1.0, **choices)
        if ring is not None:
            ring[1]()
        way = star.control.way.value
    *others, flow = found.results
    ratio = None if flow.fct_ns is None else flow.fct_ns / DEADLINE_MS / 1e6
    retransmits = sum(one.retransmits for one in found.results)
    others_bytes = sum(one.received_bytes for one in others)
    told = {"met": flow.met, "ratio": ratio, "ended": ended, "way": way, "drops": found.drops, "retransmits": retransmits}
    print(json.dumps({**told, "others_bytes": others_bytes}))


if __name__ == "__main__":
    main()
