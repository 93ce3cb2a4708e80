"""Runs in virtual time, in a box: a star under the timeslice schedule, measured once; prints the record as JSON."""

from __future__ import annotations

import json
import sys

from emulation import box
from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, mixed_flows, star
from emulation.traffic import experiment


def main() -> None:
    rate_bps, k, duration_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    box.enter([sys.executable, *sys.argv])
    with star(coordinator={"slice": "2ms", "mode": "always"}, rate_bps=rate_bps) as (emulated, baton):
        outcome = experiment.run(
            emulated, mixed_flows(k), duration_s=duration_s, warmup_s=0.5, bottlenecks=[BOTTLENECK],
            ping=(SENDERS[0], RECEIVER), host_queues=False,
        )  # fmt: skip
        status = baton.status()
    print(json.dumps({**outcome.to_dict(), "slots": status["slots"], "late_slots": status["late_slots"]}))


if __name__ == "__main__":
    main()
