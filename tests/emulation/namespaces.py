"""Two hosts joined by a veth pair, each in a network namespace of its own, gone when the test is."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

CLONE_NEWNET = 0x40000000
_numbers = itertools.count()


def run(*command: str) -> str:
    """Runs a command; its standard output. Fails with what the command said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread's sockets, made in the block, belong to the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        assert libc.setns(there, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        assert libc.setns(home, CLONE_NEWNET) == 0
        os.close(home)
        os.close(there)


@dataclass(frozen=True)
class Pair:
    """Namespaces `left` and `right`, interfaces eth0, addresses 10.9.0.1 and 10.9.0.2 to 10.9.0.9."""

    left: str
    right: str

    def tc(self, *arguments: str) -> list[dict[str, Any]]:
        """What `tc -s -j` of the left host shows."""
        out = run("ip", "netns", "exec", self.left, "tc", "-s", "-j", *arguments)
        return list(json.loads(out or "[]"))

    def found(self) -> str:
        """Everything tc knows of the left interface, without counters."""
        link = json.loads(run("ip", "-n", self.left, "-d", "-j", "link", "show", "dev", "eth0"))[0]
        return str(link["gso_max_segs"]) + "".join(
            run("ip", "netns", "exec", self.left, "tc", *what, "show", "dev", "eth0", *where)
            for what, where in ((("qdisc",), ()), (("class",), ()), (("filter",), ()), (("filter",), ("egress",)))
        )


@contextmanager
def pair() -> Iterator[Pair]:
    """Makes a pair and takes it away."""
    stem = f"baton{os.getpid()}-{next(_numbers)}"
    left, right = f"{stem}l", f"{stem}r"
    try:
        for name in (left, right):
            run("ip", "netns", "add", name)
            # Its own chatter (router solicitations) would be counted as traffic.
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
        run("ip", "-n", left, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", right)
        for name, last in ((left, 1), (right, 2)):
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "addr", "add", f"10.9.0.{last}/24", "dev", "eth0")
            run("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        for last in range(3, 10):
            run("ip", "-n", right, "addr", "add", f"10.9.0.{last}/24", "dev", "eth0")
        yield Pair(left, right)
    finally:
        for name in (left, right):
            subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)
