"""Switches with thousands of ports."""

from __future__ import annotations

import time

from controller.openflow.discovery import Discovery
from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.ports import PROBE_NS
from controller.openflow.view import Port
from protocol.units import MILLISECOND_NS

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


def test_frames_that_come_before_a_switch_joins_do_not_make_it_count_as_one_without_ports() -> None:
    """A switch of 400 ports passes on 1,000 frames a second, less than it may: the silence of a host at another port counts."""
    discovery, here, there = Discovery(), PortRef(1, 1), PortRef(1, 2)
    discovery.admits(here, lldp=False, now_ns=0)
    discovery.switch_up(1, "s1", [Port(number, f"p{number}", True) for number in range(1, 401)], 0)
    for at in (here, there):
        discovery.frame_seen(at, "02:00:00:00:00:01", PROBE_NS)
    discovery.applied(PROBE_NS)
    for at in range(1_000):
        now_ns = PROBE_NS + at * MILLISECOND_NS
        discovery.admits(PortRef(1, 3 + at % 300), lldp=False, now_ns=now_ns)
        discovery.read_until(1, now_ns)
        discovery.tick(now_ns)
    assert discovery.view(now_ns).hosts["02:00:00:00:00:01"].at == there
