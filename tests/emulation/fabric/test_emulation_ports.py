"""Shaped switch ports on a real kernel, under a real Open vSwitch; checked with tc, ip and ss."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulation.fabric.fabric import EmulatedFabric
from emulation.fabric.ovs import OpenVSwitch
from emulation.fabric.ports import noop_qos
from emulation.traffic.experiment import Flow, run
from topology import shapes
from topology.fabric import DirectedLink

RATE_BPS = 20_000_000
"""As low as the switch forwards on any machine: two floods fill the queue."""
PORT = "s1-eth3"
BOTTLENECK = DirectedLink("s1", "h3")

pytestmark = pytest.mark.usefixtures("in_a_box")

# Sends datagrams of 1000 bytes, so many or else until it is killed, as fast as the host's link takes them; the receiver counts
# until no more arrive.
BURST = """
import itertools, socket, sys
to, *counts = sys.argv[1:]
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(counts[0])) if counts else itertools.count():
    sender.sendto(bytes(1000), (to, 9))
"""
COUNT = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
receiver.bind(("", 9))
receiver.settimeout(5)
print("ready", flush=True)
count = 0
try:
    while True:
        receiver.recv(2000)
        count += 1
        receiver.settimeout(0.5)
except TimeoutError:
    print(count)
"""
CONTROL = """
import socket, sys
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind((sys.argv[1], 0))
for _ in range(int(sys.argv[2])):
    sender.send(bytes.fromhex(sys.argv[3]) + bytes.fromhex("020000000001") + bytes.fromhex("88b5") + bytes(46))
"""


@pytest.fixture
def star() -> Iterator[EmulatedFabric]:
    with EmulatedFabric(shapes.star(hosts=3, rate_bps=RATE_BPS), static_arp=True) as emulated:
        yield emulated


def tc(*arguments: str) -> list[dict[str, Any]]:
    out = subprocess.run(["tc", "-s", "-j", *arguments], capture_output=True, text=True, check=True).stdout
    return list(json.loads(out or "[]"))


def queue(handle: str, port: str = PORT) -> dict[str, Any]:
    return next(one for one in tc("qdisc", "show", "dev", port) if one["handle"] == handle)


def python_in(emulated: EmulatedFabric, host: str, program: str, *arguments: str) -> subprocess.Popen[str]:
    return emulated.popen(host, [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)


def test_every_datagram_arrives_or_is_counted_as_dropped_by_its_queue(star: EmulatedFabric) -> None:
    receiver = python_in(star, "h3", COUNT)
    assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
    star.ovs.overruns()
    each = 4000
    senders = [python_in(star, host, BURST, "10.0.0.3", str(each)) for host in ("h1", "h2")]
    for sender in senders:
        sender.communicate(timeout=10)
    received = int(receiver.communicate(timeout=20)[0])
    drops = queue("13:")["drops"]
    overruns = star.ovs.overruns()  # a busy machine loses frames there
    assert drops > 0
    assert drops + overruns > each / 4
    assert received + drops + overruns == 2 * each
    counters = star.counters(BOTTLENECK)
    assert counters.drops == drops
    assert counters.data.sent_packets == queue("13:")["packets"] >= received


def test_the_buffer_holds_as_many_packets_as_it_should_and_the_link_is_as_fast_as_it_should(star: EmulatedFabric) -> None:
    flows = [Flow("udp", host, "h3", size=1472) for host in ("h1", "h2")]
    outcome = run(star, flows, duration_s=1.5, warmup_s=0.5, bottlenecks=[BOTTLENECK], sample_occupancy=True)
    packets = outcome.occupancy[BOTTLENECK].packets
    assert max(packets) == star.buffer_packets
    # 1472 bytes of each 1514: what HTB counts has no preamble, gap and checksum. Less where the switch waits for a processor.
    most = RATE_BPS / 1e6 * 1472 / 1514
    assert 0.8 * most < outcome.goodput_mbps < 1.03 * most
    assert 0.1 < outcome.ports[BOTTLENECK].drop_fraction < 0.6


def test_control_frames_overtake_a_full_queue(star: EmulatedFabric) -> None:
    capture = star.popen(
        "h3",
        ["tcpdump", "-i", "h3-eth0", "-c", "20", "-l", "-n", "ether proto 0x88b5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert capture.stderr is not None and "listening" in capture.stderr.readline() + capture.stderr.readline()
    flood = [python_in(star, host, BURST, "10.0.0.3") for host in ("h1", "h2")]
    try:
        deadline = time.monotonic() + 20
        while queue("13:")["qlen"] < 50:
            assert time.monotonic() < deadline, "the queue does not fill"
        python_in(star, "h2", CONTROL, "h2-eth0", "20", star.node("h3").MAC().replace(":", "")).wait(10)
        assert capture.communicate(timeout=10)[0].count("(0x88b5)") == 20
        assert (queue("12:")["packets"], queue("12:")["drops"]) == (20, 0)
        assert star.counters(BOTTLENECK).control.sent_packets == 20
    finally:
        for process in (*flood, capture):
            process.kill()
            process.communicate()


def test_what_is_changed_behind_our_back_is_found_named_and_put_right(star: EmulatedFabric) -> None:
    assert star.verify() == []
    before, rate = shaping(PORT), f"8000000 bit/s, not {RATE_BPS}"
    for change, named in (
        (("qdisc", "del", "dev", PORT, "root"), "queue 1: is nothing, not htb"),
        (("qdisc", "del", "dev", PORT, "clsact"), "the classifier that hides drops is gone"),
        (("qdisc", "change", "dev", PORT, "parent", "1:3", "handle", "13:", "pfifo", "limit", "7"), "holds 7 packets, not 100"),
        (("class", "change", "dev", PORT, "parent", "1:", "classid", "1:1", "htb", "rate", "8mbit"), rate),
        (("filter", "del", "dev", PORT, "parent", "1:"), "the filter for control frames is gone"),
    ):
        subprocess.run(["tc", *change], check=True)
        drifts = star.verify()
        assert any(drift.startswith(PORT) and named in drift for drift in drifts), (change, drifts)
        assert shaping(PORT) == before
    star.run_in("h1", "tc", "qdisc", "del", "dev", "h1-eth0", "root")
    assert star.verify(hosts=False) == []
    assert star.verify() == ["h1-eth0: the root queue is noqueue, not tbf"]
    assert star.verify() == []


def shaping(port: str) -> str:
    """The queues as tc shows them, without counters and the ids that the kernel chooses."""
    shown = [subprocess.run(["tc", *what], capture_output=True, text=True, check=True).stdout for what in (
        ("qdisc", "show", "dev", port), ("class", "show", "dev", port), ("filter", "show", "dev", port, "parent", "1:"),
    )]
    text = "\n".join("\n".join(sorted(text.splitlines())) for text in shown)
    return re.sub(r"direct_packets_stat \d+", "", text)


def test_open_vswitch_leaves_our_queues_alone_whatever_it_is_told(star: EmulatedFabric) -> None:
    port, ovs = star.ports[BOTTLENECK], star.ovs
    for command in (
        "set Bridge s1 other_config:mac-aging-time=60",
        f"set Interface {PORT} mtu_request=1500",
        "set Bridge s1 rstp_enable=true",
        "set Bridge s1 rstp_enable=false",
        f"set Interface {PORT} ingress_policing_rate=1000",
        f"set Interface {PORT} ingress_policing_rate=0",
        "add-br s2 -- set Bridge s2 datapath_type=netdev -- del-br s2",
        f"del-port s1 {PORT}",
    ):
        ovs.vsctl(*command.split())
        assert port.drifts() == [], command
    ovs.vsctl("add-port", "s1", PORT, "--", *noop_qos(PORT))
    assert port.drifts() == []


def test_without_the_noop_type_open_vswitch_removes_our_queues(star: EmulatedFabric) -> None:
    star.ovs.vsctl("del-port", "s1", PORT)
    star.ovs.vsctl("add-port", "s1", PORT)
    assert any("queue 1: is nothing" in drift for drift in star.ports[BOTTLENECK].drifts())


def test_two_private_switches_run_beside_each_other_and_leave_nothing() -> None:
    with OpenVSwitch() as one:
        one.vsctl("add-br", "first", "--", "set", "Bridge", "first", f"datapath_type={one.datapath_type}")
        with OpenVSwitch() as other:
            assert other.vsctl("list-br") == ""
        assert not other.rundir.exists()
        assert one.vsctl("list-br").split() == ["first"]
        pid = one.switch_pid
    assert not one.rundir.exists()
    assert not Path(f"/proc/{pid}").exists()
    left = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert "first" not in left


def test_the_switch_goes_before_every_other_program() -> None:
    """Two processors have room for one such switch: a second fabric's is refused (EBUSY), and goes by its fixed priority."""
    with EmulatedFabric(shapes.star(hosts=2)) as emulated:
        shown = subprocess.run(["chrt", "--pid", str(emulated.ovs.switch_pid)], capture_output=True, text=True, check=True)
        assert "SCHED_DEADLINE" in shown.stdout
        before_ns = emulated.ovs.waited_ns()
        assert "1 received" in emulated.run_in("h1", "ping", "-c", "1", "-W", "2", str(emulated.endpoints()["h2"]))
        assert emulated.ovs.waited_ns() >= before_ns
