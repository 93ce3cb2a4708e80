"""What the agent finds of its host's addresses in real network namespaces, and how it follows changes."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest

from agents.addresses.part import Addresses
from agents.addresses.tables import MOST_ENTRIES, Address
from agents.kernel.speed import link_speed_bps
from protocol.bodies.host_link import HostLink
from protocol.messages import Message
from tests.emulation.namespaces import Pair, inside, pair, run

PATIENCE_S = 5.0


class FakeAgent:
    """An agent that is a member and keeps what it sends."""

    member = True

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)


class Watched:
    """The addresses of eth0 in a namespace, as they are announced."""

    def __init__(self, namespace: str, *configured: str, room: int = 1000) -> None:
        self.agent = FakeAgent()
        self.announced: list[tuple[Address, ...]] = []
        with inside(namespace):
            self.part = Addresses(
                cast(Any, self.agent), "eth0", tuple(map(ip_address, configured)), room,
                lambda addresses, _: self.announced.append(addresses), time.monotonic_ns,
            )  # fmt: skip

    @property
    def now(self) -> list[str]:
        return [str(address) for address in self.announced[-1]]

    def turn(self) -> None:
        """A turn of an agent's loop."""
        for descriptor in select.select(self.part.descriptors, (), (), 0)[0]:
            self.part.descriptors[descriptor](time.monotonic_ns())
        self.part.advance(time.monotonic_ns())

    def until(self, *wanted: str) -> None:
        """Lets the part work until these addresses are announced."""
        end_s = time.monotonic() + PATIENCE_S
        while self.now != list(wanted) and time.monotonic() < end_s:
            self.turn()
            time.sleep(0.01)
        assert self.now == list(wanted)

    def work(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.turn()
            time.sleep(0.01)


@pytest.fixture
def hosts() -> Iterator[Pair]:
    with pair() as made:
        yield made


@pytest.fixture
def bridged(hosts: Pair) -> Iterator[tuple[Pair, str]]:
    """The left host's eth0 is a port of br0 (10.9.0.100), and a VM at another port has 10.9.0.50."""
    vm, left = f"{hosts.left}vm", hosts.left
    run("ip", "netns", "add", vm)
    try:
        run("ip", "-n", left, "addr", "flush", "dev", "eth0")
        run("ip", "-n", left, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", left, "link", "set", "eth0", "master", "br0")
        run("ip", "-n", left, "link", "add", "tap0", "type", "veth", "peer", "name", "eth0", "netns", vm)
        run("ip", "-n", left, "link", "set", "tap0", "master", "br0")
        for name in ("br0", "tap0"):
            run("ip", "-n", left, "link", "set", name, "up")
        run("ip", "netns", "exec", vm, "sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")  # it sends nothing by itself
        run("ip", "-n", vm, "link", "set", "eth0", "up")
        run("ip", "-n", vm, "addr", "add", "10.9.0.50/24", "dev", "eth0")
        run("ip", "-n", left, "addr", "add", "10.9.0.100/24", "dev", "br0")
        yield hosts, vm
    finally:
        subprocess.run(("ip", "netns", "del", vm), check=False, capture_output=True)


def ping(namespace: str, address: str) -> None:
    run("ip", "netns", "exec", namespace, "ping", "-q", "-c", "1", "-W", "2", address)


def test_it_wakes_for_notifications_but_not_for_each_and_for_nothing_else(hosts: Pair) -> None:
    watched = Watched(hosts.left)
    watched.agent.member = False
    watched.work(0.5)
    part = watched.part
    assert part.next_due_ns() is None and not select.select(part.descriptors, (), (), 0.5)[0]
    looked, turns, end_s = 0, 0, time.monotonic() + 1.0
    number = 0
    while time.monotonic() < end_s:
        number += 1
        run("ip", "-n", hosts.left, "addr", "add", f"10.9.{1 + number // 250}.{number % 250}/32", "dev", "eth0")
        turns += bool(select.select(part.descriptors, (), (), 0)[0])
        before = part._bell._looked_ns
        watched.turn()
        looked += part._bell._looked_ns != before
    assert 2 <= looked < number / 4 and turns <= looked + 1, "ten looks a second, and a few more while it is behind"


class TestOwnAddresses:
    """Those of the interface, and of its VLANs."""

    def test_they_are_found_at_the_start_and_followed(self, hosts: Pair) -> None:
        watched = Watched(hosts.left)
        assert watched.now == ["10.9.0.1"]
        run("ip", "-n", hosts.left, "addr", "add", "10.9.0.70/24", "dev", "eth0")
        watched.until("10.9.0.1", "10.9.0.70")
        run("ip", "-n", hosts.left, "addr", "del", "10.9.0.1/24", "dev", "eth0")  # secondary addresses go with it
        run("ip", "-n", hosts.left, "addr", "replace", "10.9.0.71/24", "dev", "eth0")
        watched.until("10.9.0.71")

    def test_ipv6_addresses_are_found_once_they_are_in_use_and_link_local_ones_are_not(self, hosts: Pair) -> None:
        run("ip", "netns", "exec", hosts.left, "sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0")
        watched = Watched(hosts.left)
        run("ip", "-n", hosts.left, "addr", "add", "fd00::1/64", "dev", "eth0")
        watched.until("10.9.0.1", "fd00::1")

    @pytest.mark.parametrize("kind", [("vlan", "id", "10"), ("macvlan", "mode", "bridge")])
    def test_an_interface_on_it_that_is_made_later_counts_and_another_interface_does_not(
        self, hosts: Pair, kind: tuple[str, ...]
    ) -> None:
        watched = Watched(hosts.left)
        upper = ("ip", "-n", hosts.left, "link", "add", "eth0.10", "link", "eth0", "type", *kind)
        if "Unknown device type" in subprocess.run(upper, capture_output=True, text=True, check=False).stderr:
            pytest.skip(f"this kernel has no {kind[0]} interfaces")
        run("ip", "-n", hosts.left, "addr", "add", "10.10.0.1/24", "dev", "eth0.10")
        run("ip", "-n", hosts.left, "link", "add", "other", "type", "veth", "peer", "name", "another")
        run("ip", "-n", hosts.left, "addr", "add", "10.11.0.1/24", "dev", "other")
        watched.until("10.9.0.1", "10.10.0.1")
        run("ip", "-n", hosts.left, "link", "del", "eth0.10")
        watched.until("10.9.0.1")

    def test_what_does_not_fit_is_left_out_and_counted_and_configured_addresses_come_first(self, hosts: Pair) -> None:
        watched = Watched(hosts.left, "10.20.0.9", room=10)
        run("ip", "-n", hosts.left, "addr", "add", "10.9.0.70/24", "dev", "eth0")
        watched.work(1.5)
        assert watched.now == ["10.9.0.1", "10.20.0.9"]
        watched.agent.sent.clear()
        watched.work(2.5)
        reports = [message for message in watched.agent.sent if isinstance(message, HostLink)]
        assert reports and {report.left_out for report in reports} == {1}

    def test_the_leader_hears_at_most_once_a_second_of_an_address_that_flaps(self, hosts: Pair) -> None:
        watched = Watched(hosts.left)
        for _ in range(20):
            run("ip", "-n", hosts.left, "addr", "add", "10.9.0.70/24", "dev", "eth0")
            watched.work(0.05)
            run("ip", "-n", hosts.left, "addr", "del", "10.9.0.70/24", "dev", "eth0")
            watched.work(0.05)
        assert len(watched.announced) <= 6


class TestBehindABridge:
    """Where the interface is a bridge's port: the bridge's addresses, and those of the stations at its other ports."""

    def test_a_vm_is_found_once_the_host_knows_its_address(self, bridged: tuple[Pair, str]) -> None:
        hosts, vm = bridged
        watched = Watched(hosts.left)
        assert watched.now == ["10.9.0.100"]
        ping(vm, "10.9.0.100")
        watched.until("10.9.0.50", "10.9.0.100")
        assert "10.9.0.50 (behind br0)" in watched.part.described()
        run("ip", "-n", hosts.left, "link", "del", "tap0")
        watched.until("10.9.0.100")

    def test_hosts_of_the_fabric_are_not_behind_the_bridge(self, bridged: tuple[Pair, str]) -> None:
        hosts, _ = bridged
        ping(hosts.right, "10.9.0.100")
        watched = Watched(hosts.left)
        watched.work(0.5)
        assert watched.now == ["10.9.0.100"] and watched.part.found.unknown_stations == 0

    def test_a_vm_that_sends_with_other_sources_gets_no_address_by_that(self, bridged: tuple[Pair, str]) -> None:
        hosts, vm = bridged
        watched = Watched(hosts.left)
        ping(vm, "10.9.0.100")
        watched.until("10.9.0.50", "10.9.0.100")
        run("ip", "-n", vm, "addr", "add", "10.9.0.2/32", "dev", "lo")  # the right host's
        subprocess.run(
            ("ip", "netns", "exec", vm, "ping", "-q", "-c", "3", "-i", "0.1", "-W", "1", "-I", "10.9.0.2", "10.9.0.100"),
            check=False, capture_output=True,
        )  # fmt: skip
        watched.work(0.5)
        assert watched.now == ["10.9.0.50", "10.9.0.100"]

    def test_stations_without_a_known_address_are_counted(self, bridged: tuple[Pair, str]) -> None:
        hosts, vm = bridged
        run("ip", "-n", hosts.left, "addr", "flush", "dev", "br0")
        ping(vm, "10.9.0.2")
        watched = Watched(hosts.left)
        assert watched.announced == [()] and watched.part.found.unknown_stations == 1
        assert "1 stations behind br0" in watched.part.described()

    def test_a_flood_of_stations_is_bounded_and_changes_are_still_followed(
        self, bridged: tuple[Pair, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        hosts, _ = bridged
        watched = Watched(hosts.left)
        flood = tmp_path / "flood"
        flood.write_text(
            "".join(f"fdb add 02:aa:00:00:{n >> 8:02x}:{n & 255:02x} dev tap0 master static\n" for n in range(6000))
        )
        run("ip", "netns", "exec", hosts.left, "bridge", "-batch", str(flood))
        run("ip", "-n", hosts.left, "addr", "add", "10.9.0.101/24", "dev", "br0")
        watched.until("10.9.0.100", "10.9.0.101")
        assert len(watched.part._watch.tables.stations) <= MOST_ENTRIES
        longest_s, end_s = 0.0, time.monotonic() + 2
        while time.monotonic() < end_s:
            begun_s = time.thread_time()
            watched.part.advance(time.monotonic_ns())
            longest_s = max(longest_s, time.thread_time() - begun_s)
            time.sleep(0.005)
        assert longest_s < 0.01
        (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warning.startswith(f"br0 has more than {MOST_ENTRIES} neighbours or stations: name addresses of guests")


class TestTheLinksSpeed:
    """A virtual interface's number is no link's rate."""

    def test_a_veth_has_no_speed_to_tell(self, hosts: Pair) -> None:
        with inside(hosts.left):
            assert link_speed_bps("eth0") == 0

    def test_an_interface_that_is_not_there_is_an_error(self, hosts: Pair) -> None:
        with inside(hosts.left), pytest.raises(OSError, match="no interface"):
            link_speed_bps("eth7")
