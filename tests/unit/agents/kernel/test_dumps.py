"""Dumps that are read in steps, when another one is made on the same socket meanwhile."""

from __future__ import annotations

import errno
from collections import deque
from typing import Any

import pytest

from agents.kernel import netlink
from agents.kernel.netlink import ENTRIES, NLMSG_DONE, RTM_GETTCLASS, RTM_NEWTCLASS, Netlink, NetlinkError

INDEX, CLASSES = 7, 3 * ENTRIES


class Kernel:
    """The kernel's end: answers a dump in one part for each `ENTRIES` classes, and a last one. Nobody may wait for more."""

    def __init__(self) -> None:
        self.answers: deque[bytes] = deque()

    def send(self, _: bytes) -> None:
        entries = [self.message(RTM_NEWTCLASS, handle) for handle in range(CLASSES)]
        self.answers += [b"".join(entries[at : at + ENTRIES]) for at in range(0, CLASSES, ENTRIES)]
        self.answers.append(self.message(NLMSG_DONE, 0))

    def message(self, kind: int, handle: int) -> bytes:
        return netlink._HEADER.pack(netlink._BODY, kind, 2, 0, 0) + netlink._TCMSG.pack(0, 0, 0, INDEX, handle, 0, 0)

    def recv(self, _: int) -> bytes:
        assert self.answers, "it would wait for ever"
        return self.answers.popleft()


def test_a_check_in_steps_that_a_whole_one_overtakes_waits_for_no_answer() -> None:
    """A refusal has the agent check everything at once, while the check of this second is still under way."""
    link, kernel = Netlink(), Kernel()
    link.close()
    substituted: Any = link
    substituted._socket = kernel
    slowly = link.dump_steps(RTM_GETTCLASS, INDEX)
    assert len(next(slowly)) == ENTRIES
    assert len(link.dump(RTM_GETTCLASS, INDEX)) == CLASSES and not kernel.answers
    with pytest.raises(NetlinkError) as overtaken:
        list(slowly)
    assert overtaken.value.errno == errno.EINTR
    assert len(link.dump(RTM_GETTCLASS, INDEX)) == CLASSES


def test_a_check_whose_caller_has_stopped_reading_takes_nothing_from_the_next() -> None:
    link, kernel = Netlink(), Kernel()
    link.close()
    substituted: Any = link
    substituted._socket = kernel
    next(link.dump_steps(RTM_GETTCLASS, INDEX))
    assert len(link.dump(RTM_GETTCLASS, INDEX)) == CLASSES and not kernel.answers
