"""Emulated fabrics: hosts, VMs, rings, cables, and nothing left behind; checked with ping, ip, ss and ovs-appctl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulation.fabric.fabric import EmulatedFabric, EmulationError
from emulation.traffic.experiment import Flow, run
from topology import shapes
from topology.fabric import FabricBuilder

pytestmark = pytest.mark.usefixtures("in_a_box")

REPOSITORY = Path(__file__).parents[3]


def test_every_host_reaches_every_other_and_the_end_leaves_nothing() -> None:
    with EmulatedFabric(shapes.dumbbell(left=2, right=2)) as emulated:
        for source in emulated.endpoints():
            for target in map(str, emulated.endpoints().values()):
                assert "1 received" in emulated.run_in(source, "ping", "-c", "1", "-W", "2", target)
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout)
    assert [link["ifname"] for link in links] == ["lo"]
    commands = subprocess.run(["ps", "-e", "-o", "args="], capture_output=True, text=True, check=True).stdout
    assert "mininet:" not in commands and "ovs-vswitchd" not in commands


def test_a_start_that_fails_leaves_nothing() -> None:
    fabric = FabricBuilder().add_switch("s1").add_host("h1", ["192.168.1.1"]).add_link("h1", "s1", 10**8).build()
    with pytest.raises(EmulationError, match=r"192\.168\.1\.1 is not in 10\.0\.0\.0/8"), EmulatedFabric(fabric):
        pass
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout)
    assert [link["ifname"] for link in links] == ["lo"]


def test_the_end_comes_even_when_the_switch_has_ended_before() -> None:
    with EmulatedFabric(shapes.star(hosts=2)) as emulated:
        os.kill(emulated.ovs.switch_pid, signal.SIGKILL)
        began = time.monotonic()
    assert time.monotonic() - began < 30
    with EmulatedFabric(shapes.star(hosts=2)) as emulated:  # the first left nothing in its way
        emulated.run_in("h1", "ping", "-c", "1", "-W", "2", "10.0.0.2")


def test_a_name_too_long_for_an_interface_is_refused_before_anything_is_made() -> None:
    fabric = FabricBuilder().add_switch("s1").add_host("a-rather-long-name").add_link("a-rather-long-name", "s1", 10**8).build()
    with pytest.raises(EmulationError, match="a-rather-long-name-eth0"):
        EmulatedFabric(fabric)


def test_vms_reach_the_others_through_their_hosts_one_interface() -> None:
    with EmulatedFabric(shapes.star(hosts=2, vms=3)) as emulated:
        assert list(emulated.endpoints()) == ["h1v1", "h1v2", "h1v3", "h2v1", "h2v2", "h2v3"]
        for source, target in (("h1v1", "h1v3"), ("h1v2", "h2v1"), ("h2v3", "h1v1")):
            assert "1 received" in emulated.run_in(source, "ping", "-c", "1", "-W", "2", str(emulated.endpoints()[target]))
        ports = json.loads(emulated.run_in("h1", "bridge", "-j", "link"))
        assert {port["ifname"] for port in ports} == {emulated.interface("h1"), "h1-v1", "h1-v2", "h1-v3"}


def test_vms_that_flood_share_their_hosts_link_and_are_held_back_by_it_without_loss() -> None:
    with EmulatedFabric(shapes.star(hosts=2, vms=2), static_arp=True) as emulated:
        flows = [Flow("udp", "h1v1", "h2v1"), Flow("udp", "h1v2", "h2v2")]
        outcome = run(emulated, flows, duration_s=1.5, warmup_s=0.5, bottlenecks=[("s1", "h2")])
        assert outcome.goodput_mbps == pytest.approx(97.7, rel=0.1)
        assert outcome.jain > 0.9
        root = json.loads(emulated.run_in("h1", "tc", "-s", "-j", "qdisc", "show", "dev", "h1-eth0"))[0]
        assert (root["kind"], root["drops"]) == ("tbf", 0)


def test_tcp_uses_the_congestion_control_asked_for_whatever_the_machines_default() -> None:
    program = (
        "import socket, sys\n"
        "peer = socket.create_connection((sys.argv[1], 5001), timeout=5)\n"
        "print(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)).decode())"
    )
    for wanted in ("cubic", "reno"):
        with EmulatedFabric(shapes.star(hosts=2), congestion_control=wanted) as emulated:
            server = emulated.popen("h2", [sys.executable, "-m", "http.server", "5001"], stderr=subprocess.DEVNULL)
            try:
                time.sleep(0.7)
                assert emulated.run_in("h1", sys.executable, "-c", program, "10.0.0.2").strip() == wanted
            finally:
                server.kill()
                server.wait()


def test_switches_on_a_ring_block_one_link_and_heal_when_another_is_unplugged() -> None:
    with EmulatedFabric(shapes.ring(switches=3)) as emulated:
        assert emulated.rstp

        def forwarding() -> int:
            return sum(emulated.ovs.appctl("rstp/show", name).count("Forwarding") for name in emulated.fabric.switches)

        def reached() -> bool:
            ping = emulated.popen("h1", ["ping", "-c", "1", "-W", "1", "10.0.0.2"], stdout=subprocess.DEVNULL)
            return bool(ping.wait() == 0)

        deadline = time.monotonic() + 40
        while not reached():
            assert time.monotonic() < deadline, "the ring never forwards"
        assert forwarding() > 0
        emulated.set_link("s1", "s2", up=False)
        while not reached():
            assert time.monotonic() < deadline, "the ring does not heal"


def test_the_coordinators_port_has_no_rate_and_is_none_of_the_fabrics() -> None:
    with EmulatedFabric(shapes.star(hosts=2)) as emulated:
        assert emulated.coordinator_port == "s1-eth3"
        queues = json.loads(
            subprocess.run(["tc", "-j", "qdisc", "show", "dev", "s1-eth3"], capture_output=True, check=True).stdout or "[]"
        )
        assert [one["kind"] for one in queues] in ([], ["noqueue"])
        assert emulated.coordinator_interface in emulated.run_in("coord", "ip", "-br", "link", "show", "up")


def test_the_environment_record_tells_queues_and_settings_as_they_are_in_the_hosts() -> None:
    with EmulatedFabric(shapes.star(hosts=2), buffer_packets=50) as emulated:
        record = emulated.environment()
    assert record["qdiscs"] == {"host": ["tbf", "clsact"], "switch_port": ["htb", "pfifo", "pfifo", "clsact"]}
    assert (record["buffer_packets"], record["congestion_control"]) == (50, "cubic")
    assert record["host_sysctl"]["net.ipv4.ipfrag_time"] == "1"
    assert record["open_vswitch"] and record["kernel"]
    json.dumps(record)


def test_mn_custom_runs_our_shapes() -> None:
    mn = (sys.executable, "/usr/bin/mn", "--custom", str(REPOSITORY / "mininet/topologies.py"), "--controller", "none")
    options = ("--topo", "dumbbell,left=1,right=1", "--switch", "ovsbr,datapath=user", "--test", "pingall")
    done = subprocess.run(
        [sys.executable, "-m", "emulation.fabric.ovs", "--", *mn, *options],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=60,
        check=False,
    )
    assert "0% dropped (2/2 received)" in done.stdout + done.stderr, done.stderr


def test_a_name_is_never_a_shells_command(tmp_path: Path) -> None:
    name = f"h;cd {tmp_path};touch x;1".replace(" ", "${IFS}")
    fabric = FabricBuilder().add_switch("s1").add_host(name, ["10.0.0.1"]).add_link(name, "s1", 10**8, "h-eth0").build()
    with pytest.raises(EmulationError, match="cannot be the name"), EmulatedFabric(fabric):
        pass
    assert not list(tmp_path.iterdir())
