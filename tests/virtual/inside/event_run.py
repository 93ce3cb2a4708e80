"""Runs in virtual time, in a box: how long after a packet an agent hears of it; prints a JSON list of ns."""

from __future__ import annotations

import json
import select
import sys
import tempfile
import threading
import time
from pathlib import Path

from emulation import box
from tests.emulation.agents.queues.gated_wire import Wire, gated_wire

DESTINATION, PACKETS, PAUSE_S = 16, 5, 0.0137
"""The pause is no multiple of the kernel's tick."""


def heard_after_ns(wire: Wire) -> int:
    """From a packet to a closed gate until its event can be read, by a reader that sleeps meanwhile."""
    wire.host.close_gate(DESTINATION)
    wire.host.arm(DESTINATION)
    sent_ns: list[int] = []

    def send() -> None:
        time.sleep(PAUSE_S)
        sent_ns.append(time.monotonic_ns())
        wire.send(1)

    sender = threading.Thread(target=send)
    sender.start()
    ready, _, _ = select.select([wire.host.flows.fileno()], (), (), 1)
    heard_ns = time.monotonic_ns()
    sender.join()
    assert ready and wire.host.flows.events()
    return heard_ns - sent_ns[0]


def main() -> None:
    box.enter([sys.executable, "-m", "tests.virtual.inside.event_run"])
    with tempfile.TemporaryDirectory() as directory:
        wires = gated_wire("tbf", Path(directory))
        wire = next(wires)
        found = [heard_after_ns(wire) for _ in range(PACKETS)]
        wires.close()  # type: ignore[attr-defined]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
