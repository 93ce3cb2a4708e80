"""How much of a switch port's queue data may fill, so that control frames find room; and what an operator is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

CONTROL_PRIORITY = 7
"""TC_PRIO_CONTROL, which the kernel's own queues (pfifo_fast, mqprio) serve first (linux/pkt_sched.h)."""
CONTROL_QUEUE = 2983
"""0xBA7, the OpenFlow queue of a port that Baton's frames leave by, where every port of the switch has it: an operator's own
queues have small numbers."""
KEPT_BYTES, KEPT_PACKETS = 4096, 16
"""Room for some 40 control frames, or 16; at most a quarter of the queue."""


class Room(NamedTuple):
    """How much data may wait at a port, 0 for as much as the queue takes; and what an operator should know, if anything."""

    most_bytes: int = 0
    most_packets: int = 0
    waits: str = ""


def room(kind: str, handle: int, options: Mapping[str, Any]) -> Room:
    """For a root queue of this kind. `handle`: its major number, 0 for the queue that the kernel makes by itself."""
    limit = int(options.get("limit") or 0)
    if kind in ("tbf", "bfifo") and limit:
        told = f"its {kind} serves frames as they come: control frames wait behind up to {limit} bytes of data"
        return Room(most_bytes=limit - min(KEPT_BYTES, limit // 4), waits=told)
    if kind in ("pfifo", "netem") and limit:
        told = f"its {kind} serves frames as they come: control frames wait behind up to {limit} packets"
        return Room(most_packets=limit - min(KEPT_PACKETS, limit // 4), waits=told)
    if handle and kind not in ("noqueue", "pfifo_fast", "mqprio", "prio"):
        return Room(waits=f"Baton does not know whether its {kind} serves control frames (priority {CONTROL_PRIORITY}) first")
    return Room()
