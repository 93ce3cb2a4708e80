"""Qdiscs of an interface while others vanish: the kernel leaves some out of a dump, and does not say so."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from agents.kernel import snapshot
from agents.kernel.netlink import NLM_F_DUMP, RTM_GETQDISC, Netlink, message
from agents.kernel.snapshot import ForeignQdisc, Snapshot
from tests.emulation.namespaces import inside, pair, run

OTHERS = 300
DUMP = message(RTM_GETQDISC, NLM_F_DUMP, 0)[4:8]
"""Type and flags of the request."""


class Vanishing:
    """A netlink socket: a pair of interfaces vanishes while the kernel has begun a dump of qdiscs."""

    def __init__(self, inner: socket.socket, others: list[str]) -> None:
        self._inner, self._others = inner, others

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- of the socket
        return getattr(self._inner, name)

    def send(self, data: bytes) -> int:
        sent = self._inner.send(data)
        if data[4:8] == DUMP:
            run("ip", "link", "del", self._others.pop(0))
        return sent


class Crowd(NamedTuple):
    """A namespace of many interfaces, and the one that a dump disturbed in this way leaves out."""

    netlink: Netlink
    interface: str
    index: int


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with pair() as ends, inside(ends.left):
        names = [f"some{number}" for number in range(OTHERS // 2)]
        lines = "".join(
            f"link add {name} type veth peer name {name}p\nlink set {name} up\nlink set {name}p up\n" for name in names
        )
        subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)
        netlink = Netlink()
        netlink.dump(RTM_GETQDISC, 1)  # the kernel learns how much this socket reads at once
        netlink._socket.send(message(RTM_GETQDISC, NLM_F_DUMP, 0))
        begun = _indices(netlink._socket.recv(1 << 17))
        index = _indices(netlink._socket.recv(1 << 17))[0]
        assert index not in begun
        netlink.close()
        netlink = Netlink()
        netlink.dump(RTM_GETQDISC, 1)
        left_out: Any = Vanishing(netlink._socket, names)
        netlink._socket = left_out
        yield Crowd(netlink, socket.if_indextoname(index), index)
        netlink.close()


def _indices(data: bytes) -> list[int]:
    found = []
    while data:
        (length,) = struct.unpack_from("I", data)
        found.append(struct.unpack_from("i", data, 20)[0])
        data = data[(length + 3) & ~3 :]
    return found


def test_what_an_administrator_set_is_recorded(crowd: Crowd) -> None:
    run("tc", "qdisc", "add", "dev", crowd.interface, "root", "handle", "7:", "pfifo", "limit", "77")
    run("tc", "qdisc", "add", "dev", crowd.interface, "clsact")
    taken = snapshot.take(crowd.netlink, crowd.interface, crowd.index, take_over=False)
    assert (taken.kind, taken.handle, taken.clsact) == ("pfifo", 7 << 16, True)


@pytest.mark.parametrize("words", [("root", "handle", "7:", "htb"), ("ingress",)])
def test_what_cannot_be_put_back_is_refused(crowd: Crowd, words: tuple[str, ...]) -> None:
    run("tc", "qdisc", "add", "dev", crowd.interface, *words)
    with pytest.raises(ForeignQdisc):
        snapshot.take(crowd.netlink, crowd.interface, crowd.index, take_over=False)


def test_what_somebody_else_made_since_stays(crowd: Crowd) -> None:
    run("tc", "qdisc", "add", "dev", crowd.interface, "root", "handle", "7:", "pfifo", "limit", "77")
    snapshot.restore(crowd.netlink, Snapshot(crowd.interface, "", 0, "", False, 0), crowd.index)
    assert "pfifo 7:" in run("tc", "qdisc", "show", "dev", crowd.interface)


def test_an_interface_that_is_down_has_nothing_to_record(crowd: Crowd) -> None:
    run("ip", "link", "add", "later0", "type", "veth", "peer", "name", "later1")  # its qdisc, noop, is shown to nobody
    index = socket.if_nametoindex("later0")
    taken = snapshot.take(crowd.netlink, "later0", index, take_over=False)
    assert (taken.kind, taken.clsact) == ("", False)
