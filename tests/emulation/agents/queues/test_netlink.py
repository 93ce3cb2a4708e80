"""The netlink socket of the gates: what was posted and refused is told, and question and answer stay together."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from agents.kernel import qdiscs
from agents.kernel.netlink import (
    ENTRIES,
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    RTM_GETQDISC,
    RTM_GETTCLASS,
    TC_H_ROOT,
    Netlink,
    NetlinkError,
    query,
)
from tests.emulation.namespaces import inside, pair

ROOT, MISSING = 1 << 16, 9 << 16
SMALL, LARGE = 2000, 3000


@pytest.fixture
def wire() -> Iterator[tuple[Netlink, int]]:
    """A socket in a namespace with an interface that has a TBF at its root."""
    with pair() as ends, inside(ends.left):
        netlink, index = Netlink(), socket.if_nametoindex("eth0")
        netlink.request(_tbf(index, ROOT, SMALL, qdiscs.NEW))
        yield netlink, index
        netlink.close()


def _tbf(index: int, handle: int, burst: int, flags: int = 0) -> bytes:
    return qdiscs.tbf(index, handle, TC_H_ROOT, rate_bps=10_000_000, burst=burst, limit=90_000, flags=flags)


def test_a_refusal_of_what_was_posted_is_raised_by_the_next_call_and_by_no_later_one(wire: tuple[Netlink, int]) -> None:
    netlink, index = wire
    for ask in (
        lambda: netlink.request(_tbf(index, ROOT, LARGE)),
        lambda: netlink.state(query(RTM_GETQDISC, index, handle=ROOT)),
        lambda: netlink.batch([_tbf(index, ROOT, LARGE)]),
        lambda: netlink.dump(RTM_GETQDISC, index),
    ):
        netlink.post(_tbf(index, MISSING, SMALL))
        netlink.post(_tbf(index, ROOT, SMALL))  # done all the same, and acknowledged
        with pytest.raises(NetlinkError) as refusal:
            ask()
        assert refusal.value.errno in (errno.EEXIST, errno.EINVAL, errno.ENOENT)  # by the kernel's version
        ask()


def test_after_a_refusal_answers_belong_to_their_questions(wire: tuple[Netlink, int]) -> None:
    netlink, index = wire
    netlink.post(_tbf(index, MISSING, SMALL))
    with pytest.raises(NetlinkError):
        netlink.state(query(RTM_GETQDISC, index, handle=ROOT))
    assert netlink.state(query(RTM_GETQDISC, index, handle=ROOT)) == (0, 0)
    assert [entry.kind for entry in netlink.dump(RTM_GETQDISC, index) if entry.handle == ROOT] == ["tbf"]


def test_answers_of_many_posts_do_not_fill_the_socket(wire: tuple[Netlink, int]) -> None:
    netlink, index = wire
    for _ in range(5000):
        netlink.post(_tbf(index, ROOT, SMALL))
    assert netlink.state(query(RTM_GETQDISC, index, handle=ROOT)) == (0, 0)


def test_a_dump_that_nobody_took_to_its_end_does_not_mix_with_the_next() -> None:
    with pair() as ends, inside(ends.left):
        index = socket.if_nametoindex("eth0")
        with closing(Netlink()) as netlink:
            netlink.request(qdiscs.htb(index, ROOT, TC_H_ROOT, 3))
            classes = [
                qdiscs.htb_class(index, ROOT | minor, ROOT, rate_bps=10**6, ceil_bps=10**6, prio=0, quantum=2000, burst=2000)
                for minor in range(16, 316)
            ]
            netlink.batch(classes)
            begun = netlink.dump_steps(RTM_GETTCLASS, index)
            assert len(next(begun)) == ENTRIES
            for _ in range(2):
                assert len(netlink.dump(RTM_GETTCLASS, index)) == len(classes)
            assert [entry.kind for entry in netlink.dump(RTM_GETQDISC, index)] == ["htb"]


class Interrupting:
    """A netlink socket on whose first dumps the kernel says that they were interrupted, with nothing in them."""

    def __init__(self, inner: socket.socket, dumps: int) -> None:
        self._inner, self._dumps = inner, dumps

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- of the socket
        return getattr(self._inner, name)

    def recv(self, size: int) -> bytes:
        data = self._inner.recv(size)
        if int.from_bytes(data[4:6], "little") == NLMSG_DONE and self._dumps:
            self._dumps -= 1
            return data[:6] + (int.from_bytes(data[6:8], "little") | NLM_F_DUMP_INTR).to_bytes(2, "little") + data[8:]
        return b"" if self._dumps else data


@pytest.mark.parametrize("dumps", [1, 3])
def test_an_interrupted_dump_is_made_again(wire: tuple[Netlink, int], dumps: int) -> None:
    netlink, index = wire
    interrupted: Any = Interrupting(netlink._socket, dumps)
    netlink._socket = interrupted
    assert [entry.kind for entry in netlink.dump(RTM_GETQDISC, index)] == ["tbf"]


def test_a_dump_that_is_interrupted_each_time_is_refused(wire: tuple[Netlink, int]) -> None:
    netlink, index = wire
    interrupted: Any = Interrupting(netlink._socket, 1_000)
    netlink._socket = interrupted
    with pytest.raises(NetlinkError) as refusal:
        netlink.dump(RTM_GETQDISC, index)
    assert refusal.value.errno == errno.EINTR
