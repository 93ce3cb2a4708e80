"""Runs in virtual time, in a box: a star whose members come and go; prints what processes and store held after each round.

A round has eight steps, each with a transfer from every host: an agent is stopped, and started again; another is killed, and
started again when the leader has given it up; an address moves from host to host; an agent is killed and started at once; the
leader is killed (in some rounds); nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.supervision import runstate
from emulation import box
from emulation.processes import end_process
from emulation.stack.running import Running, with_baton
from emulation.stack.stack import Stack
from tests.virtual.inside.soak_run import AGENTS, COORDINATOR, OPENFLOW, PORT, RECEIVE, calm
from topology import shapes

HOSTS, RECEIVER = ("h1", "h2", "h3"), "h4"
GUEST = "10.0.99.1"
"""The address that moves."""
LEADER_DIES_EVERY = 4
"""Rounds; in the first, too."""
GONE_S = 200.0
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    connection.sendall(bytes(1_000_000))
"""
ROLE = re.compile(r"cli\.main agent.* --name (\w+)|(controller\.[\w.]+|controller/app\.py|redis-server|ovs-vswitchd)")
RESIDENT = re.compile(r"VmRSS:\s+([0-9]+)")


class Rounds:
    """The star, and the steps of a round on it."""

    def __init__(self, running: Running, step_s: float) -> None:
        self.emulated, self.baton = running
        self._step_s = step_s
        self._target = str(self.emulated.endpoints()[RECEIVER])
        self._guest_at: str | None = None
        self.moves = self.leaders_killed = 0
        self.slowest_start_s = 0.0

    def run(self, number: int) -> None:
        """One round; `step_s` a step at least."""
        kills_leader = number % LEADER_DIES_EVERY == 0
        steps: tuple[Callable[[], None], ...] = (
            lambda: self._end("h1", signal.SIGTERM),
            lambda: self._start("h1"),
            lambda: self._end("h2", signal.SIGKILL),
            lambda: self._start("h2"),
            lambda: self._move_guest(HOSTS[number % len(HOSTS)]),
            self._restart_at_once,
            self._kill_leader if kills_leader else lambda: None,
            lambda: None,
        )
        for step in steps:
            until = time.monotonic() + self._step_s
            step()
            self._transfer()
            time.sleep(max(0.0, until - time.monotonic()))

    def _members(self) -> int:
        return int(self.baton.status().get("members", -1))

    def _end(self, host: str, number: signal.Signals) -> None:
        agent = self.baton.agents.pop(host)
        agent.send_signal(number)
        agent.wait()
        self.baton.wait(lambda: self._members() == len(self.baton.agents), f"{host} to be no member", GONE_S)

    def _start(self, host: str) -> None:
        began = time.monotonic()
        self.baton.start_agents(host, timeout_s=GONE_S)
        self.slowest_start_s = max(self.slowest_start_s, time.monotonic() - began)

    def _restart_at_once(self) -> None:
        agent = self.baton.agents.pop("h3")
        agent.kill()
        agent.wait()
        self._start("h3")

    def _move_guest(self, to: str) -> None:
        for host, verb in ((self._guest_at, "del"), (to, "add")):
            if host is not None:
                self.emulated.run_in(host, "ip", "addr", verb, f"{GUEST}/32", "dev", self.emulated.interface(host))
        self._guest_at = to
        self.baton.wait(lambda: GUEST in _addresses(self.baton, to), f"the directory to show {GUEST} at {to}", GONE_S)
        self.moves += 1

    def _kill_leader(self) -> None:
        before = self.baton.status()["epoch"]
        leader = runstate.load(self.baton.directory / "run").services["coordinator"]
        assert leader is not None
        os.kill(leader.pid, signal.SIGKILL)
        self.baton.wait(lambda: self.baton.status().get("epoch", before) > before, "another epoch", GONE_S)
        self.baton.wait(lambda: self._members() == len(self.baton.agents), "all to be members again", GONE_S)
        self.leaders_killed += 1

    def _transfer(self) -> None:
        words = [sys.executable, "-ISc", SEND, self._target, str(PORT)]
        senders = [self.emulated.popen(host, words, stdin=subprocess.DEVNULL) for host in HOSTS]
        failed = [host for host, sender in zip(HOSTS, senders, strict=True) if sender.wait(GONE_S)]
        if failed:
            raise RuntimeError(f"{failed} could not send; {self.baton.logs()}")

    def sample(self) -> dict[str, Any]:
        """What there is now: {role: (pid, resident KB, descriptors)}, the store, the switch's flows, files of the run
        directory."""
        run_dir = self.baton.directory / "run"
        status = self.baton.status()
        return {
            "processes": _processes(),
            "store": _store(self.baton),
            "flows": self.emulated.ovs.ofctl("dump-aggregate", "s1").split("flow_count=")[1].split()[0],
            "files": len(list(run_dir.rglob("*"))),
            "log_bytes": sum(path.stat().st_size for path in run_dir.glob("*.log")),
            **{name: status[name] for name in ("epoch", "members", "slots", "late_slots", "lost")},
        }


def _addresses(baton: Stack, host: str) -> list[str]:
    return [address for member in baton.store.members().values() if member["name"] == host for address in member["addresses"]]


def _store(baton: Stack) -> dict[str, Any]:
    def ask(client: Any) -> dict[str, Any]:  # noqa: ANN401 -- of Redis
        keys = sorted(client.scan_iter())
        streams = {key: client.xlen(key) for key in keys if client.type(key) == "stream"}
        return {"keys": len(keys), "bytes": client.info("memory")["used_memory"], "streams": streams}

    return dict(baton.store.connection.call(ask))


def _processes() -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for directory in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            command = (directory / "cmdline").read_text().replace("\0", " ").strip()
            resident = RESIDENT.search((directory / "status").read_text())
            descriptors = len(list((directory / "fd").iterdir()))
        except OSError:
            continue  # it has ended meanwhile
        role = ROLE.search(command)
        if role is None or resident is None:
            continue
        name = f"agent {role[1]}" if role[1] else role[2]
        while name in found:
            name += "+"
        found[name] = int(directory.name), int(resident[1]), descriptors
    return found


def main() -> None:
    rounds, step_s = int(sys.argv[1]), float(sys.argv[2])
    box.enter([sys.executable, "-m", "tests.virtual.inside.come_and_go_run", *sys.argv[1:]])
    fabric = shapes.build("star", hosts=len(HOSTS) + 1, rate_bps=100_000_000)
    sections: dict[str, Any] = {"coordinator": COORDINATOR, "agents": AGENTS, "openflow": OPENFLOW}
    with with_baton(fabric, buffer_packets=100, **sections) as running:
        calm(running)
        receiver = running.emulated.popen(RECEIVER, [sys.executable, "-ISc", RECEIVE, str(PORT)], stdin=subprocess.DEVNULL)
        time.sleep(1)
        at = Rounds(running, step_s)
        found = []
        for number in range(rounds):
            at.run(number)
            found.append(at.sample())
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
        end_process(receiver)
    done = {"moves": at.moves, "leaders_killed": at.leaders_killed, "slowest_start_s": at.slowest_start_s}
    print(json.dumps({"samples": found, **done}))


if __name__ == "__main__":
    main()
