"""`baton agent --priorities --guests` itself, with no more rights than its unit gives and no controller: it hears guests."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.priorities.tagger import SHORT_BYTES, TaggerSettings
from cli.machine import unit_files
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from tests.emulation.agents.guests.bridged import GUESTS, HOST, SERVER, Bridged, bridged, captured, send

ROOT = Path(__file__).parents[4]
TOP, FIRST = TaggerSettings().dscp[:2]
LONG = 1 + SHORT_BYTES // 1400
"""Packets of 1,400 bytes, the last of which belong to no short flow any more."""
PATIENCE_S = 30.0


@pytest.fixture
def made() -> Iterator[Bridged]:
    with bridged() as found:
        yield found


def baton(namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ("ip", "netns", "exec", namespace, sys.executable, "-m", "cli.main", *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT)


def test_an_agent_in_its_cage_honours_what_a_guest_and_the_operator_say(made: Bridged, tmp_path: Path) -> None:
    host_file.save(Master(Key(b"m" * 32)).enroll("host"), tmp_path / "key")
    words = ["agent", "--interface", "eth0", "--rate", "100mbit", "--key", str(tmp_path / "key"), "--realtime", "0"]
    words += ["--priorities", "--guests", "--run-dir", str(tmp_path / "run")]
    text = unit_files.agent(["/baton"], interface="eth0", arguments=(), writable=(), priorities=True, guests=True).text
    rights = "".join(f",+{name.removeprefix('CAP_').lower()}" for name in re.findall(r"CAP_\w+", text))
    cage = ("setpriv", "--inh-caps=-all", f"--bounding-set=-all{rights}", "--")
    left, guest = made.pair.left, made.guests[0]
    log = tmp_path / "log"
    with log.open("wb") as errors:
        start = ("nsenter", f"--net=/run/netns/{left}", *cage, sys.executable, "-m", "cli.main", *words)
        agent = subprocess.Popen(start, stderr=errors, cwd=ROOT)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while not list((tmp_path / "run").glob("marks-*")):
            assert agent.poll() is None and time.monotonic() < end_s, log.read_text()
            time.sleep(0.05)
        asked = ("flow", "mark", "--to", f"{SERVER}:9000", "--deadline", "4s", "--agent", HOST)
        while (done := baton(guest, *asked)).returncode:
            assert agent.poll() is None and time.monotonic() < end_s, done.stderr + log.read_text()
        on_host = ("--run-dir", str(tmp_path / "run"))
        done = baton(left, "flow", "mark", "--from", f"{GUESTS[1]}:4002", "--to", SERVER, "--deadline", "4s", *on_host)
        assert done.returncode == 0, done.stderr
        with captured(made.pair.right, tmp_path / "flows.pcap", "udp and dst host 10.9.0.2") as seen:
            send(guest, (SERVER, 9000), source_port=4000)
            send(guest, (SERVER, 9001), source_port=4001, count=LONG, size=1400)
            send(made.guests[1], (SERVER, 9000), source_port=4002)
            send(made.guests[1], (SERVER, 9000), source_port=4003, count=LONG, size=1400)
        assert {port: dscp for _, port, _, dscp in seen} == {4000: TOP, 4001: FIRST, 4002: TOP, 4003: FIRST}, "the last of each"
        assert "2 held" in baton(left, "flow", "list", *on_host).stdout
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0, log.read_text()
        assert not list((tmp_path / "run").iterdir())
        assert "Traceback" not in log.read_text()
    finally:
        if agent.poll() is None:
            agent.kill()
        agent.wait()
