"""The reflex for slots waits in the agent's place: it obeys directives meanwhile, and ends for all that is the agent's."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from agents.permission.rules import Rule
from agents.reflex.slot_state import CLOCK
from agents.reflex.slots import SlotReflex
from protocol.messages import Directive, Grant, Pong
from tests.unit.agents.reflex.test_slots_both_ways import MS, NODES, Way, sealed

NODE, LONG_NS = NODES[0], 3_000 * MS


@pytest.fixture
def way() -> Iterator[Way]:
    """With the machine's own clock."""
    made = Way([time.monotonic_ns()], by_reflex=True)
    made.agent.keeper._free_senders(NODE, 250_000)
    made.agent.membership.heartbeats.answered(time.monotonic_ns())
    assert made.reflex is not None
    made.reflex.state.hooks.clock = CLOCK()
    yield made
    made.close()


def reflex(way: Way) -> SlotReflex:
    assert way.reflex is not None and way.reflex.ready()
    return way.reflex


def wait(way: Way, *others: int, ns: int = LONG_NS, poll_ns: int = 0) -> tuple[list[int], int]:
    """What the wait returned, and how long it took."""
    began_ns = time.monotonic_ns()
    way.agent.poll_until_ns = began_ns + poll_ns
    found = reflex(way).wait([way.link.fileno(), *others], began_ns + ns)
    return found, time.monotonic_ns() - began_ns


def serve(way: Way, ns: int) -> None:
    """Waits for so long, and reads heartbeats in between, as an agent does."""
    until_ns = time.monotonic_ns() + ns
    while (now_ns := time.monotonic_ns()) < until_ns:
        way.agent.membership.heartbeats.looked(now_ns)
        way.agent.membership.heartbeats.answered(now_ns)
        found, _ = wait(way, ns=until_ns - now_ns)
        assert not found


def test_a_directive_is_obeyed_and_its_slot_opened_at_its_start(way: Way) -> None:
    start_ns = time.monotonic_ns() + 100 * MS
    way.link._there.send(sealed(Directive((Grant(NODE, 7, start_ns, start_ns + 2000 * MS, 50_000, 0),)), 10))
    serve(way, 300 * MS)
    keeper = way.agent.keeper
    assert keeper.counters.slots == 1 and keeper.counters.lateness_ns[0] >= 0
    assert [one.count("Ack(slot=7") for one in way.said() if "Ack" in one] == [1]
    assert way.agent.guard.newest(way.agent.leader_mac) == 10
    assert way.agent.membership.heartbeats.last_answer_ns >= start_ns - 100 * MS


def test_a_slot_that_is_granted_again_before_its_start_is_opened_once(way: Way) -> None:
    start_ns = time.monotonic_ns() + 300 * MS
    for sequence, later_ns in ((10, 0), (11, 100 * MS)):
        grant = Grant(NODE, 7, start_ns + later_ns, start_ns + 2000 * MS, 50_000, 0)
        way.link._there.send(sealed(Directive((grant,)), sequence))
    serve(way, 600 * MS)
    assert way.agent.keeper.counters.slots == 1 and not way.agent.keeper.table.waiting
    assert way.agent.keeper.counters.lateness_ns[0] >= 0 and way.agent.keeper.counters.ahead_ns[0] > 0


@pytest.mark.parametrize("poll_ns", [0, LONG_NS])
def test_a_frame_of_another_kind_is_the_agents_as_it_came(way: Way, poll_ns: int) -> None:
    raw = sealed(Pong(0, 1, 1), 10)
    way.link._there.send(raw)
    accepted = way.agent.guard.accepted
    found, took_ns = wait(way, poll_ns=poll_ns)
    assert found == [way.link.fileno()] and took_ns < LONG_NS
    assert reflex(way).frame() == raw and reflex(way).frame() is None
    assert way.agent.guard.accepted == accepted


def test_another_descriptor_ends_the_wait(way: Way) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    found, took_ns = wait(way, reading)
    os.close(reading)
    os.close(writing)
    assert found == [reading] and took_ns < LONG_NS


def test_a_signal_ends_the_wait(way: Way) -> None:
    way.agent.membership.heartbeats.within_ns = way.agent.membership.fail_open_ns = 10 * LONG_NS
    rung = []
    before = signal.signal(signal.SIGUSR1, lambda *_: rung.append(True))
    bell = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
    bell.start()
    try:
        found, took_ns = wait(way)
        bell.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not found and rung and took_ns < LONG_NS


def test_an_agent_that_holds_packets_back_is_awake_in_time_to_ask_its_leader(way: Way) -> None:
    way.agent.membership.heartbeats.within_ns, way.agent.membership.fail_open_ns = LONG_NS, 600 * MS
    way.gates.at(NODE).queue = 5000
    now_ns = time.monotonic_ns()
    way.agent.keeper.backlogged(NODE, now_ns)
    way.agent.membership.heartbeats.answered(now_ns)
    found, took_ns = wait(way)
    assert not found and way.agent.membership.question_ns * 9 // 10 < took_ns < LONG_NS


def test_the_agent_is_awake_in_time_to_read_heartbeats_and_a_directive_puts_that_off(way: Way) -> None:
    heartbeats = way.agent.membership.heartbeats
    heartbeats.within_ns, way.agent.membership.fail_open_ns = 200 * MS, 600 * MS
    found, took_ns = wait(way)
    assert not found and took_ns < LONG_NS
    start_ns = time.monotonic_ns() + LONG_NS
    heartbeats.answered(time.monotonic_ns() - heartbeats.within_ns // 2)
    way.link._there.send(sealed(Directive((Grant(NODE, 7, start_ns, start_ns + MS, 5000, 0),)), 10))
    _, took_ns = wait(way)
    assert heartbeats.within_ns * 9 // 10 < took_ns < LONG_NS


def test_an_answer_puts_the_next_question_off(way: Way) -> None:
    way.agent.membership.heartbeats.within_ns, way.agent.membership.fail_open_ns = LONG_NS, 600 * MS
    way.gates.at(NODE).queue = 5000
    now_ns = time.monotonic_ns()
    way.agent.keeper.backlogged(NODE, now_ns)
    way.agent.membership.heartbeats.answered(now_ns - way.agent.membership.question_ns // 2)
    way.link._there.send(sealed(Directive((Grant(NODE, 7, now_ns + LONG_NS, now_ns + LONG_NS + MS, 5000, 0),)), 10))
    _, took_ns = wait(way)
    assert way.agent.membership.question_ns * 9 // 10 < took_ns < LONG_NS


def test_while_a_rule_shuts_a_queue_slots_are_not_the_reflexes(way: Way) -> None:
    assert reflex(way)
    way.agent.rules.block(Rule.QUEUE, [NODE])
    assert way.reflex is not None and not way.reflex.ready()
    way.agent.rules.unblock(Rule.QUEUE, [NODE])
    assert way.reflex.ready()
