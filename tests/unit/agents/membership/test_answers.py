"""An agent that hears its leader, and gets no answer from it, holds nothing back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.membership.answers import Answers, Need, Unanswered
from agents.membership.lifecycle import State
from protocol.key import Key
from protocol.messages import Backlog, Directive, Directory, Grant, Message, Ping, Pong, Register, Regulate, Welcome, decode
from tests.unit.agents.membership.test_agent_heartbeats import MS, World, mac

FAIL_OPEN = 45 * MS


class OneWay(World):
    """A member that must ask before it sends to node 17, and whose leader it hears every 12 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.agent._receive(self.frame(Directory(1, 0, 1, ((17, ()),)), mac(1)), MS)
        self.agent._receive(self.frame(Regulate(1, 0, 1, (17,)), mac(1)), MS)

    def sent(self, kind: type[Message]) -> list[Message]:
        """The messages of one kind that were sent since the last call; forgets the others, too."""
        frames, self.link.sent = self.link.sent, []
        return [message for frame in frames if isinstance(message := decode(frame, Key(bytes(32))).message, kind)]

    def run(self, begin_ns: int, end_ns: int, *, answers: bool = False) -> int | None:
        """Lets time pass while heartbeats come; returns when the gates opened."""
        for now_ns in range(begin_ns, end_ns, MS):
            if not now_ns % (12 * MS):
                self.link.waiting = [(self.heartbeat(), 0)]
            if self.agent.membership.heartbeats.due(now_ns):
                self.agent._hear(now_ns)
            if self.agent._next_ns() <= now_ns:
                self.agent._keep_watch(now_ns)
            for ping in self.sent(Ping) if answers else ():
                assert isinstance(ping, Ping)
                self.agent._receive(self.frame(Pong(ping.sent_ns, 5, 5), mac(1)), now_ns)
            if not self.agent.enforcing:
                return now_ns
        return None


def test_heartbeats_alone_keep_no_gate_shut_for_longer_than_fail_open() -> None:
    world = OneWay()
    assert world.run(2 * MS, 300 * MS) is None, "nothing waits"
    world.agent.keeper.backlogged(17, 300 * MS)
    assert world.sent(Backlog)
    opened_ns = world.run(300 * MS, 2_000 * MS)
    assert opened_ns is not None and opened_ns <= 350 * MS
    assert world.agent.membership.state is State.REGISTERING and world.sent(Register)
    assert world.run(opened_ns, opened_ns + 500 * MS) == opened_ns, "heartbeats do not shut them again"
    welcome = Welcome(world.agent.membership._nonce, 16, 12 * MS, 50 * MS, 0, 0, 0, 50 * MS)
    world.agent._receive(world.frame(welcome, mac(1)), 900 * MS)
    assert world.agent.enforcing


def test_a_leader_that_answers_may_keep_a_host_waiting_for_its_turn() -> None:
    world = OneWay()
    world.run(2 * MS, 300 * MS)
    world.agent.keeper.backlogged(17, 300 * MS)
    assert world.run(300 * MS, 2_000 * MS, answers=True) is None
    assert not world.agent.clock.synchronised, "these questions are not about the time"


def test_directives_are_answers_and_cost_no_question() -> None:
    world = OneWay()
    for now_ns in range(300 * MS, 600 * MS, 10 * MS):
        world.agent.keeper.backlogged(17, now_ns)
        grant = Grant(17, now_ns, 1 << 60, 1 << 61, 1500, 0)
        world.agent._receive(world.frame(Directive((grant,)), mac(1)), now_ns)
        assert world.run(now_ns, now_ns + 10 * MS) is None
    assert not world.sent(Ping)


class TestTheQuestions:
    """When to ask, and when to open."""

    def test_it_asks_twice_before_it_opens(self) -> None:
        answers, found = Answers(), []
        answers.look(0, holds=False, answered_ns=0, fail_open_ns=FAIL_OPEN)
        for now_ns in range(MS, 60 * MS, MS):
            need = answers.look(now_ns, holds=True, answered_ns=0, fail_open_ns=FAIL_OPEN)
            if need is not Need.NOTHING:
                found.append((now_ns // MS, need))
        assert found[:3] == [(15, Need.ASK), (30, Need.ASK), (45, Need.OPEN)]

    @given(st.lists(st.integers(0, 20), min_size=3, max_size=40), st.sets(st.integers(0, 40)))
    def test_whoever_is_answered_in_time_stays_and_nobody_else_waits_longer(self, steps: list[int], answered: set[int]) -> None:
        answers, now_ns, last_ns = Answers(), 0, 0
        answers.look(0, holds=False, answered_ns=0, fail_open_ns=FAIL_OPEN)
        for number, step in enumerate(steps):
            now_ns = min(now_ns + step * MS, answers.due_ns or 1 << 62)
            last_ns = now_ns if number in answered else last_ns
            need = answers.look(now_ns, holds=True, answered_ns=last_ns, fail_open_ns=FAIL_OPEN)
            assert (need is Need.OPEN) == (now_ns - last_ns >= FAIL_OPEN)
            if need is Need.OPEN:
                return

    @pytest.mark.parametrize("fail_open_ns", [5 * MS, 45 * MS, 10_000 * MS])
    def test_nothing_is_due_while_nothing_is_held(self, fail_open_ns: int) -> None:
        answers = Answers()
        assert answers.look(10**12, holds=False, answered_ns=0, fail_open_ns=fail_open_ns) is Need.NOTHING
        assert answers.due_ns is None


class TestTheLog:
    """The agent's log names the likely cause where the leader is heard and does not answer: the key was revoked."""

    @staticmethod
    def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
        found = [record.getMessage() for record in caplog.records if "answer" in record.getMessage()]
        caplog.clear()
        return found

    def test_a_member_that_gets_no_answer_any_more(self, caplog: pytest.LogCaptureFixture) -> None:
        world = OneWay()
        caplog.set_level("INFO")
        world.run(2 * MS, 31_000 * MS)
        (line,) = self.lines(caplog)
        assert line == (
            "the leader is heard, and has not answered h1 for 30 s: the key of this host was revoked, or its frames do not "
            "reach the leader; see `baton host list` at the controller, and if the key is revoked, enroll the host anew "
            "(`baton host enroll h1`)"
        )
        world.run(31_000 * MS, 70_000 * MS)
        assert not self.lines(caplog), "once is enough"
        world.agent._receive(world.frame(Pong(0, 5, 5), mac(1)), 70_000 * MS)
        world.run(70_001 * MS, 72_000 * MS)
        assert self.lines(caplog) == ["the leader answers h1 again"]

    def test_a_host_that_is_answered_is_told_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        world = OneWay()
        for now_ns in range(2 * MS, 60_000 * MS, 9_000 * MS):
            world.agent._receive(world.frame(Pong(0, 5, 5), mac(1)), now_ns)
            world.run(now_ns, now_ns + 9_000 * MS)
        assert not self.lines(caplog)

    def test_a_host_whose_registration_is_not_answered(self) -> None:
        found = Unanswered()
        times = (5, 9_000, 10_004, 10_005, 60_000)
        told = [found.look(now * MS, heard=True, member=False, answered_ns=0) for now in times]
        assert told == [None, None, None, True, None]

    def test_while_no_leader_is_heard_that_is_not_what_is_wrong(self) -> None:
        found = Unanswered()
        assert found.look(MS, heard=True, member=False, answered_ns=0) is None
        assert found.look(60_000 * MS, heard=False, member=False, answered_ns=0) is None
        assert found.look(60_001 * MS, heard=True, member=False, answered_ns=0) is None
