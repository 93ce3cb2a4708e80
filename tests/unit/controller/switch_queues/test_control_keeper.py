"""What the keeper of control frames tells the OpenFlow application."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

from controller.switch_queues.control_keeper import ControlKeeper, Stranger

GONE = 1 << 30


def test_a_station_behind_a_port_that_is_gone_by_now_hides_no_other() -> None:
    lo = socket.if_nametoindex("lo")
    heard = [(GONE, bytes(6)), (lo, bytes(range(6)))]
    bypasses: Any = {"1": SimpleNamespace(strangers=lambda: heard, close=lambda: None)}
    keeper = ControlKeeper()
    keeper._bypasses = bypasses
    assert keeper.strangers() == [Stranger("1", "lo", "00:01:02:03:04:05")]
    keeper.close()
