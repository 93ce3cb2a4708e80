"""The reflex for slots changes gates by the messages that the gates themselves would send, and reads the kernel's answers."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.kernel.netlink import (
    NLMSG_ERROR,
    RTM_NEWQDISC,
    TCA_STATS2,
    TCA_STATS_BASIC,
    TCA_STATS_QUEUE,
    NetlinkError,
    attribute,
    message,
    unacknowledged,
)
from agents.queues.gates import TbfGate
from agents.reflex.slot_state import GRANT, SHUT, STATE
from protocol.messages import Directive, Grant
from tests.unit.agents.reflex.test_slots_both_ways import MS, NODES, Way, sealed

NODE, BYTES = NODES[0], 50_000
FULL = 125_000
HEADER = struct.Struct("IHHII")


class Kernel:
    """The other end of the reflex's netlink socket: answers are given beforehand, messages read afterwards."""

    def __init__(self, way: Way) -> None:
        ours, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.setblocking(False)
        self._ours = ours
        assert way.reflex is not None
        way.reflex.state.terms.netlink_fd = ours.fileno()

    def answer(self, passed: int, waiting: int) -> None:
        """The state of a qdisc, as a query for it is answered."""
        basic, queue = struct.pack("QI", passed, 7), struct.pack("IIIII", 3, waiting, 0, 0, 0)
        statistics = attribute(TCA_STATS_BASIC, basic) + attribute(TCA_STATS_QUEUE, queue)
        body = attribute(1, b"tbf\0") + attribute(TCA_STATS2, statistics)
        self._end.send(message(RTM_NEWQDISC, 0, 1, handle=NODE << 16, body=body))

    def refuse(self, error: int) -> None:
        """A refusal of an earlier message."""
        self._end.send(HEADER.pack(36, NLMSG_ERROR, 0, 0, 0) + struct.pack("i", -error) + bytes(16))

    def heard(self) -> Iterator[bytes]:
        """The messages that came since the last call."""
        while True:
            try:
                yield self._end.recv(4096)
            except BlockingIOError:
                return

    def close(self) -> None:
        self._ours.close()
        self._end.close()


class Posted:
    """A netlink socket that keeps what a gate posts."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def post(self, whole: bytes | bytearray) -> None:
        self.messages.append(bytes(whole))


@pytest.fixture
def way() -> Iterator[Way]:
    made = Way([1000 * MS], by_reflex=True)
    made.agent.keeper._free_senders(NODE, 2 * FULL)
    assert made.reflex is not None
    hooks = made.reflex.state.hooks
    hooks.grant, hooks.shut, hooks.state = GRANT(), SHUT(), STATE()
    yield made
    made.close()


@pytest.fixture
def kernel(way: Way) -> Iterator[Kernel]:
    made = Kernel(way)
    yield made
    made.close()


def directive(way: Way, size: int = BYTES) -> bytes:
    now_ns = way.clock[0]
    return sealed(Directive((Grant(NODE, 5, now_ns, now_ns + 10 * MS, size, 0),)), 10)


@pytest.mark.parametrize("packet_bytes", [1518, 9018])
@pytest.mark.parametrize("size", [1, 1600, BYTES, FULL])
def test_a_grant_is_the_message_that_the_gate_would_post(way: Way, kernel: Kernel, size: int, packet_bytes: int) -> None:
    way.host._of[NODE] = TbfGate(cast(Any, None), 1, NODE << 16, 1 << 16 | NODE, packet_bytes)
    way.host.version += 1
    kernel.answer(7_000_000_000, 30_000)
    way.hear(directive(way, size))
    posted = Posted()
    gate = TbfGate(cast(Any, posted), 1, NODE << 16, 1 << 16 | NODE, packet_bytes)
    gate.grant(size, 10**8)
    assert list(kernel.heard()) == [unacknowledged(posted.messages[0]) + gate.query]
    current = way.agent.keeper.table.open[NODE]
    assert (current.passed_before, current.slot) == (7_000_000_000, 5)
    assert way.agent.keeper.next_check_ns[NODE] - way.clock[0] == 30_000 * 8 * 10  # so long the link needs for what waits


def test_a_slot_that_is_given_back_shuts_its_gate_and_asks_for_the_next_packet(way: Way, kernel: Kernel) -> None:
    kernel.answer(1000, 0)
    way.hear(directive(way))
    list(kernel.heard())
    kernel.answer(1500, 0)
    way.clock[0] += MS
    way.advance()  # this look finds that something passed
    kernel.answer(1500, 0)
    kernel.answer(1500, 20)
    way.clock[0] += MS
    way.advance()
    gate = way.host.gate_of(NODE)
    assert gate is not None
    assert unacknowledged(gate.shut_message) in list(kernel.heard())
    assert way.gates.armed[NODE].value == 1
    assert NODE not in way.agent.keeper.table.open
    assert any("Yield" in one and f"unspent_bytes={BYTES - 500}" in one for one in way.said())


def test_a_refusal_opens_no_slot_and_is_told(way: Way, kernel: Kernel) -> None:
    kernel.refuse(errno.ENOENT)
    kernel.answer(1000, 0)
    way.hear(directive(way))
    assert NODE not in way.agent.keeper.table.open and not way.agent.keeper.counters.slots
    assert way.reflex is not None
    with pytest.raises(NetlinkError) as refused:
        way.reflex.check()
    assert refused.value.errno == errno.ENOENT
    way.reflex.check()
    assert way.reflex.frame() is None


def test_a_frame_that_came_with_a_refusal_is_heard_before_the_repair(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.agent.Waiting", lambda *_: SimpleNamespace(close=lambda: None))
    assert way.reflex is not None
    reflex, state, done = way.reflex, way.reflex.state, list[object]()

    def waited(*_: object) -> list[int]:
        state.raw[:3], state.raw_bytes, state.refused_errno = b"one", 3, errno.ENOENT
        return []

    def repaired(error: NetlinkError, _now_ns: int) -> None:
        done.append(error.errno)
        way.agent.stop()

    agent: Any = way.agent
    agent.link.deferred_fileno, agent._next_ns = (lambda: -1), (lambda: 1 << 62)
    agent._receive, agent._upkeep.on_kernel_refusal = (lambda raw, *_: done.append(raw)), repaired
    slots: Any = SimpleNamespace(ready=lambda: True, wait=waited, frame=reflex.frame, check=reflex.check)
    agent.run(None, slots)
    assert done == [b"one", errno.ENOENT]


def test_a_kernel_that_does_not_answer_is_a_refusal(way: Way, kernel: Kernel) -> None:
    way.hear(directive(way))
    assert NODE not in way.agent.keeper.table.open
    assert way.reflex is not None and way.reflex.state.refused_errno == errno.EIO
