"""The reflex alone, on a real link: it sets the kernel's gates correctly before any rule runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import MethodType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import run
from agents.agent import Agent
from agents.config import AgentConfig
from agents.host_control.queue_conditions import QueueConditions
from agents.host_control.week_schedule import WeekSchedule
from agents.kernel.netlink import NetlinkError
from agents.loop.waiting import Waiting
from agents.permission.conditions import Step
from agents.permission.rules import Rule
from agents.reflex import reflex
from agents.reflex.reflex import LONGEST_LEAD_NS, Reflex
from agents.reflex.state import read
from ebpf.build import BuildError
from protocol import pfc as frames
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from protocol.pfc import BadFrameError, PauseFrame, PfcFrame
from tests.emulation.agents.host_control.pause_wire import OTHER, PARTNER, RATE, STRANGER, S, Wire, pfc, wired
from tests.emulation.namespaces import inside, pair

LONG_NS = 2 * S


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with wired(tmp_path, reflex=True) as made:
        yield made


def once(wire: Wire, descriptors: tuple[int, ...] = (), ns: int = LONG_NS, *, poll: bool = False) -> list[int]:
    """One wait, without a turn of the part."""
    assert wire.reflex is not None
    return wire.reflex.wait(descriptors, time.monotonic_ns() + ns, poll=poll)


def arrived(wire: Wire, seconds: float = 0.1) -> int:
    """The number of datagrams that arrive, without a turn of the part."""
    time.sleep(seconds)
    wire.receiver.setblocking(False)
    count = 0
    try:
        while True:
            wire.receiver.recv(65536)
            count += 1
    except BlockingIOError:
        return count


@pytest.mark.parametrize("poll", [False, True])
def test_a_pause_shuts_and_a_resume_opens_before_any_rule_is_asked(wire: Wire, poll: bool) -> None:
    wire.partner.send(pfc({3: 0xFFFF}))
    (pauses,) = wire.part.descriptors
    assert once(wire, poll=poll) == [pauses]
    wire.send(20)
    wire.send(20, OTHER)
    assert arrived(wire) == 20
    assert wire.waiting(16) >= 19
    before_ns = time.monotonic_ns()
    wire.partner.send(pfc({3: 0}))
    assert once(wire, poll=poll) == [pauses]
    assert arrived(wire) == 20
    assert wire.reflex is not None and wire.reflex._state.commanded_ns > before_ns  # it rehearses for a while after it
    wire.agent.rules.reconcile()


def test_frames_are_handed_on_as_they_came_once(wire: Wire) -> None:
    wire.partner.send(pfc({3: 0xFFFF, 5: 7}))
    once(wire)
    assert wire.reflex is not None
    (frame,) = wire.reflex.take_frames()
    assert frames.read(frame)[2] == {3: 0xFFFF, 5: 7}
    assert wire.reflex.take_frames() == []
    wire.agent.rules.reconcile()


def test_a_resume_opens_nothing_that_another_rule_holds(wire: Wire) -> None:
    wire.frame(pfc({3: 0xFFFF}))
    wire.agent.rules.block(Rule.QUEUE, [16])
    wire.partner.send(pfc({3: 0}))
    once(wire)
    wire.send(20)
    assert arrived(wire) == 0
    wire.serve(0.02)  # the frame has waited for the part
    assert arrived(wire) == 0
    wire.agent.rules.unblock(Rule.QUEUE, [16])
    assert arrived(wire) == 20


def test_a_resume_opens_nothing_that_needs_permission(wire: Wire) -> None:
    wire.keeper.enforce(time.monotonic_ns())
    wire.keeper.regulate(frozenset({16}), time.monotonic_ns())
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(20)
    wire.frame(pfc({3: 0}))
    assert arrived(wire) <= 1
    wire.keeper.release()
    assert arrived(wire) >= 19


def test_a_strangers_pause_shuts_nothing(wire: Wire) -> None:
    wire.settings(accept_from=(bytes.fromhex(PARTNER.replace(":", "")),))
    wire.partner.send(pfc({3: 0xFFFF}, source=STRANGER))
    once(wire)
    wire.send(20)
    assert arrived(wire) == 20


def test_a_step_is_made_at_its_instant(wire: Wire) -> None:
    assert wire.reflex is not None
    at_ns = time.monotonic_ns() + 50_000_000
    wire.agent.rules.block(Rule.WEEK, [17])
    wire.send(10, OTHER)
    wire.reflex.steps = lambda: (Step(at_ns, frozenset({16}), frozenset({17})),)
    assert wire.reflex.plan()
    assert once(wire) == []
    assert at_ns - LONGEST_LEAD_NS <= wire.agent.rules.step_done_ns < at_ns + 20_000_000
    wire.reflex.steps = tuple
    wire.send(20)
    assert arrived(wire) == 10  # those to the other
    wire.agent.rules.unblock(Rule.WEEK, [17])
    wire.agent.rules.reconcile()  # that 16 is shut, no rule says
    assert arrived(wire) == 20


def test_a_step_is_begun_as_much_earlier_as_its_messages_take_and_the_wait_ends_no_sooner(wire: Wire) -> None:
    assert wire.reflex is not None
    leads = []
    for _ in range(5):
        at_ns = time.monotonic_ns() + 5_000_000
        wire.reflex.steps = lambda at_ns=at_ns: (Step(at_ns, frozenset(), frozenset({17})),)
        assert wire.reflex.plan() and once(wire) == []
        assert time.monotonic_ns() >= at_ns
        leads.append(wire.reflex._state.lead_ns)
        wire.agent.rules.reconcile()
    assert all(0 < lead <= LONGEST_LEAD_NS for lead in leads)
    assert max(after - before for before, after in pairwise(leads)) < 100  # one that took long says little


@pytest.mark.parametrize("when", ["polling", "before a step", "after a command", "else"])
def test_what_it_rehearses_changes_nothing(wire: Wire, when: str, caplog: pytest.LogCaptureFixture) -> None:
    assert wire.reflex is not None
    wire.frame(pfc({3: 0xFFFF}))
    wire.agent.rules.block(Rule.QUEUE, [16])
    wire.frame(pfc({3: 0}))
    wire.send(20)
    before, rehearsed, state = gates(wire), set[int](), wire.reflex._state
    state.spin_ns = 5_000_000  # a timer of this process may be late by more than the agent's
    for _ in range(20):
        at_ns = time.monotonic_ns() + 10_000_000
        stepping = when == "before a step"
        wire.reflex.steps = lambda at_ns=at_ns, stepping=stepping: (Step(at_ns, frozenset(), frozenset()),) * stepping
        state.commanded_ns = time.monotonic_ns() if when == "after a command" else 0
        assert wire.reflex.plan() and once(wire, ns=10_000_000, poll=when == "polling") == []
        rehearsed.add(state.rehearsed_ns)
    assert len(rehearsed) > 10 if when != "else" else len(rehearsed) == 1
    assert gates(wire) == before and not caplog.text
    wire.send(20, OTHER)
    assert arrived(wire) == 20
    assert wire.waiting(16) >= 19


def gates(wire: Wire) -> dict[str, object]:
    """The output of tc for each TBF."""
    found = wire.pair.tc("qdisc", "show", "dev", "eth0")
    return {qdisc["handle"]: qdisc["options"] for qdisc in found if qdisc["kind"] == "tbf"}


@pytest.mark.parametrize("poll", [False, True])
def test_it_waits_like_a_plain_wait(wire: Wire, poll: bool) -> None:
    reading, writing = os.pipe()
    begin = time.monotonic_ns()
    assert once(wire, (reading,), 20_000_000, poll=poll) == []
    assert (0 if poll else 20_000_000) <= time.monotonic_ns() - begin < LONG_NS  # polling, it comes back soon
    os.write(writing, b"!")
    begin = time.monotonic_ns()
    assert once(wire, (reading,), poll=poll) == [reading]
    assert time.monotonic_ns() - begin < LONG_NS / 2
    assert once(wire, (reading,), -1, poll=poll) == [reading]  # what is due already sees what is there
    os.close(reading)
    os.close(writing)


def test_a_gate_that_is_gone_is_told_by_the_rules_own_try(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    with inside(wire.pair.left):
        wire.host.queues._netlink.request(deletion(wire))
    wire.partner.send(pfc({3: 0xFFFF}))
    once(wire)
    assert "the kernel refused to change a gate" in caplog.text
    with pytest.raises(NetlinkError):
        wire.agent.rules.block(Rule.PAUSE, [3])
        wire.host.state(16)
    assert wire.host.queues.repair()
    wire.agent.rules.reapply()
    wire.agent.rules.reconcile()


def deletion(wire: Wire) -> bytes:
    """A message that deletes the class of node 16, with its gate."""
    from agents.kernel.netlink import RTM_DELTCLASS, message
    from agents.queues.queues import LINK, ROOT

    return message(RTM_DELTCLASS, 0, wire.host.queues._index, handle=ROOT | 16, parent=LINK)


def test_an_agent_does_without_where_it_cannot_be_built(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise BuildError("clang is missing: install the package clang")

    monkeypatch.setattr(reflex, "LIBRARY", SimpleNamespace(loaded=fail))
    agent = SimpleNamespace(rules=wire.agent.rules, keeper=wire.keeper, link=wire.host.link)
    weeks, conditions = SimpleNamespace(next_steps=tuple), SimpleNamespace(has_conditions=bool)
    assert run._reflex(agent, wire.host, weeks, conditions) is None  # type: ignore[arg-type]  # what it uses of each
    assert "without a reflex: clang is missing" in caplog.text


@pytest.mark.parametrize(("pfc_mode", "obeys"), [("software", True), ("off", False)])
def test_an_agent_waits_in_it_and_hands_it_its_pauses_and_its_weeks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pfc_mode: str, obeys: bool
) -> None:
    key = tmp_path / "key"
    host_file.save(Master(Key(b"m" * 32)).enroll("host"), key)
    seen: list[tuple[object, object, bool]] = []

    class Seen(Waiting):
        def __init__(self, descriptors: Sequence[int], deferred: int, used: Reflex | None = None) -> None:
            super().__init__(descriptors, deferred, used)
            assert used is not None
            seen.append((used, used.steps, used.plan()))

    def once_only(agent: Agent, *_: object) -> None:
        busy, next_instant_ns = agent.throttle.busy, agent.throttle.next_instant_ns
        assert isinstance(busy, MethodType) and busy.__func__ is Reflex.busy
        assert isinstance(next_instant_ns, MethodType) and next_instant_ns.__func__ is WeekSchedule.next_due_ns
        agent.stop()

    monkeypatch.setattr("agents.agent.Waiting", Seen)
    monkeypatch.setattr(Agent, "_serve", once_only)
    monkeypatch.setattr(run.capabilities, "drop", lambda: "")  # they are the test's own
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)
    config = AgentConfig("eth0", RATE, key, run_dir=tmp_path, realtime=None, pfc=pfc_mode, busy_poll=True)
    with pair() as ends, inside(ends.left):
        assert run.run(config) == 0
    ((used, steps, wanted),) = seen
    assert isinstance(used, Reflex) and isinstance(steps, MethodType)
    assert isinstance(steps.__self__, WeekSchedule) and steps.__func__ is WeekSchedule.next_steps
    assert wanted is obeys
    has_conditions = used.conditions.has_conditions
    assert isinstance(has_conditions, MethodType) and isinstance(has_conditions.__self__, QueueConditions)


SOURCES = st.sampled_from([bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")])
QUANTA = st.integers(0, 0xFFFF)
WELL_FORMED = st.one_of(
    st.builds(lambda source, quanta: PfcFrame(source, quanta).encode(), SOURCES, st.dictionaries(st.integers(0, 7), QUANTA)),
    st.builds(lambda source, quanta: PauseFrame(source, quanta).encode(), SOURCES, QUANTA),
)
DAMAGED = st.builds(
    lambda whole, at, by, length: (whole[:at] + bytes([whole[at] ^ by]) + whole[at + 1 :])[:length],
    WELL_FORMED, st.integers(0, 33), st.integers(0, 255), st.sampled_from([0, 13, 34, 59, 60, 60, 60, 60]),
)  # fmt: skip


@given(st.one_of(WELL_FORMED, DAMAGED), st.integers(0, 255), st.lists(SOURCES, max_size=2))
def test_it_reads_a_frame_as_the_rules_do(frame: bytes, ignored: int, partners: list[bytes]) -> None:
    shut = opened = 0
    try:
        _, source, quanta = frames.read(frame)
    except BadFrameError:
        quanta = {}
    else:
        quanta = quanta if not partners or source in partners else {}
    for priority, time_ in quanta.items():
        if not ignored >> priority & 1:
            shut |= bool(time_) << priority
            opened |= (not time_) << priority
    assert read(frame, ignored=ignored, partners=partners) == (shut, opened)
