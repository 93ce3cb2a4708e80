"""Off and on delays under one load: the cells of the thesis's Tables 4.1 to 4.5 and 5.1. An edge: runs them.

The benchmark closes and opens each flow in turn, while all of them send as fast as the host lets them. A pause and the time to
the next one vary at random by a fifth, so that the commands do not keep step with the turns in which the flows send.
"""

from __future__ import annotations

import random
import time
from typing import Any, NamedTuple

from bench.host_control.controls import Control
from bench.host_control.delays import measure, turn_us
from bench.host_control.ends import Ends
from bench.host_control.load import Processors, load
from emulation.measuring.confidence import Disturbance

SIZES = (64, 500, 1000)
FLOWS = (2, 4, 8, 16)
PAUSE_NS = 1_000_000
"""How long a flow is closed, and then open; a PFC frame pauses for at least 3.3 ms at up to 10 Gb/s."""
SETTLE_NS = 60_000_000
"""By then the host knows every flow, and its caches are warm."""


class Cell(NamedTuple):
    """Packet size in bytes, how many flows, and how many times one of them is closed and opened."""

    size: int
    flows: int
    pauses: int

    @property
    def seconds(self) -> float:
        """How long the run takes."""
        return (4 * SETTLE_NS + self.pauses * 2.2 * PAUSE_NS) / 1e9


def run(
    ends: Ends, processors: Processors, control: Control, cell: Cell, *, busy: bool = False, seed: int = 1
) -> dict[str, Any]:
    """Measures one cell; its record. `busy`: whether the agent polls."""
    rounds = max(1, cell.pauses // cell.flows)
    chance = random.Random(f"{seed} {cell}")
    with (
        control.watched() as commands,
        load(ends, processors, control.commander, flows=cell.flows, size=cell.size, seconds=cell.seconds) as made,
    ):
        with control.prepared(cell.flows):
            due_ns = time.monotonic_ns() + SETTLE_NS
            for flow in [flow for _ in range(rounds) for flow in range(cell.flows)]:
                for opens in (False, True):
                    control.command(flow, opens=opens, at_ns=due_ns)
                    due_ns = time.monotonic_ns() + round(PAUSE_NS * chance.uniform(0.8, 1.2))
            time.sleep(PAUSE_NS / 1e9)
            given = commands()
        arrivals = made.capture.arrivals()
    delays = measure(given, arrivals)
    lost = len(control.issued) - len(given)
    disturbed = delays.disturbances(lost)
    if arrivals.lost:
        disturbed.append(Disturbance(f"the capture lost {arrivals.lost} packets", 0.0, figures=("delay",)))
    return {
        "size_bytes": cell.size,
        "flows": cell.flows,
        "turn_us": turn_us(arrivals),
        "packets_per_second": round(made.sent_packets / cell.seconds),
        "commands_lost": lost,
        **delays.to_dict(),
        "trust": made.trust(*disturbed, busy=busy),
    }
