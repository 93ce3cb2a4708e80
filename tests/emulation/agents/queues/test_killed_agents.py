"""An agent that is killed, or asked to end while it starts, leaves its interface as it found it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.queues.guardian import STILL_S
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from tests.emulation.namespaces import Pair, pair, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts an agent")
ROOT = Path(__file__).parents[4]
RATE = 100_000_000


class Agents:
    """Starts agents at the left end, with files in a directory of their own."""

    def __init__(self, ends: Pair, directory: Path) -> None:
        self.ends, self.directory = ends, directory
        self.key, self.run_dir, self.log = directory / "key", directory / "run", directory / "log"
        host_file.save(Master(Key(b"m" * 32)).enroll("host"), self.key)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = ("-m", "cli.main", "agent", "--interface", "eth0", "--rate", str(RATE), "--key", str(self.key))
        places = ("--run-dir", str(self.run_dir), "--address", "10.9.0.1", *options)
        inside = ("nsenter", f"--net=/run/netns/{self.ends.left}", sys.executable)
        with self.log.open("ab") as log:
            made = subprocess.Popen((*inside, *command, *places), stderr=log, cwd=ROOT)
        self._started.append(made)
        return made

    def has_begun(self) -> bool:
        return "gates" in self.log.read_text()

    def close(self) -> None:
        for agent in self._started:
            if agent.poll() is None:
                agent.kill()
            agent.wait()


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with pair() as ends:
        run("tc", "-n", ends.left, "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "pfifo", "limit", "77")
        made = Agents(ends, tmp_path)
        try:
            yield made
        finally:
            made.close()


def until(condition: Callable[[], bool], what: str, patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(0.02)


def guardian_of(agent: subprocess.Popen[bytes]) -> int:
    """The process id of the agent's guardian."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    return next(int(pid) for pid in children if "baton-guardian" in Path(f"/proc/{pid}/cmdline").read_text())


def test_a_killed_agents_interface_is_put_back_at_once_though_no_other_starts(agents: Agents) -> None:
    found = agents.ends.found()
    agent = agents.start()
    until(agents.has_begun, "it begins")
    assert agents.ends.found() != found
    agent.kill()
    until(lambda: agents.ends.found() == found, "the interface is as it was")
    until(lambda: not list(agents.run_dir.iterdir()), "no record is left")


def test_an_agent_that_stands_still_is_killed_and_its_interface_put_back(agents: Agents) -> None:
    found = agents.ends.found()
    agent = agents.start()
    until(agents.has_begun, "it begins")
    time.sleep(2.5)  # it beats
    agent.send_signal(signal.SIGSTOP)
    assert agents.ends.found() != found
    until(lambda: agents.ends.found() == found, "the interface is as it was", STILL_S + 10)
    assert agent.wait(5) == -signal.SIGKILL and "stood still" in agents.log.read_text()


def test_an_agent_lives_on_without_its_guardian_and_says_so(agents: Agents) -> None:
    agent = agents.start()
    until(agents.has_begun, "it begins")
    os.kill(guardian_of(agent), signal.SIGKILL)
    until(lambda: "the guardian has ended" in agents.log.read_text(), "it says so")
    assert agent.poll() is None


def test_the_guardian_holds_little_and_ends_with_its_agent(agents: Agents) -> None:
    found = agents.ends.found()
    agent = agents.start()
    until(agents.has_begun, "it begins")
    status = Path(f"/proc/{(guardian := guardian_of(agent))}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert int(fields["VmRSS"].split()[0]) < 4_000
    reads, administers, sends = 1 << 2, 1 << 12, 1 << 13  # CAP_DAC_READ_SEARCH, CAP_NET_ADMIN, CAP_NET_RAW
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == reads | administers | sends
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # as systemd and a terminal send them to all of a unit
        os.kill(guardian, number)
    agent.terminate()
    assert agent.wait(10) == 0 and agents.ends.found() == found
    assert not Path(f"/proc/{guardian}").exists()


def test_an_agent_that_is_refused_frees_what_a_killed_one_held(agents: Agents) -> None:
    found = agents.ends.found()
    agent = agents.start()
    until(agents.has_begun, "it begins")
    os.kill(guardian_of(agent), signal.SIGKILL)  # both were killed
    agent.kill()
    agent.wait()
    assert agents.ends.found() != found
    agents.key.chmod(0o644)
    refused = agents.start()
    assert refused.wait(20) == 1 and "chmod 600" in agents.log.read_text()
    assert agents.ends.found() == found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_whenever_a_start_is_ended_nothing_of_it_is_left(agents: Agents, number: signal.Signals) -> None:
    found = agents.ends.found()
    for after_ms in range(0, 1600, 200):
        agent = agents.start()
        time.sleep(after_ms / 1e3)
        agent.send_signal(number)
        agent.wait(20)
        assert agents.ends.found() == found, f"after {after_ms} ms"
        assert not list(agents.run_dir.glob("*.json")) if agents.run_dir.exists() else True


def test_a_hangup_while_it_starts_ends_nothing(agents: Agents) -> None:
    agent = agents.start()
    until(lambda: agents.run_dir.exists() and bool(list(agents.run_dir.glob("*.json"))), "it has the interface")
    agent.send_signal(signal.SIGHUP)
    until(agents.has_begun, "it begins")
    assert agent.poll() is None
