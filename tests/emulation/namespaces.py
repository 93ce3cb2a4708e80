"""Two hosts that a veth pair joins, each in a network namespace of its own, for the time of a test."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from emulation.netns import network_namespace

_numbers = itertools.count()


def run(*command: str) -> str:
    """Runs a command; its standard output. Fails with what the command printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def inside(namespace: str) -> AbstractContextManager[None]:
    """Moves this thread into the namespace for the block; sockets and processes made in the block stay there."""
    return network_namespace(f"/run/netns/{namespace}")


@dataclass(frozen=True)
class Pair:
    """Namespaces `left` and `right`, interfaces eth0, addresses 10.9.0.1 and 10.9.0.2 to 10.9.0.9."""

    left: str
    right: str

    def tc(self, *arguments: str) -> list[dict[str, Any]]:
        """The rows that `tc -s -j` shows in the left host."""
        out = run("ip", "netns", "exec", self.left, "tc", "-s", "-j", *arguments)
        return list(json.loads(out or "[]"))

    def found(self) -> str:
        """Everything that tc shows of the left interface, without counters."""
        link = json.loads(run("ip", "-n", self.left, "-d", "-j", "link", "show", "dev", "eth0"))[0]
        return str(link["gso_max_segs"]) + "".join(
            run("ip", "netns", "exec", self.left, "tc", *what, "show", "dev", "eth0", *where)
            for what, where in ((("qdisc",), ()), (("class",), ()), (("filter",), ()), (("filter",), ("egress",)))
        )


@contextmanager
def pair() -> Iterator[Pair]:
    """Makes a pair for the block."""
    stem = f"baton{os.getpid()}-{next(_numbers)}"
    left, right = f"{stem}l", f"{stem}r"
    try:
        for name in (left, right):
            run("ip", "netns", "add", name)
            # The kernel's own frames (router solicitations) would be counted as traffic.
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
