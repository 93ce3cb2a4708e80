"""Switches with thousands of ports."""

from __future__ import annotations

import time

from controller.openflow.discovery import Discovery
from controller.openflow.intake.hosts import PortRef
from controller.openflow.view import Port

PORTS, HOSTS = 4_000, 10_000


def test_the_end_of_a_switch_with_thousands_of_ports_does_not_hold_up_the_others() -> None:
    discovery = Discovery()
    for dpid in (1, 2):
        discovery.switch_up(dpid, f"s{dpid}", [Port(number, f"p{number}", True) for number in range(PORTS)], 0)
    for number in range(HOSTS):
        discovery.frame_seen(PortRef(1, number % PORTS), f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}", 10**9)
    assert len(discovery.view(10**9).hosts) == HOSTS
    began_s = time.process_time()
    discovery.switch_down(2)
    assert len(discovery.view(10**9).hosts) == HOSTS
    discovery.switch_down(1)
    assert not discovery.view(10**9).hosts
    assert time.process_time() - began_s < 2
