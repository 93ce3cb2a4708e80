"""A switch port's priorities, marking and buffer on a real kernel: what leaves the port is captured at the other end of the
cable and read with scapy; what is set and counted is read with tc.

The port is so slow (1 Mb/s, 11 ms a frame) that all of a burst is enqueued while its first frames leave.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from socket import AF_PACKET, SOCK_RAW, htons, socket
from typing import Any

import pytest
from pyroute2 import IPRoute
from scapy.all import ICMP, IP, UDP, Dot1Q, Ether, IPv6, Packet, Raw
from scapy.layers.inet6 import ICMPv6EchoRequest

from controller.switch_queues.control_keeper import ControlKeeper
from controller.switch_queues.model import MAX_RATE_BPS, QUEUES, PortQueues, SwitchQueues, each_queue
from controller.switch_queues.port import PortTaken, QueuedPort
from emulation.fabric.fabric import EmulatedFabric
from emulation.fabric.ports import OccupancySampler
from topology import shapes
from topology.fabric import DirectedLink

pytestmark = pytest.mark.usefixtures("in_a_box")

RATE_BPS = 1_000_000
FRAME = 1400
AHEAD = 8
"""Frames that may leave before the rest is there: the bucket holds 3.2 of them, and the sender may be late."""
ECT, CE = 2, 3
NONE = (0,) * QUEUES
"""No packets reserved."""
_numbers = itertools.count()
BOTTLENECK = DirectedLink("s1", "h3")
DATAGRAMS = 4000
BURST = f"""
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[1]))
for _ in range({DATAGRAMS}):
    sender.sendto(sys.argv[1].encode().ljust(1000), ("10.0.0.3", 9))
"""
COUNT = """
import json, socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
receiver.bind(("", 9))
receiver.settimeout(5)
print("ready", flush=True)
count = {b"28": 0, b"0": 0}
try:
    while True:
        count[receiver.recv(2000).strip()] += 1
        receiver.settimeout(1)
except TimeoutError:
    print(json.dumps(list(count.values())))
"""


class Cable:
    """A veth pair: frames are sent into the port as a switch does, and taken at the other end."""

    def __init__(self, name: str) -> None:
        self.port, self.far = name, f"{name}f"
        tool("ip", "link", "add", self.port, "type", "veth", "peer", "name", self.far)
        for end in (self.port, self.far):
            tool("sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
            tool("ip", "link", "set", end, "up")
        self._sender, self._taker = (socket(AF_PACKET, SOCK_RAW, htons(kind)) for kind in (0, 3))
        self._sender.bind((self.port, 0))
        self._taker.bind((self.far, 3))
        self._taker.settimeout(0.5)

    def close(self) -> None:
        self._sender.close()
        self._taker.close()
        subprocess.run(["ip", "link", "del", self.port], check=False, capture_output=True)

    def send(self, frames: list[Packet]) -> list[Packet]:
        """Sends them at once; what arrives, until nothing does for half a second."""
        for frame in [bytes(frame) for frame in frames]:
            assert self._sender.send(frame) == len(frame)
        taken = []
        while True:
            try:
                taken.append(Ether(self._taker.recv(2000)))
            except TimeoutError:
                return taken


def tool(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def tc(port: str, handle: str) -> dict[str, Any]:
    """What `tc -s -j` says of one queue."""
    queues = json.loads(tool("tc", "-s", "-j", "qdisc", "show", "dev", port))
    return next(queue for queue in queues if queue["handle"] == handle)


def ceiling(port: str, classid: str) -> int:
    """The most (bit/s) that a class of HTB sends."""
    units = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
    number, unit = re.findall(r" ceil (\d+)(\w+)", tool("tc", "class", "show", "dev", port, "classid", classid))[0]
    return int(number) * units[unit]


def shown(port: str) -> str:
    """All that tc knows of a port, without counters and what the kernel numbers anew."""
    words = (("qdisc", "show"), ("class", "show"), ("filter", "show", "egress"))
    lines = [line for kind, *verb in words for line in tool("tc", kind, verb[0], "dev", port, *verb[1:]).splitlines()]
    return "\n".join(sorted(line.split(" direct_packets_stat")[0].split(" baton_queues:[")[0] for line in lines))


@pytest.fixture
def cable() -> Iterator[Cable]:
    made = Cable(f"bq{next(_numbers)}")
    yield made
    made.close()


@contextmanager
def queued(cable: Cable, **settings: Any) -> Iterator[QueuedPort]:  # noqa: ANN401 -- SwitchQueues checks them
    with IPRoute() as netlink:
        port = QueuedPort(netlink, cable.port, PortQueues(RATE_BPS, SwitchQueues(**settings)))
        port.apply()
        try:
            yield port
        finally:
            port.remove()
            port.close()


def frame(number: int, dscp: int = 0, ecn: int = 0, version: int = 4, vlan: bool = False) -> Packet:
    """A numbered datagram of FRAME bytes."""
    tos = dscp << 2 | ecn
    ip = IP(src="10.0.0.1", dst="10.0.0.2", tos=tos) if version == 4 else IPv6(src="fd00::1", dst="fd00::2", tc=tos)
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / (Dot1Q(vlan=7) / ip if vlan else ip)
    packet = head / UDP(sport=9, dport=number)
    return packet / Raw(bytes(FRAME - len(packet)))


def other(ethertype: int, target: str = "ff:ff:ff:ff:ff:ff") -> Packet:
    return Ether(src="02:00:00:00:00:01", dst=target, type=ethertype) / Raw(bytes(46))


def tos(packet: Packet) -> int:
    return int(packet[IP].tos if IP in packet else packet[IPv6].tc)


def is_control(packet: Packet) -> bool:
    return bytes(packet)[12:14] == bytes.fromhex("88b5")


def number(packet: Packet) -> int:
    return int(packet[UDP].dport)


class TestOrder:
    """Which frames leave first."""

    def test_a_higher_priority_leaves_before_any_lower_whatever_came_first(self, cable: Cable) -> None:
        dscps = [0, 1, 2, 3, 4, 5, 6, 7, 46]
        with queued(cable):
            taken = cable.send([frame(1, dscp) for _ in range(5) for dscp in dscps])
        assert len(taken) == 5 * len(dscps)
        order = [dscp if dscp < 8 else 0 for dscp in (tos(packet) >> 2 for packet in taken[AHEAD:])]
        assert order == sorted(order, reverse=True)

    def test_frames_of_one_priority_stay_in_order(self, cable: Cable) -> None:
        with queued(cable):
            taken = cable.send([frame(n, n % 2) for n in range(40)])
        for priority in (0, 1):
            assert [number(packet) for packet in taken if tos(packet) >> 2 == priority] == list(range(priority, 40, 2))

    def test_control_leaves_before_the_networks_own_and_that_before_data(self, cable: Cable) -> None:
        ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        ping = ethernet / IP(src="10.0.0.1", dst="10.0.0.2") / ICMP()
        ping6 = ethernet / IPv6(src="fd00::1", dst="fd00::2") / ICMPv6EchoRequest()
        bpdu = Ether(bytes.fromhex("0180c2000000") + bytes(6) + bytes.fromhex("0026424203") + bytes(40))
        network = [other(0x0806), other(0x88CC), ping, ping6, bpdu]
        with queued(cable):
            taken = cable.send([frame(1, 7) for _ in range(20)] + network + [other(0x88B5) for _ in range(3)])
        kinds = ["data" if UDP in packet else "control" if is_control(packet) else "network" for packet in taken]
        assert len(taken) == 28
        first = kinds.index("control")
        network_left, data_left = 5 - kinds[:first].count("network"), 20 - kinds[:first].count("data")
        assert network_left > 0 and data_left > 0
        assert kinds[first:] == ["control"] * 3 + ["network"] * network_left + ["data"] * data_left


class TestMarking:
    """CE above the threshold, and nowhere else."""

    @pytest.mark.parametrize(("version", "vlan"), [(4, False), (6, False), (4, True), (6, True)])
    def test_what_finds_more_than_the_threshold_waiting_is_marked_and_stays_whole(
        self, cable: Cable, version: int, vlan: bool
    ) -> None:
        sent = [frame(n, 3, ECT, version, vlan) for n in range(30)]
        with queued(cable, marking_threshold_bytes=10 * FRAME) as port:
            taken = cable.send(sent)
            counters = port.counters()
        assert len(taken) == 30
        marked = {number(packet) for packet in taken if tos(packet) & 3 == CE}
        assert not marked & set(range(10))
        assert marked >= set(range(10 + AHEAD, 30))
        assert counters[4].marks == len(marked) == sum(counter.marks for counter in counters)
        for packet in taken:
            assert tos(packet) >> 2 == 3
            fresh = Ether(bytes(packet))
            for layer in (IP, UDP):
                if layer in fresh:
                    del fresh[layer].chksum
            assert bytes(fresh) == bytes(packet), "a checksum is wrong"

    def test_what_may_not_be_marked_passes_as_it_is(self, cable: Cable) -> None:
        with queued(cable, marking_threshold_bytes=2 * FRAME) as port:
            taken = cable.send([frame(n, 3, 0) for n in range(30)])
            assert sum(counter.marks + counter.drops for counter in port.counters()) == 0
        assert len(taken) == 30 and {tos(packet) for packet in taken} == {3 << 2}

    def test_below_the_threshold_nothing_is_marked(self, cable: Cable) -> None:
        with queued(cable, marking_threshold_bytes=40 * FRAME):
            assert {tos(packet) & 3 for packet in cable.send([frame(n, 3, ECT) for n in range(30)])} == {ECT}

    def test_without_a_threshold_nothing_is_marked(self, cable: Cable) -> None:
        with queued(cable, marking_threshold_bytes=None):
            assert {tos(packet) & 3 for packet in cable.send([frame(n, 3, ECT) for n in range(90)])} == {ECT}

    @pytest.mark.parametrize("per_queue", [False, True])
    def test_a_ports_threshold_counts_all_its_queues_a_queues_only_its_own(self, cable: Cable, per_queue: bool) -> None:
        low, high = [frame(n, 0) for n in range(20)], frame(99, 7, ECT)
        with queued(cable, marking_threshold_bytes=5 * FRAME, per_queue=per_queue):
            taken = cable.send([*low, high])
        (arrived,) = (packet for packet in taken if number(packet) == 99)
        assert tos(arrived) & 3 == (ECT if per_queue else CE)


class TestBuffer:
    """Finite, and one for all queues."""

    def test_it_is_shared_and_what_finds_it_full_is_dropped_and_counted_but_not_told(self, cable: Cable) -> None:
        with queued(cable, buffer_packets=20, share=None, reserved=NONE, marking_threshold_bytes=None) as port:
            taken = cable.send([frame(n, 0) for n in range(15)] + [frame(n, 7) for n in range(15, 40)])
            counters = port.counters()
            passed = {queue: tc(cable.port, f"ba{80 + queue}:")["packets"] for queue in (0, 7)}
        assert 20 <= len(taken) <= 20 + AHEAD
        assert {number(packet) for packet in taken} == set(range(len(taken)))
        assert (counters[7].drops, counters[0].drops) == (0, 40 - len(taken))
        assert passed == {7: 15, 0: len(taken) - 15}
        assert [counters[queue].sent_packets for queue in (7, 0)] == [passed[7], passed[0]]

    def test_a_low_priority_alone_has_most_of_it_and_leaves_room_for_one_served_first(self, cable: Cable) -> None:
        share = each_queue((2.0,))
        with queued(cable, buffer_packets=30, share=share, reserved=NONE, marking_threshold_bytes=None) as port:
            taken = cable.send([frame(n, 0) for n in range(60)] + [frame(n, 7) for n in range(60, 65)])
            counters = port.counters()
        low = [number(packet) for packet in taken if number(packet) < 60]
        assert 20 <= len(low) <= 20 + AHEAD and len(low) + counters[7].drops == 60
        assert (len(taken) - len(low), counters[0].drops) == (5, 0)

    def test_queues_that_wait_leave_the_more_room_the_smaller_their_share_and_the_first_ones_may_take_it(
        self, cable: Cable
    ) -> None:
        model = SwitchQueues(buffer_packets=60, share=each_queue((8.0, 8.0, 0.5)), reserved=NONE, marking_threshold_bytes=None)
        low = [frame(number, dscp) for number in range(40) for dscp in (5, 0)]
        first = [frame(1000 + number, 6) for number in range(60)]
        with queued(cable, buffer_packets=60, share=model.share, reserved=NONE, marking_threshold_bytes=None) as port:
            cable.send([*low, *first])
            counters = port.counters()
        lengths = [0] * QUEUES
        for queue in [2, 7] * 40 + [1] * 60:
            lengths[queue] += model.admits(queue, lengths)
        assert lengths == [0, 27, 15, 0, 0, 0, 0, 15]
        sent = [counter.sent_packets for counter in counters]
        # Some leave while the others come, which makes room.
        assert all(wanted <= found <= wanted + AHEAD for wanted, found in zip(lengths, sent, strict=True) if wanted)
        assert [counter.drops for counter in counters] == [0, 60 - sent[1], 40 - sent[2], 0, 0, 0, 0, 40 - sent[7]]

    def test_what_is_reserved_for_a_queue_is_free_for_it_and_no_other_when_all_else_is_full(self, cable: Cable) -> None:
        with queued(cable, buffer_packets=20, share=None, reserved=(4, *NONE[1:]), marking_threshold_bytes=None) as port:
            cable.send([frame(n, 0) for n in range(60)] + [frame(n, 6) for n in range(9)] + [frame(n, 7) for n in range(9)])
            counters = port.counters()
        low, second, first = (counters[queue].sent_packets for queue in (7, 1, 0))
        assert 16 <= low <= 16 + AHEAD
        assert 4 <= first <= 4 + AHEAD
        assert low + second + first <= 20 + AHEAD

    def test_data_takes_no_room_from_control(self, cable: Cable) -> None:
        with queued(cable, buffer_packets=5, reserved=NONE):
            taken = cable.send([frame(n) for n in range(20)] + [other(0x88B5) for _ in range(10)])
        assert sum(map(is_control, taken)) == 10


class TestKeeping:
    """What something else changes is found, named and put right; what another made is not touched."""

    def test_every_change_is_named_and_put_right(self, cable: Cable) -> None:
        port, name = cable.port, f"dev {cable.port}"
        with queued(cable) as kept:
            assert kept.drifts() == []
            before = shown(port)
            for change, named in (
                (f"qdisc del {name} root", "the queues are gone"),
                (f"qdisc replace {name} root handle 1: pfifo", "the queues are gone"),
                (f"qdisc del {name} clsact", "the classifier that marks is gone"),
                (f"filter del {name} egress", "the classifier that marks is gone"),
                (f"qdisc change {name} parent ba73:3 handle ba82: pfifo limit 7", "queue ba82: holds 7 packets, not 200"),
                (f"qdisc del {name} parent ba73:3 handle ba82:", "queue ba82: is nothing, not pfifo"),
                (f"class change {name} parent ba70: classid ba70:1 htb rate 8mbit", "class ba70:1: the rate is 8000000 bit/s"),
                (f"class change {name} parent ba73: classid ba73:1 htb rate 1gbit prio 7", "class ba73:1: the rate is"),
            ):
                tool("tc", *change.split())
                found = kept.verify()
                assert any(drift.startswith(port) and named in drift for drift in found), (change, found)
                assert (kept.drifts(), shown(port)) == ([], before), change

    @pytest.mark.parametrize("rate_bps", [34_000_000_000, 40_000_000_000, MAX_RATE_BPS])
    def test_the_fastest_ports_are_kept_and_no_queue_of_theirs_is_slower(self, cable: Cable, rate_bps: int) -> None:
        with IPRoute() as netlink:
            port = QueuedPort(netlink, cable.port, PortQueues(rate_bps))
            port.apply()
            assert port.drifts() == []
            assert rate_bps == ceiling(cable.port, "ba70:3") <= ceiling(cable.port, "ba73:1")
            port.remove()
            port.close()

    def test_what_is_there_when_a_process_comes_back_goes_on(self, cable: Cable) -> None:
        with queued(cable) as first:
            cable.send([frame(1)])
            first.close = lambda: None  # type: ignore[method-assign]  # as if it had been killed
            with queued(cable) as second:
                assert second.counters()[7].sent_packets == 1

    def test_all_of_ours_is_removed_and_nothing_else(self, cable: Cable) -> None:
        before = shown(cable.port)
        with queued(cable):
            assert shown(cable.port) != before
        assert shown(cable.port) == before
        tool("tc", "qdisc", "add", "dev", cable.port, "clsact")
        tool("tc", "filter", "add", "dev", cable.port, "egress", "pref", "9", "u32", "match", "u32", "0", "0")
        before = shown(cable.port)
        with queued(cable):
            pass
        assert shown(cable.port) == before

    def test_the_queues_of_another_are_in_the_way_and_stay(self, cable: Cable) -> None:
        tool("tc", "qdisc", "add", "dev", cable.port, "root", "handle", "5:", "pfifo")
        before = shown(cable.port)
        with IPRoute() as netlink:
            port = QueuedPort(netlink, cable.port, PortQueues(RATE_BPS))
            with pytest.raises(PortTaken, match=r"another \(pfifo 5:\); `tc qdisc del"):
                port.apply()
            port.close()
        assert shown(cable.port) == before



    def test_an_ingress_qdisc_which_has_no_egress_is_in_the_way_and_stays(self, cable: Cable) -> None:
        tool("tc", "qdisc", "add", "dev", cable.port, "ingress")
        before = shown(cable.port)
        with IPRoute() as netlink:
            port = QueuedPort(netlink, cable.port, PortQueues(RATE_BPS))
            with pytest.raises(PortTaken, match="ingress qdisc, where Baton needs clsact"):
                port.apply()
            port.remove()
            port.close()
        keeper = ControlKeeper()
        keeper._go_first(cable.port)
        assert "ingress qdisc, where Baton needs clsact" in keeper._told[cable.port]
        keeper.close()
        assert shown(cable.port) == before

    def test_control_goes_first_also_where_it_went_first_before_there_were_queues(self, cable: Cable) -> None:
        before, keeper = shown(cable.port), ControlKeeper()
        keeper._go_first(cable.port)
        assert "baton_control" in shown(cable.port)
        with queued(cable):
            keeper._go_first(cable.port)  # as once a second
            taken = cable.send([frame(n) for n in range(40)] + [other(0x88B5)])
            assert [is_control(packet) for packet in taken].index(True) <= AHEAD
        keeper._go_first(cable.port)
        assert "baton_control" in shown(cable.port)
        keeper.close()
        assert shown(cable.port) == before


class TestFabric:
    """The same ports in an emulated fabric, under Open vSwitch."""

    def test_every_datagram_arrives_or_is_counted_by_its_queue_and_the_first_queue_loses_least(self) -> None:
        fabric = shapes.star(hosts=3, rate_bps=50_000_000)
        with EmulatedFabric(fabric, static_arp=True, queues=SwitchQueues(share=each_queue((2.0,)))) as star:
            receiver = star.popen("h3", [sys.executable, "-c", COUNT], stdout=subprocess.PIPE, text=True)
            assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
            with OccupancySampler([star.ports[BOTTLENECK]]) as sampler:
                words = [sys.executable, "-c", BURST]
                senders = [star.popen(host, [*words, str(dscp << 2)]) for host, dscp in (("h1", 7), ("h2", 0))]
                assert [sender.wait(30) for sender in senders] == [0, 0]
                received = json.loads(receiver.communicate(timeout=30)[0])
            counters, whole = star.queue_counters(BOTTLENECK), star.counters(BOTTLENECK)
            assert received == [counters[0].sent_packets, counters[7].sent_packets]
            assert sum(received) + whole.data.drops + star.ovs.overruns() == 2 * DATAGRAMS
            assert whole.data.drops == counters[0].drops + counters[7].drops
            assert counters[7].drops > DATAGRAMS / 4 and counters[7].drops > 5 * counters[0].drops
            assert 50 < max(sampler.occupancy(star.ports[BOTTLENECK]).packets) <= 100
            assert star.verify() == []
            tool("tc", "qdisc", "del", "dev", star.ports[BOTTLENECK].name, "root")
            assert star.verify() == [f"{star.ports[BOTTLENECK].name}: the queues are gone"]
            assert star.verify() == []

    def test_a_fabric_that_asks_for_no_priorities_has_one_data_queue(self) -> None:
        with EmulatedFabric(shapes.star(hosts=2)) as star:
            assert star.queue_counters(("s1", "h2")) == ()
            assert tc("s1-eth2", "13:")["kind"] == "pfifo"
