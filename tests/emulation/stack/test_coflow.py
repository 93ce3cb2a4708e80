"""Coflows end to end: the command line and its store, the marks of an unmodified program, the tagger's queues."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.bpf.build import object_path
from agents.priorities.congestion_control import DCTCP
from agents.priorities.marked_run import NoCgroup, own_cgroup
from bench.karuna.coflow import DeepPort, coflow_star
from controller.coflows.client import CoflowClient
from controller.coflows.coflow import Flow as HostFlow
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from ebpf.build import BuildError
from ebpf.libbpf import BpfMap
from emulation.netns import network_of
from emulation.stack import schemes
from emulation.stack.star import RECEIVER, SENDERS, star
from emulation.traffic import coflow_load
from emulation.traffic.coflow_control import Control
from emulation.traffic.coflow_load import ScheduledCoflow
from protocol.flowmark import COFLOW_MAX, CoflowMark, FlowMark
from tests.emulation.agents.priorities.tagged_wire import DSCP, Flow, ProgramTimer, Wire, tagged_pair

SHOW = "import socket; print(socket.socket().getsockopt(1, socket.SO_MARK) & 0xffffffff)"
LAST = DSCP[7]
Baton = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with tagged_pair() as made:
        yield made


class TestTagger:
    """The queue to which a coflow's packets go."""

    def test_of_a_coflow_that_is_not_named_64_kb_of_a_flow_go_first_and_the_rest_last(self, wire: Wire) -> None:
        wire.tagger.set_coflows({8: 3})
        flow, mark = Flow(next(wire.ports)), CoflowMark(9).encode()
        assert {wire.dscp(flow.packet(1024), mark) for _ in range(64)} == {DSCP[1]}
        assert wire.dscp(flow.packet(1024), mark) == LAST
        wire.tagger.set_coflows({9: 7})
        assert wire.dscp(Flow(next(wire.ports)).packet(100), mark) == LAST, "named, so in the last queue from the start"

    def test_a_packet_goes_to_the_queue_that_its_coflow_has_now(self, wire: Wire) -> None:
        flows = {number: Flow(next(wire.ports), version) for number, version in ((1, 4), (77, 6), (COFLOW_MAX, 4))}

        def dscps() -> list[int]:
            return [wire.dscp(flow.packet(100), CoflowMark(number).encode()) for number, flow in flows.items()]

        assert dscps() == [DSCP[1]] * 3
        wire.tagger.set_coflows({1: 0, 77: 3, COFLOW_MAX: 6})
        assert dscps() == [DSCP[0], DSCP[3], DSCP[6]]
        wire.tagger.set_coflows({77: 1, COFLOW_MAX: 6})
        assert dscps() == [DSCP[1], DSCP[1], DSCP[6]]
        assert wire.dscp(Flow(next(wire.ports)).packet(100)) == DSCP[1], "others are judged by their own thresholds"

    @pytest.mark.parametrize("wrong", [{0: 1}, {COFLOW_MAX + 1: 1}, {1: 8}, {1: -1}])
    def test_what_cannot_be_is_refused_and_nothing_is_changed(self, wire: Wire, wrong: dict[int, int]) -> None:
        wire.tagger.set_coflows({1: 2})
        with pytest.raises(ValueError, match="coflow"):
            wire.tagger.set_coflows({5: 1, **wrong})
        assert wire.dscp(Flow(next(wire.ports)).packet(100), CoflowMark(1).encode()) == DSCP[2]
        assert wire.dscp(Flow(next(wire.ports)).packet(100), CoflowMark(5).encode()) == DSCP[1]

    def test_the_end_of_a_coflows_flow_is_told_with_its_mark(self, wire: Wire) -> None:
        wire.tagger.set_coflows({9: 2})
        flow, mark = Flow(next(wire.ports)), CoflowMark(9).encode()
        wire.dscp(flow.packet(1000), mark)
        wire.dscp(flow.packet(500, "FA"), mark)
        (end,) = wire.tagger.ended()
        assert (end.flow_type, end.mark, end.size_bytes, end.queues) == (4, mark, 1500, (2,))

    def test_bytes_are_counted_by_coflow_and_destination_without_what_is_sent_again(self, wire: Wire) -> None:
        flow, other = Flow(next(wire.ports)), Flow(next(wire.ports), 6)
        for number, sender in ((9, flow), (9, other), (10, flow)):
            wire.dscp(sender.packet(1000), CoflowMark(number).encode())
        wire.dscp(Flow(next(wire.ports)).packet(500), FlowMark(9000).encode())
        found = wire.tagger.coflow_bytes()
        assert sorted((coflow, target.version, size) for (coflow, target), size in found.items()) == [
            (9, 4, 1000), (9, 6, 1000), (10, 4, 1000)
        ]  # fmt: skip
        for key in found:
            wire.tagger.forget_coflow_bytes(*key)
        assert wire.tagger.coflow_bytes() == {}

    def test_the_bytes_of_thousands_are_read_in_a_few_calls(self, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
        """The agent reads them every 20 ms; by two calls for each of 8,000, a reading took 130 ms of its loop."""
        table = wire.tagger.map("coflows_sent", 20, 8)
        for coflow in range(1, 8001):
            table[bytes(10) + b"\xff\xff" + bytes((10, 0, coflow >> 8, 255 & coflow)) + coflow.to_bytes(4, "little")] = bytes(
                (coflow & 255, coflow >> 8, 0, 0, 0, 0, 0, 1)
            )
        one_by_one: list[bytes] = []
        monkeypatch.setattr(BpfMap, "get", lambda _, key: one_by_one.append(key))
        found = wire.tagger.coflow_bytes()
        assert not one_by_one
        assert {(coflow, str(target)): size for (coflow, target), size in found.items()} == {
            (coflow, f"10.0.{coflow >> 8}.{coflow & 255}"): 1 << 56 | coflow for coflow in range(1, 8001)
        }

    def test_a_packet_costs_well_under_a_microsecond(self, wire: Wire) -> None:
        wire.tagger.set_coflows({number: number % 7 for number in range(1, 1001)})
        bench = ProgramTimer(wire)
        cost = {}
        for version, transport in itertools.product((4, 6), ("tcp", "udp")):
            frame = bytes(Flow(next(wire.ports), version, transport).packet(1000))
            mark = CoflowMark(500).encode()
            cost[f"IPv{version} {transport}"] = min(bench.run(frame, 100_000, mark) for _ in range(3))
        bench.close()
        print(json.dumps(cost))
        assert max(cost.values()) <= 1000  # 250 on an idle machine


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    with PrivateRedis(tmp_path) as running:
        yield running.url


@pytest.fixture
def baton(url: str) -> Baton:
    def run(word: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "cli.main", "coflow", word, "--store", url, *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    return run


class TestCommands:
    """`baton coflow`, with a store of its own."""

    def test_coflows_are_opened_listed_in_their_order_and_closed(self, baton: Baton, url: str) -> None:
        first, second = (int(baton("open", *words).stdout) for words in (("--name", "map"), ("--size", "50MB")))
        assert second == first + 1
        lines = baton("list").stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["id", str(first), str(second)]
        assert lines[1].endswith("map") and "50000000" in lines[2]
        assert baton("add", str(first), "h1:h2:3MB", "h3:h2:4MB").returncode == 0
        assert "7000000" in baton("list").stdout.splitlines()[1]
        wrong = baton("add", str(first), "h1:h1:3MB")
        assert wrong.returncode == 2 and "Error: h1:h1:3MB: 'h1' is the source" in wrong.stderr
        assert baton("close", str(first)).returncode == 0
        store = Store(url)
        assert list(store.coflows()) == [second]
        store.close()
        again = baton("close", str(first))
        assert again.returncode == 1 and f"coflow {first} is not open" in again.stderr

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--deadline", "5s"), "at most 4094"),
            (("--size", "0"), "above 0"),
            (("--flow", "h1:h2"), "SOURCE:DESTINATION:BYTES"),
            (("--flow", "h1:h1:5MB"), "--flow h1:h1:5MB: 'h1' is the source"),
            (("--flow", "h1:h2:5parsecs"), "--flow h1:h2:5parsecs"),
        ],
    )
    def test_what_no_coflow_can_have_is_refused(self, baton: Baton, words: tuple[str, ...], said: str) -> None:
        done = baton("open", *words)
        assert done.returncode == 2 and said in done.stderr
        assert len(baton("list").stdout.splitlines()) == 1

    def test_an_open_coflow_expires_and_ids_go_round(self, url: str) -> None:
        store = Store(url)
        assert [store.next_coflow(3)[0] % 3 for _ in range(4)] in ([0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2])
        opened = CoflowClient(store).open()
        left = subprocess.run(
            ["redis-cli", "-s", url.removeprefix("unix://"), "ttl", f"baton:coflow:{opened.id}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert 3500 < int(left.stdout) <= 3600
        assert abs(store.time_ns() - time.time_ns()) < 10**9
        store.close()


class TestRun:
    """`baton coflow run`: an unmodified program."""

    @pytest.fixture(autouse=True)
    def possible(self) -> None:
        try:
            own_cgroup()
            object_path("mark")
        except (NoCgroup, BuildError) as error:
            pytest.skip(f"no marks by cgroup here: {error}")

    def test_its_sockets_are_born_with_the_coflows_mark(self, baton: Baton) -> None:
        number = int(baton("open").stdout)
        done = baton("run", str(number), "--", sys.executable, "-c", SHOW)
        assert int(done.stdout) == CoflowMark(number).encode(), done.stderr

    def test_with_a_deadline_they_have_what_is_left_of_it_and_the_coflows_mark_when_it_is_over(self, baton: Baton) -> None:
        number = int(baton("open", "--deadline", "4s").stdout)
        script = f"{SHOW}; import time; time.sleep(0.5); {SHOW}; time.sleep(4); {SHOW}"
        done = baton("run", "--size", "2MB", str(number), sys.executable, "-c", script)
        first, second, late = map(int, done.stdout.split())
        before, after = FlowMark.decode(first), FlowMark.decode(second)
        assert before.size_bytes == after.size_bytes == 1954 * 1024
        assert before.deadline_ms is not None and after.deadline_ms is not None
        assert 450 <= before.deadline_ms - after.deadline_ms <= 1500 and before.deadline_ms < 4000
        assert late == CoflowMark(number).encode()

    def test_the_exit_status_is_the_commands_and_a_coflow_must_be_open(self, baton: Baton) -> None:
        number = baton("open").stdout.strip()
        assert baton("run", number, "sh", "-c", "exit 7").returncode == 7
        assert "is not open" in baton("run", "5", "true").stderr


class Probe:
    """Datagrams from one host to another, whose kernel reports the DSCP of each."""

    def __init__(self, source_pid: int, target_pid: int, address: str) -> None:
        with network_of(source_pid):
            self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with network_of(target_pid):
            self.receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self.receiver.bind((address, 0))
        self.receiver.settimeout(2)

    def dscp(self) -> int:
        self.sender.sendto(b"coflow", self.receiver.getsockname())
        _, ancillary, _, _ = self.receiver.recvmsg(100, 100)
        return ancillary[0][2][0] >> 2

    def wait_for(self, dscp: int) -> float:
        """Waits until datagrams arrive with a DSCP; the seconds that took."""
        start = time.monotonic()
        while (found := self.dscp()) != dscp:
            assert time.monotonic() < start + 5, f"DSCP {found}, not {dscp}"
            time.sleep(0.001)
        return time.monotonic() - start


def test_what_is_opened_at_the_store_and_sent_by_hosts_is_the_dscp_of_every_hosts_packets(
    request: pytest.FixtureRequest,
) -> None:
    agents = request.getfixturevalue("priority_options")  # before the hosts are made, so that they see the mount
    with star(agents=False, priorities={"enabled": True}) as (emulated, baton):
        baton.start_agents(options=agents)
        pids = {name: emulated.node(name).pid for name in emulated.endpoints()}
        address = str(emulated.endpoints()["h6"])
        one, other, known, urgent = (Probe(pids[name], pids["h6"], address) for name in ("h1", "h2", "h3", "h4"))
        client = CoflowClient(baton.store, wait_s=5)
        start = time.monotonic()
        first, second = client.open("first"), client.open("second")
        first.mark(one.sender)
        second.mark(other.sender)
        one.wait_for(6)  # queue 1
        print(f"from open() to the tagged packet {(time.monotonic() - start) * 1e3:.1f} ms")
        other.wait_for(5)
        other.dscp()  # it has sent just now, so its place counts
        for _ in range(1000):  # beyond the first class, which is 1 MB at this rate
            one.sender.sendto(bytes(1200), (address, 9))
        one.wait_for(4)
        assert other.dscp() == 5, "it stays where it is: nothing needs its queue"
        small = client.open("small", flows=[("h3", "h6", 5000)])
        small.mark(known.sender)
        known.wait_for(6)
        baton.wait(lambda: len(baton.status().get("coflow_order", ())) == 3, "the status to show the order")
        shown = [(entry["id"], entry["by"]) for entry in baton.status()["coflow_order"]]
        assert shown == [(small.id, "bytes by host"), (second.id, "bytes sent"), (first.id, "bytes sent")]
        soon = client.open(deadline_ms=4000, flows=[("h4", "h6", 35_000_000)])
        assert soon.verdict is not None and soon.verdict.deadline == "admitted"
        soon.mark(urgent.sender, size_bytes=5000)
        assert urgent.dscp() == 7, "a flow of type 1 needs no order"
        late = client.open(deadline_ms=4000, flows=[("h5", "h6", 10_000_000)])
        assert late.verdict is not None and late.verdict.deadline == "refused" and "the link to h6" in late.verdict.why
        late.mark(urgent.sender, size_bytes=5000)
        assert urgent.dscp() != 7
        soon.close()
        baton.wait(lambda: late.answered().verdict != late.verdict, "the refused deadline to be admitted after all")
        assert late.answered().verdict.deadline == "admitted"
        late.answered().mark(urgent.sender, size_bytes=5000)
        assert urgent.dscp() == 7
        second.close()
        other.wait_for(6)  # as a coflow that is not known yet


class Stopped(Control):
    """Stands still for a while at the beginning, as does a process without a processor."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def serve(self, now_ns: int) -> int:
        time.sleep(self._seconds)
        self._seconds = 0.0
        return super().serve(now_ns)


def test_a_coflow_that_is_opened_late_is_told_to_be_late() -> None:
    coflow = ScheduledCoflow(1, 0, (HostFlow(SENDERS[0], RECEIVER, 1_500),))
    with schemes.on_star(DeepPort("dctcp", DCTCP)) as laid:
        (found,) = coflow_load.run(laid.emulated, [coflow], control=Stopped(0.2))
    assert found.cct_ns is not None and found.late_ns > 150_000_000


def test_without_an_order_the_bench_has_no_tagger_that_would_part_flows_into_two_queues() -> None:
    tagged = {}
    for ordered in (True, False):
        with coflow_star(ordered=ordered) as (emulated, _), network_of(emulated.node(SENDERS[0]).pid):
            show = ("tc", "filter", "show", "dev", emulated.interface(SENDERS[0]), "egress")
            filters = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert "name classify" in filters, "the agent is there"
        tagged[ordered] = "name tag" in filters
    assert tagged == {True: True, False: False}
