"""The tree of switches that run a spanning tree protocol of their own: real rings of OVS and of Linux bridges.

Each ring is of three switches, 1 the root by its address: the link 2 - 3 is blocked, and forwards once 1 - 2 is down.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.config.settings import TreeSource
from controller.spanning_tree.sources import TreeSourceError, read, tree_from_port_states
from emulation.fabric.ovs import OpenVSwitch
from tests.emulation.controller.spanning_tree.rstp_ring import PAIRS, RUNS, run
from topology.fabric import Fabric, FabricBuilder, Link
from topology.problems import FabricError
from topology.spanning_tree import Tree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes interfaces, bridges and namespaces"),
    pytest.mark.skipif(shutil.which("bridge") is None, reason="needs bridge(8), of the package iproute2"),
]

GIGABIT = 10**9
MOST_S = 5.0
"""Five times what docs/operating.md says of a cut link, from when the switches forward along the new tree."""
CONVERGENCE_S = 40.0  # with TIMERS max age and twice the forward delay are 10 s
TIMERS = ("forward_delay", "200", "hello_time", "100", "max_age", "600")  # the least, in hundredths of a second


def ring(switch: Callable[[int], str], port: Callable[[int, int], str]) -> Fabric:
    """The ring as a fabric; `port(x, y)` is the name of the port of switch x towards switch y."""
    builder = FabricBuilder()
    for number in (1, 2, 3):
        builder.add_switch(switch(number), dpid=number)
    for x, y in PAIRS:
        builder.add_link(switch(x), switch(y), GIGABIT, port(x, y), port(y, x))
    return builder.build()


def wait_for(fabric: Fabric, sources: list[TreeSource], blocked: Link) -> float:
    """Reads until just this link is blocked; the seconds that it took."""
    began = time.monotonic()
    last: Tree | FabricError | None = None
    while time.monotonic() - began < CONVERGENCE_S:
        try:
            last = tree_from_port_states(fabric, read(*sources))
        except FabricError as error:  # read between two switches' changes
            last = error
        else:
            if last.blocked == {blocked}:
                return time.monotonic() - began
        time.sleep(0.05)
    pytest.fail(f"{blocked} is not the blocked link after {CONVERGENCE_S} s; last read: {last}")


def as_read(*sources: TreeSource) -> set[tuple[str, bool]]:
    return {(state.port, state.forwarding) for state in read(*sources)}


def assert_soon(pair: Callable[[], tuple[set[tuple[str, bool]], set[tuple[str, bool]]]]) -> None:
    """That two readings of changing ports agree, once they have settled: both show six."""
    deadline = time.monotonic() + CONVERGENCE_S
    while True:
        ours, theirs = pair()
        if (len(theirs) == 6 and ours == theirs) or time.monotonic() > deadline:
            assert ours == theirs
            assert len(theirs) == 6
            return
        time.sleep(0.05)


def wait_until_they_forward(theirs: Callable[[], set[tuple[str, bool]]], *ports: str) -> None:
    """Until another tool shows that these ports forward."""
    deadline = time.monotonic() + CONVERGENCE_S
    while not {(port, True) for port in ports} <= theirs():
        assert time.monotonic() < deadline, f"{' and '.join(ports)} do not forward after {CONVERGENCE_S} s"
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("ovs-vswitchd") is None, reason="needs ovs-vswitchd, of the package openvswitch-switch")
class TestOpenVSwitch:
    """Three bridges of a private Open vSwitch with RSTP, joined by veth pairs."""

    def test_the_tree_is_what_rstp_made_and_follows_a_cut_link(self, ovs: OpenVSwitch, prefix: str) -> None:
        fabric = ring(lambda x: f"{prefix}s{x}", lambda x, y: f"{prefix}p{x}{y}")
        source = TreeSource("ovsdb", f"unix:{ovs.rundir}/db.sock")
        wait_for(fabric, [source], Link(f"{prefix}s2", f"{prefix}s3"))
        assert_soon(lambda: (as_read(source), self._as_rstp_show(ovs, prefix)))

        run("ip", "link", "set", f"{prefix}p12", "down")
        wait_until_they_forward(lambda: self._as_rstp_show(ovs, prefix), f"{prefix}p23", f"{prefix}p32")
        took_s = wait_for(fabric, [source], Link(f"{prefix}s1", f"{prefix}s2"))
        assert took_s <= MOST_S

    @staticmethod
    def _as_rstp_show(ovs: OpenVSwitch, prefix: str) -> set[tuple[str, bool]]:
        states = set()
        for number in (1, 2, 3):
            shown = ovs.appctl("rstp/show", f"{prefix}s{number}")
            states |= {(port, state == "Forwarding") for port, state in re.findall(rf"({prefix}p\d\d)\s+\w+\s+(\w+)", shown)}
        return states


class TestLinuxBridges:
    """Three bridges with the kernel's STP, each in a namespace of its own."""

    @pytest.fixture
    def namespaces(self) -> Iterator[list[str]]:
        names = [f"bt{os.getpid()}-{next(RUNS)}" for _ in range(3)]
        try:
            for name in names:
                run("ip", "netns", "add", name)
            yield names
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    @pytest.fixture
    def bridges(self, namespaces: list[str]) -> list[str]:
        for number, namespace in enumerate(namespaces, 1):
            made = subprocess.run(
                ["ip", "-n", namespace, "link", "add", f"br{number}", "type", "bridge", "stp_state", "1", *TIMERS],
                check=False,
                capture_output=True,
                text=True,
            )
            if made.returncode:
                pytest.skip(f"the kernel has no bridges with STP: {made.stderr.strip()}")
            run("ip", "-n", namespace, "link", "set", f"br{number}", "address", f"02:00:00:00:01:0{number}", "up")
        for x, y in PAIRS:
            one, other = namespaces[x - 1], namespaces[y - 1]
            pair = ["link", "add", f"p{x}{y}", "type", "veth", "peer", "name", f"p{y}{x}", "netns", other]
            run("ip", "-n", one, *pair)
            run("ip", "-n", one, "link", "set", f"p{x}{y}", "master", f"br{x}", "up")
            run("ip", "-n", other, "link", "set", f"p{y}{x}", "master", f"br{y}", "up")
        state = json.loads(run("ip", "-n", namespaces[0], "-j", "-d", "link", "show", "br1"))
        if state[0]["linkinfo"]["info_data"]["stp_state"] != 1:
            pytest.skip("the kernel's bridge has no STP of its own here")
        return namespaces

    def test_the_tree_is_what_the_kernel_made_and_follows_a_cut_link(self, bridges: list[str]) -> None:
        fabric = ring(lambda x: f"br{x}", lambda x, y: f"p{x}{y}")
        sources = [TreeSource("bridge", f"{namespace}/br{at}") for at, namespace in enumerate(bridges, 1)]
        wait_for(fabric, sources, Link("br2", "br3"))
        assert_soon(lambda: (as_read(*sources), self._as_ip_shows(bridges)))

        run("ip", "-n", bridges[0], "link", "set", "p12", "down")
        wait_until_they_forward(lambda: self._as_ip_shows(bridges), "p23", "p32")
        took_s = wait_for(fabric, sources, Link("br1", "br2"))
        assert took_s <= MOST_S

    def test_a_bridge_without_ports_is_an_error_not_a_tree(self, bridges: list[str]) -> None:
        with pytest.raises(TreeSourceError, match=f"bridge:{bridges[0]}/br2 has no ports; "):
            read(TreeSource("bridge", f"{bridges[0]}/br2"))

    @staticmethod
    def _as_ip_shows(namespaces: list[str]) -> set[tuple[str, bool]]:
        links = [link for name in namespaces for link in json.loads(run("ip", "-n", name, "-j", "-d", "link"))]
        return {
            (link["ifname"], link["linkinfo"]["info_slave_data"]["state"] == "forwarding")
            for link in links
            if link.get("linkinfo", {}).get("info_slave_kind") == "bridge"
        }


@pytest.mark.parametrize("where", ["bridge:no-such-namespace/br0", "ovsdb:unix:{tmp}/no.sock"])
def test_a_source_that_does_not_answer_is_named_in_one_line(where: str, tmp_path: Path) -> None:
    kind, _, address = where.format(tmp=tmp_path).partition(":")
    with pytest.raises(TreeSourceError) as caught:
        read(TreeSource(kind, address))
    assert f"tree source {kind}:{address} can't be read: " in str(caught.value)
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)
