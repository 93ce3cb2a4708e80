"""A ring of three bridges of a private Open vSwitch under RSTP, joined by veth pairs: fixtures for root tests."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator

import pytest

from emulation.fabric.ovs import OpenVSwitch

PAIRS = ((1, 2), (2, 3), (3, 1))
RUNS = itertools.count(1)


def run(*argv: str) -> str:
    """Runs a command to its end; its standard output, or CalledProcessError."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout


@pytest.fixture
def prefix() -> Iterator[str]:
    """Of the names of three veth pairs, PREFIXpXY towards PREFIXpYX. Short: rstp/show cuts names after 10 characters."""
    prefix = f"b{os.getpid() % 10**4}{next(RUNS)}"
    try:
        for x, y in PAIRS:
            run("ip", "link", "add", f"{prefix}p{x}{y}", "type", "veth", "peer", "name", f"{prefix}p{y}{x}")
            run("ip", "link", "set", f"{prefix}p{x}{y}", "up")
            run("ip", "link", "set", f"{prefix}p{y}{x}", "up")
        yield prefix
    finally:
        for x, y in PAIRS:
            subprocess.run(["ip", "link", "del", f"{prefix}p{x}{y}"], check=False, capture_output=True)


@pytest.fixture
def ovs(prefix: str) -> Iterator[OpenVSwitch]:
    """The bridges PREFIXs1 to PREFIXs3, of which PREFIXs1 has the lowest address."""
    with OpenVSwitch() as ovs:
        try:
            for number in (1, 2, 3):
                bridge = f"{prefix}s{number}"
                ovs.vsctl(
                    *("add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev", "rstp_enable=true"),
                    *("fail_mode=standalone", f"other_config:hwaddr=02:00:00:00:00:0{number}"),
                )
            for x, y in PAIRS:
                ovs.vsctl("add-port", f"{prefix}s{x}", f"{prefix}p{x}{y}")
                ovs.vsctl("add-port", f"{prefix}s{y}", f"{prefix}p{y}{x}")
            yield ovs
        finally:  # ovs-vswitchd leaves its tap interfaces when it ends
            for number in (1, 2, 3):
                ovs.vsctl("--if-exists", "del-br", f"{prefix}s{number}")
