"""An agent whose interface is deleted, or moved to another network namespace, ends at once and says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from tests.emulation.namespaces import Pair, pair, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes and removes interfaces")
ROOT = Path(__file__).parents[4]


def deleted(ends: Pair) -> None:
    run("ip", "-n", ends.left, "link", "del", "eth0")


def moved(ends: Pair) -> None:
    run("ip", "-n", ends.left, "link", "set", "eth0", "name", "lan0", "netns", ends.right)


def deleted_and_made_again(ends: Pair) -> None:
    deleted(ends)
    run("ip", "-n", ends.left, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", ends.right)


@pytest.mark.parametrize("happens", [deleted, moved, deleted_and_made_again])
def test_it_ends_at_once_with_one_line_and_tells_what_it_could_not_put_back(
    tmp_path: Path, happens: Callable[[Pair], None]
) -> None:
    host_file.save(Master(Key(b"m" * 32)).enroll("host"), tmp_path / "key")
    log, statistics = tmp_path / "log", tmp_path / "counters.json"
    command = ["agent", "--interface", "eth0", "--rate", "100mbit", "--key", str(tmp_path / "key"), "--realtime", "0"]
    command += ["--run-dir", str(tmp_path / "run"), "--statistics", str(statistics)]
    with pair() as ends, log.open("wb") as written:
        start = ("nsenter", f"--net=/run/netns/{ends.left}", sys.executable, "-m", "cli.main", *command)
        with subprocess.Popen(start, stderr=written, cwd=ROOT) as agent:
            until_s = time.monotonic() + 30
            while "gates\n" not in log.read_text():
                assert agent.poll() is None and time.monotonic() < until_s, log.read_text()
                time.sleep(0.05)
            time.sleep(0.3)  # it has begun its work
            happens(ends)
            assert agent.wait(8) == 1
    said = log.read_text()
    assert "Traceback" not in said and len(said.splitlines()) <= 4, said
    assert "baton agent: interface eth0 is gone; start the agent again once it is there" in said
    assert "ip link set eth0 gso_max_segs 65535" in said
    assert statistics.exists() and not list((tmp_path / "run").iterdir())
