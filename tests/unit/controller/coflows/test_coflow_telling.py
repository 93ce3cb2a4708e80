"""How coflows reach the controller and their order the hosts: messages, verdicts, the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.coflows.client import CoflowClient, NotOpen, OpenCoflow
from controller.coflows.coflow import Flow
from controller.coflows.deadlines import Verdict
from controller.coflows.telling import CoflowQueues
from controller.members.registry import LAST_NODE, Members
from controller.scheduling.network import FabricNetwork
from controller.store.store import Store
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.flowmark import DEADLINE_MAX_MS, CoflowMark, FlowMark
from protocol.messages import HEARTBEAT_MAC, Coflows, Message
from protocol.timers import REPEATS_NS, Timers
from topology import shapes
from topology.fabric import DirectedLink
from topology.paths import Routes
from topology.spanning_tree import compute

MS = 1_000_000
NEVER = 10**18
FLOWS = [["h1", "h2", 2_000_000]]


class TestTelling:
    """COFLOWS messages, COFLOW_REPORTs and verdicts."""

    def setup_method(self) -> None:
        self.sent: list[Message] = []
        self.lines: list[dict[str, Any]] = []
        self.timers, self.members = Timers(), Members()
        for number in (1, 2):
            self.members.register(b"\x02" + number.to_bytes(5), f"h{number}", 10**8, (), "tbf", "1", 0)
        self.telling = CoflowQueues(self.timers, self.members, self.send, self.lines.append)

    def send(self, message: Message, to: bytes) -> None:
        assert to == HEARTBEAT_MAC
        self.sent.append(message)

    def open(self, *numbers: int, now_ns: int, ahead_ns: int = 0, **fields: Any) -> None:  # noqa: ANN401 -- of the document
        document: dict[str, Any] = {"expires_ns": NEVER, "deadline_ns": None, "size_bytes": None, "flows": [], **fields}
        documents = {str(number): {**document, "opened_ns": number + ahead_ns} for number in numbers}
        self.telling.opened(documents, ahead_ns, now_ns)

    def test_a_change_is_told_in_full_and_repeated_and_nothing_else_is(self) -> None:
        self.open(5, 7, now_ns=100)
        assert self.sent == [Coflows(1, 0, 1, ((5, 1), (7, 2)))]
        self.open(5, 7, now_ns=200)
        self.telling.update(300)
        assert len(self.sent) == 1
        self.timers.run(100 + max(REPEATS_NS))
        assert self.sent == [Coflows(1, 0, 1, ((5, 1), (7, 2)))] * (1 + len(REPEATS_NS))

    def test_a_repeat_says_what_is_so_then(self) -> None:
        self.open(5, 7, now_ns=100)
        self.open(5, now_ns=101)
        self.timers.run(100 + max(REPEATS_NS))
        assert {message.version for message in self.sent[1:] if isinstance(message, Coflows)} == {2}

    def test_numbers_towards_nodes_that_are_gone_add_up_once_each(self) -> None:
        """Agents that stop leave their hosts receiving, and their senders count on under the nodes' old numbers."""
        self.open(5, now_ns=0)
        report = self.telling.handlers[CoflowReport]
        member = next(iter(self.members.present()))
        for grown in range(20):
            entries = ((5, 0, 7_000), (5, 3998, 100_000 + grown), (5, 3999, 50_000))
            report(member, CoflowReport(entries), 10 + grown)
        self.telling.update(10**9)
        assert self.telling.status()["coflow_order"][0]["sent_bytes"] == 157_019

    def test_bytes_towards_nodes_that_there_cannot_be_are_neither_counted_nor_remembered(self) -> None:
        """A hostile member would fill the leader's memory with them, and move the coflow to the back at once."""
        self.open(5, now_ns=0)
        member = next(iter(self.members.present()))
        entries = tuple((5, LAST_NODE + 1 + node, 1_000) for node in range(80))
        self.telling.handlers[CoflowReport](member, CoflowReport(((5, LAST_NODE, 70), *entries)), 10)
        self.telling.update(10**9)
        assert self.telling.status()["coflow_order"][0]["sent_bytes"] == 70
        assert len(self.telling._order.sent._last[5]) == 1

    def test_what_was_sent_to_a_node_that_leaves_is_not_counted_again(self) -> None:
        self.open(5, now_ns=0)
        first, second = self.members.present()
        self.telling.handlers[CoflowReport](first, CoflowReport(((5, second.node, 100),)), 10)
        self.members.leave(second.node)
        self.telling.handlers[CoflowReport](first, CoflowReport(((5, second.node, 130),)), 11)
        self.telling.update(10**9)
        assert self.telling.status()["coflow_order"][0]["sent_bytes"] == 130

    def test_reported_bytes_change_the_order(self) -> None:
        self.open(5, 7, now_ns=0)
        node = self.members.present()[0].node
        report = CoflowReport(((5, node + 1, 600_000), (5, 0, 600_000), (99, node, 5)))
        self.telling.handlers[CoflowReport](self.members.present()[0], report, 10)
        self.telling.update(20)
        assert self.sent[-1] == Coflows(2, 0, 1, ((5, 3), (7, 2)))
        none = {"deadline": None, "why": ""}
        assert self.telling.status()["coflow_order"] == [
            {"id": 7, "queue": 2, "by": "bytes sent", "sent_bytes": 0, **none},
            {"id": 5, "queue": 3, "by": "bytes sent", "sent_bytes": 1_200_000, **none},
        ]

    def test_the_last_one_that_is_closed_leaves_an_empty_order(self) -> None:
        self.open(5, now_ns=0)
        self.open(now_ns=1)
        assert self.sent[-1] == Coflows(2, 0, 1, ())
        assert self.telling.status() == {"coflows": {}, "coflow_order": []}

    def test_a_verdict_is_published_once(self) -> None:
        for numbers in ((5,), (5, 6), (5, 6)):
            self.open(*numbers, now_ns=0, deadline_ns=200 * MS, flows=FLOWS)
        verdicts = [line["coflow_verdict"] for line in self.lines]
        assert [(number, verdict["deadline"]) for number, verdict in verdicts] == [(5, "admitted"), (6, "refused")]
        assert [entry["deadline"] for entry in self.telling.status()["coflow_order"]] == ["admitted", "refused"]
        assert "the link from h1 has 5.0 Mb/s left" in verdicts[1][1]["why"]

    def test_a_refused_deadline_that_is_admitted_later_is_published_again(self) -> None:
        """Each needs 32 of the 85 Mb/s."""
        for numbers in ((5, 6, 7), (6, 7), (6, 7)):
            self.open(*numbers, now_ns=0, deadline_ns=500 * MS, flows=FLOWS)
        verdicts = [line["coflow_verdict"] for line in self.lines]
        assert [(number, verdict["deadline"]) for number, verdict in verdicts] == [
            (5, "admitted"), (6, "admitted"), (7, "refused"), (7, "admitted")
        ]  # fmt: skip
        assert [entry["deadline"] for entry in self.telling.status()["coflow_order"]] == ["admitted"] * 2

    def test_a_deadline_needs_the_links_between_switches_too_as_soon_as_the_fabric_is_known(self) -> None:
        fabric = shapes.build("dumbbell", left=2, right=2, rate_bps=10**8, bottleneck_bps=10**8)
        network = FabricNetwork(fabric, Routes(fabric, compute(fabric)), ())
        shared = {"expires_ns": NEVER, "deadline_ns": 200 * MS, "size_bytes": None}
        first, second = ({**shared, "opened_ns": at, "flows": [[f"h{at}", f"h{at + 2}", 2_000_000]]} for at in (1, 2))
        for known_from, verdict in ((0, "refused"), (1, "refused"), (2, "admitted")):
            known = [None if at < known_from else network for at in range(2)]
            self.lines.clear()
            self.telling = CoflowQueues(self.timers, self.members, self.send, self.lines.append, lambda: now[0])  # noqa: B023
            for at, documents in enumerate(({"1": first}, {"1": first, "2": second})):
                now = [known[at]]
                self.telling.opened(documents, 0, 0)
            assert [line["coflow_verdict"][1]["deadline"] for line in self.lines] == ["admitted", verdict]
            assert verdict == "admitted" or "link from s1 to s2 has 5.0 Mb/s left" in self.lines[1]["coflow_verdict"][1]["why"]

    def test_without_coflows_nobody_looks_at_members_and_ways(self) -> None:
        """A thousand members that join would cost the loop of slots a look each."""
        self.telling = CoflowQueues(self.timers, self.members, self.send, self.lines.append, lambda: pytest.fail("looked"))
        self.telling.update(0)
        self.telling.opened({}, 0, 10**9)
        self.telling.update(2 * 10**9)

    def test_hosts_are_named_as_members_where_the_fabric_calls_them_otherwise(self) -> None:
        """A fabric file, or LLDP, may know them only by the ports behind which they are."""
        asked: list[tuple[str, str]] = []

        class Network:
            hosts = {member.node: f"s1:{member.name}-p" for member in self.members.present()}  # noqa: RUF012 -- never changed

            def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
                asked.append((source, destination))
                return (DirectedLink("s1", "s2"),)

            def capacity_bps(self, link: DirectedLink) -> int:
                return 10**6

        self.telling = CoflowQueues(self.timers, self.members, self.send, self.lines.append, Network)
        self.open(5, now_ns=0, deadline_ns=200 * MS, flows=FLOWS)
        self.open(6, now_ns=0, deadline_ns=200 * MS, flows=[["h1", "s2:elsewhere", 5]])
        assert set(asked) == {("s1:h1-p", "s1:h2-p"), ("s1:h1-p", "s2:elsewhere")}
        assert self.lines[0]["coflow_verdict"][1]["deadline"] == "refused"

    def test_a_flow_between_hosts_as_the_fabric_calls_them_counts_what_their_members_report(self) -> None:
        first, second = self.members.present()

        class Network:
            hosts = {first.node: "s1:p1", second.node: "s1:p2"}  # noqa: RUF012 -- never changed

            def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
                return ()

            def capacity_bps(self, link: DirectedLink) -> int:
                raise KeyError(link)

        self.telling = CoflowQueues(self.timers, self.members, self.send, self.lines.append, Network)
        self.open(5, now_ns=0, flows=[["s1:p1", "h2", 900], ["h1", "s1:p2", 100]])
        self.telling.handlers[CoflowReport](first, CoflowReport(((5, second.node, 700),)), 10)
        self.telling.update(10**9)
        assert self.telling.status()["coflow_order"][0]["sent_bytes"] == 700
        assert self.telling._order._open[5].flows == (Flow("h1", "h2", 1_000),)
        third = self.members.register(b"\x02\x00\x00\x00\x00\x03", "h3", 10**8, (), "tbf", "1", 0)
        for at, known in enumerate(("s1:p3", "h3")):  # the same document, before and after its host has a place
            if at:
                Network.hosts[third.node] = "s1:p3"
                self.members.register(b"\x02\x00\x00\x00\x00\x04", "h4", 10**8, (), "tbf", "1", 0)
            self.open(6, now_ns=20, flows=[["s1:p3", "h2", 900]])
            assert self.telling._order._open[6].flows == (Flow(known, "h2", 900),)

    def test_the_stores_clock_is_turned_into_ours(self) -> None:
        ahead_ns = 10**18
        self.open(9, now_ns=10, ahead_ns=ahead_ns, expires_ns=ahead_ns + 50, deadline_ns=ahead_ns + 20)
        assert self.telling.queues == {9: 0}
        self.telling.update(20)
        assert self.telling.queues == {9: 1}
        self.telling.update(50)
        assert self.telling.queues == {}

    def test_a_document_that_is_wrong_is_left_out_and_the_others_count(self, caplog: pytest.LogCaptureFixture) -> None:
        right = {"opened_ns": 1, "expires_ns": NEVER, "deadline_ns": None, "size_bytes": None}
        for _ in range(2):
            self.telling.opened({
                "1": {"name": "x"}, "x": right, "2": right, "3": {**right, "flows": [["a", "a", 1]]},
                "4": {**right, "verdict": "x"}, "4294967296": right,
            }, 0, 5)  # fmt: skip
        assert self.telling.queues == {2: 1}
        assert len(caplog.records) == 5 and "flows[0].destination" in caplog.text


    @pytest.mark.parametrize("size", [0, -1, "6", True, 1 << 63])
    def test_a_size_that_there_cannot_be_keeps_no_other_coflow_from_its_order(self, size: object) -> None:
        right = {"opened_ns": 1, "expires_ns": NEVER, "deadline_ns": None, "size_bytes": 10**6}
        self.telling.opened({"2": right, "3": {**right, "size_bytes": size}}, 0, 5)
        assert self.telling.queues == {2: 1}
        first, second = self.members.present()
        self.telling._on_report(first, CoflowReport(((3, second.node, 1000), (2, second.node, 2000))), 6)
        assert self.telling._order.sent.total(2) == 2000


class FakeStore(Store):
    """Coflows in memory, with a clock of its own; `answer` is the verdict on every deadline."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.documents: dict[int, dict[str, Any]] = {}
        self.answer = answer

    def next_coflow(self, ids: int) -> tuple[int, int]:
        return len(self.documents) + 1, 5000

    def publish_coflow(self, coflow: int, document: dict[str, Any]) -> None:
        self.documents[coflow] = document

    def change_coflow(self, coflow: int, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> None:
        self.documents[coflow] = make(self.documents.get(coflow))

    def forget_coflow(self, coflow: int) -> None:
        del self.documents[coflow]

    def coflows(self) -> dict[int, dict[str, Any]]:
        verdict = {} if self.answer is None else {"verdict": self.answer}
        return {number: {**document, **verdict} for number, document in self.documents.items()}

    def verdict(self, coflow: int) -> dict[str, Any] | None:
        return self.answer

    def time_ns(self) -> int:
        return 5000


class TestClient:
    """Opening, marking, adding, closing."""

    def test_a_coflow_is_open_until_its_context_ends(self) -> None:
        store = FakeStore()
        with CoflowClient(store).open("shuffle", flows=[("h1", "h2", 9)]) as opened:
            assert store.documents[opened.id]["name"] == "shuffle"
            assert store.documents[opened.id]["flows"] == [["h1", "h2", 9]]
            assert CoflowClient(store).find(opened.id).id == opened.id
        with pytest.raises(NotOpen, match="coflow 1 is not open"):
            CoflowClient(store).find(1)

    def test_flows_are_added_but_not_to_a_deadline(self) -> None:
        store = FakeStore()
        client = CoflowClient(store, wait_s=0)
        opened = client.open(flows=[("h1", "h2", 9)])
        opened.add("h1", "h2", 1)
        opened.add("h3", "h2", 5)
        assert store.documents[opened.id]["flows"] == [["h1", "h2", 10], ["h3", "h2", 5]]
        with pytest.raises(ValueError, match=r"flows\[2\].size_bytes"):
            opened.add("h3", "h2", 0)
        with pytest.raises(ValueError, match=r"flows\[2\].size_bytes: with those before, h1 sends h2 more than 2\^62 bytes"):
            opened.add("h1", "h2", 1 << 62)
        with pytest.raises(ValueError, match="deadline"):
            client.open(deadline_ms=5).add("h1", "h2", 1)
        with pytest.raises(ValueError, match="flows: coflow 3 was opened with its size"):
            client.open(size_bytes=100).add("h1", "h2", 1)

    @pytest.mark.parametrize("size", [0, -1, True, 1.5, (1 << 62) + 1])
    def test_a_size_that_the_controller_would_leave_out_is_refused(self, size: int) -> None:
        store = FakeStore()
        with pytest.raises(ValueError, match=r"size_bytes: .* must be a whole number of bytes, above 0 and at most 2\^62"):
            CoflowClient(store).open(size_bytes=size)
        assert not store.documents

    def test_without_a_deadline_a_flow_has_the_coflows_mark(self) -> None:
        assert CoflowClient(FakeStore()).open().marking(size_bytes=10**6) == CoflowMark(1)

    def test_before_the_deadline_a_flow_is_of_type_1_with_what_is_left_and_after_it_one_of_the_rest(self) -> None:
        opened = OpenCoflow(FakeStore(), 4, asked_ns=200 * MS)
        assert opened.marking(5000, now_ns=0) == FlowMark(5000, 200)
        assert opened.marking(5000, now_ns=199 * MS + 1) == FlowMark(5000, 1)
        assert opened.marking(5000, now_ns=200 * MS) == CoflowMark(4)

    @pytest.mark.parametrize(
        ("answer", "decided", "dated"),
        [
            ({"deadline": "admitted", "why": "room"}, "admitted", True),
            ({"deadline": "refused", "why": "full"}, "refused", False),
            (None, "unchecked", True),
        ],
    )
    def test_a_refused_deadline_is_none_and_without_a_controller_it_is_not_checked(
        self, answer: dict[str, Any] | None, decided: str, dated: bool
    ) -> None:
        client = CoflowClient(FakeStore(answer), wait_s=0.01)
        opened = client.open(deadline_ms=2000, flows=[("h1", "h2", 9)])
        for part in (opened, client.find(opened.id)):
            assert part.verdict is not None and part.verdict.deadline == decided
            assert isinstance(part.marking(9), FlowMark if dated else CoflowMark)

    def test_who_does_not_wait_for_the_verdict_sends_with_the_deadline_until_it_is_refused(self) -> None:
        store = FakeStore()
        opened = CoflowClient(store, wait_s=0).open(deadline_ms=2000, flows=[("h1", "h2", 9)])
        assert isinstance(opened.answered().marking(9), FlowMark)
        store.answer = {"deadline": "refused", "why": "full"}
        answered = opened.answered()
        assert answered.verdict == Verdict("refused", "full") and answered.marking(9) == CoflowMark(opened.id)
        store.answer = {"deadline": "admitted", "why": "others ended"}
        assert answered.answered().marking(9) == opened.marking(9), "later, after all"
        store.answer = None
        assert answered.answered() is answered, "what a store has lost holds until it is decided again"
        undated = CoflowClient(store, wait_s=0).open()
        assert undated.answered() is undated

    def test_another_host_finds_the_same_deadline(self) -> None:
        client = CoflowClient(FakeStore())
        opened = client.open(deadline_ms=2000)
        found = client.find(opened.id)
        assert opened.deadline_ns is not None and found.deadline_ns is not None
        assert abs(opened.deadline_ns - found.deadline_ns) < 1000 * MS

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"deadline_ms": DEADLINE_MAX_MS + 1}, "deadline_ms"),
            ({"deadline_ms": 0}, "deadline_ms"),
            ({"size_bytes": 0}, "size_bytes"),
            ({"size_bytes": 5.0}, "size_bytes"),
            ({"size_bytes": 5, "flows": [("a", "b", 5)]}, "size_bytes"),
            ({"flows": [("a", "b", -5)]}, r"flows\[0\].size_bytes"),
        ],
    )
    def test_what_no_coflow_can_have_is_refused_and_nothing_is_opened(self, fields: dict[str, Any], named: str) -> None:
        store = FakeStore()
        with pytest.raises(ValueError, match=named):
            CoflowClient(store).open(**fields)
        assert not store.documents
