"""The order of coflows (FIFO with limited multiplexing), how it is told, and the marks of a coflow's sockets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.priorities.coflow_client import CoflowClient, NotOpen, OpenCoflow
from controller.priorities.coflow_messages import CoflowQueues
from controller.priorities.coflows import DEADLINE_QUEUE, FIRST_QUEUE, LAST_QUEUE, Coflow, CoflowOrder
from controller.store.store import Store
from protocol.flowmark import DEADLINE_MAX_MS, CoflowMark, FlowMark
from protocol.messages import HEARTBEAT_MAC, Coflows, Message
from protocol.timers import REPEATS_NS, Timers

MS = 1_000_000
NEVER = 10**18
HEAVY_BYTES, HEAVY_NS = 1000, 100 * MS


def coflow(number: int, *, size: int | None = None, deadline_ns: int | None = None, expires_ns: int = NEVER) -> Coflow:
    return Coflow(number, opened_ns=number, expires_ns=expires_ns, deadline_ns=deadline_ns, size_bytes=size)


def order(*coflows: Coflow) -> CoflowOrder:
    made = CoflowOrder(HEAVY_BYTES, HEAVY_NS)
    made.update(coflows)
    return made


class TestOrder:
    """Who has which queue."""

    def test_light_coflows_have_one_queue_each_by_their_opening_and_the_rest_the_last(self) -> None:
        made = order(*(coflow(number) for number in (9, 3, 5, 1, 2, 4, 7, 8)))
        assert made.queues(now_ns=10) == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 7: 6}  # 8 and 9 are in queue 7

    def test_a_heavy_coflow_shares_its_queue_with_the_next(self) -> None:
        heavy = HEAVY_BYTES + 1
        sizes = {1: heavy, 2: heavy, 3: 5, 4: None, 5: heavy, 6: None}
        made = order(*(coflow(number, size=size) for number, size in sizes.items()))
        assert made.queues(now_ns=10) == {1: 1, 2: 1, 3: 1, 4: 2, 5: 3, 6: 3}

    def test_who_has_been_first_for_long_is_heavy_and_only_then_the_next_one_is_served(self) -> None:
        made = order(coflow(1), coflow(2), coflow(3))
        assert made.queues(now_ns=10) == {1: 1, 2: 2, 3: 3}
        assert made.queues(now_ns=9 + HEAVY_NS) == {1: 1, 2: 2, 3: 3}
        assert made.queues(now_ns=10 + HEAVY_NS) == {1: 1, 2: 1, 3: 2}
        assert made.queues(now_ns=9 + 2 * HEAVY_NS) == {1: 1, 2: 1, 3: 2}
        assert made.queues(now_ns=10 + 2 * HEAVY_NS) == {1: 1, 2: 1, 3: 1}

    def test_when_the_first_is_closed_the_others_move_up_and_their_time_goes_on(self) -> None:
        made = order(coflow(1), coflow(2), coflow(3))
        made.queues(now_ns=0)
        made.queues(now_ns=HEAVY_NS)
        made.update((coflow(2), coflow(3)))
        assert made.queues(now_ns=HEAVY_NS + 5) == {2: 1, 3: 2}
        assert made.queues(now_ns=2 * HEAVY_NS) == {2: 1, 3: 1}

    def test_a_deadline_is_before_all_until_it_is_over(self) -> None:
        made = order(coflow(1), coflow(2, deadline_ns=50), coflow(3))
        assert made.queues(now_ns=49) == {1: 1, 2: DEADLINE_QUEUE, 3: 2}
        assert made.queues(now_ns=50) == {1: 1, 2: 2, 3: 3}

    def test_one_that_was_never_closed_goes_when_it_expires(self) -> None:
        made = order(coflow(1, expires_ns=50), coflow(2))
        assert made.queues(now_ns=49) == {1: 1, 2: 2}
        assert made.queues(now_ns=50) == {2: 1}

    @pytest.mark.parametrize("limits", [(0, 1), (1, 0), (-1, 1)])
    def test_a_limit_that_is_not_above_0_is_refused(self, limits: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="above 0"):
            CoflowOrder(*limits)

    @given(
        st.lists(
            st.builds(
                lambda number, size, deadline: coflow(number, size=size, deadline_ns=deadline),
                st.integers(1, 50),
                st.none() | st.integers(1, 2 * HEAVY_BYTES),
                st.none() | st.integers(0, 5 * HEAVY_NS),
            ),
            unique_by=lambda each: each.coflow,
        ),
        st.lists(st.integers(0, 5 * HEAVY_NS), min_size=1, max_size=8),
    )
    def test_queues_follow_the_order_at_every_time_and_nobody_is_before_who_opened_earlier(
        self, coflows: list[Coflow], times: list[int]
    ) -> None:
        made = order(*coflows)
        ordered = sorted(coflows, key=lambda each: each.opened_ns)
        before: dict[int, int] = {}
        for now_ns in sorted(times):
            found = made.queues(now_ns=now_ns)
            ahead = [each for each in ordered if each.deadline_ns is not None and now_ns < each.deadline_ns]
            assert {each.coflow for each in ahead} == {number for number, queue in found.items() if queue == DEADLINE_QUEUE}
            queues = [found.get(each.coflow, LAST_QUEUE) for each in ordered if each not in ahead]
            assert queues == sorted(queues)
            assert queues[:1] in ([], [FIRST_QUEUE])
            assert all(after - earlier <= 1 for earlier, after in pairwise(queues))
            dated = {each.coflow for each in coflows if each.deadline_ns is not None}
            for number, queue in before.items():
                if not dated:  # a late one comes in where it was opened
                    assert found.get(number, LAST_QUEUE) <= queue, "nobody sinks"
            before = found


class TestTelling:
    """COFLOWS messages."""

    def setup_method(self) -> None:
        self.sent: list[Message] = []
        self.timers = Timers()
        self.telling = CoflowQueues(self.timers, self.send)

    def send(self, message: Message, to: bytes) -> None:
        assert to == HEARTBEAT_MAC
        self.sent.append(message)

    def open(self, *numbers: int, now_ns: int, ahead_ns: int = 0) -> None:
        document: dict[str, Any] = {"expires_ns": NEVER, "deadline_ns": None, "size_bytes": None}
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
        self.open(7, now_ns=101)
        self.timers.run(100 + max(REPEATS_NS))
        assert {message.version for message in self.sent[1:] if isinstance(message, Coflows)} == {2}

    def test_time_alone_changes_the_order(self) -> None:
        self.open(5, 7, now_ns=0)
        self.telling.update(1000 * MS)
        assert self.telling.queues == {5: 1, 7: 1}
        assert self.sent[-1] == Coflows(2, 0, 1, ((5, 1), (7, 1)))

    def test_the_stores_clock_is_turned_into_ours(self) -> None:
        ahead_ns = 10**18
        document = {"opened_ns": ahead_ns, "expires_ns": ahead_ns + 50, "deadline_ns": ahead_ns + 20, "size_bytes": 1}
        self.telling.opened({"9": document}, ahead_ns, 10)
        assert self.telling.queues == {9: 0}
        self.telling.update(20)
        assert self.telling.queues == {9: 1}
        self.telling.update(50)
        assert self.telling.queues == {}


class FakeStore(Store):
    """Coflows in memory, with a clock of its own."""

    def __init__(self) -> None:
        self.documents: dict[int, dict[str, Any]] = {}

    def next_coflow(self, ids: int) -> tuple[int, int]:
        return len(self.documents) + 1, 5000

    def publish_coflow(self, coflow: int, document: dict[str, Any]) -> None:
        self.documents[coflow] = document

    def forget_coflow(self, coflow: int) -> None:
        del self.documents[coflow]

    def coflows(self) -> dict[int, dict[str, Any]]:
        return self.documents

    def time_ns(self) -> int:
        return 5000


class TestClient:
    """Opening, marking, closing."""

    def test_a_coflow_is_open_until_its_context_ends(self) -> None:
        store = FakeStore()
        with CoflowClient(store).open("shuffle", size_bytes=9) as opened:
            assert store.documents[opened.id]["name"] == "shuffle"
            assert CoflowClient(store).find(opened.id).id == opened.id
        with pytest.raises(NotOpen, match="coflow 1 is not open"):
            CoflowClient(store).find(1)

    def test_without_a_deadline_a_flow_has_the_coflows_mark(self) -> None:
        assert CoflowClient(FakeStore()).open().marking(size_bytes=10**6) == CoflowMark(1)

    def test_before_the_deadline_a_flow_is_of_type_1_with_what_is_left_and_after_it_one_of_the_rest(self) -> None:
        opened = OpenCoflow(FakeStore(), 4, deadline_ns=200 * MS)
        assert opened.marking(5000, now_ns=0) == FlowMark(5000, 200)
        assert opened.marking(5000, now_ns=199 * MS + 1) == FlowMark(5000, 1)
        assert opened.marking(5000, now_ns=200 * MS) == CoflowMark(4)

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
        ],
    )
    def test_what_no_coflow_can_have_is_refused_and_nothing_is_opened(self, fields: dict[str, int], named: str) -> None:
        store = FakeStore()
        with pytest.raises(ValueError, match=named):
            CoflowClient(store).open(**fields)  # type: ignore[arg-type]  # two keywords, both of them ints
        assert not store.documents
