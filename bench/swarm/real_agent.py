"""One real agent among a swarm of thousands: what the size of a fabric costs a host.

Method: the swarm's coordinator and hosts as in bench/swarm/swarm.py, but hardly anybody sends, every pair needs permission
(mode always), and one host is missing. Its place has a network namespace with `baton agent` in it, joined to the two by a
bridge. A program there sends UDP to another rack without end. So the agent has nearly every slot of its own link.

* member_s: from the start of its process to its membership; first_slot_s: from the first packet to the first open gate
* rss_mb, peak_mb: its memory at the end of the measurement; the most since its start
* cpu: its share of a processor, of all its threads; slots_per_s: gates that it opened; late_fraction: of them, opened more than
  half a millisecond after their start
* traffic_mbps: what left the host meanwhile
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.computing.scale_network import SHAPES, Pairs
from bench.record import Tell
from bench.siege.watch import sample
from bench.swarm.agents import Conditions, Swarm, listen
from bench.swarm.leader import AGENT, SWARM, Leader, interfaces
from bench.swarm.swarm import PATIENCE_S, SPREAD_HOSTS_S, NotReady, serving, wait
from bench.swarm.traffic import World, world
from emulation.measuring.fidelity import environment
from emulation.netns import new_namespace
from emulation.processes import end_process
from protocol.keys import host_file
from protocol.units import SECOND_NS
from topology.shapes import FIRST_ADDRESS

PLACE = 1
"""Of the real agent, among the hosts."""
OTHERS = Pairs(np.array([2]), np.array([3]))
"""Who else sends, hardly anything."""
HARDLY = 0.001
WARM_S = 3.0
MEMBER = "member "
"""The agent's log says so when it has joined."""
SENDER = """
import socket, sys
to = (sys.argv[1], 9)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        out.sendto(bytes(1400), to)
    except OSError:
        pass
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured."""

    hosts: int = 4_800
    shape: str = "rows"
    slice_ns: int = 10_000_000
    rate_bps: int = 100_000_000
    """Of the agent's link."""
    seconds: float = 20.0


def run(options: Options = Options(), tell: Tell = lambda what, done: None) -> dict[str, Any]:
    """The record. Raises NotReady: the swarm or the agent did not become members; ValueError: there is no such fabric."""
    load_average = [round(load, 2) for load in os.getloadavg()]
    there = world(SHAPES[options.shape](options.hosts), options.hosts, OTHERS)
    spread_ns = round(options.hosts / SPREAD_HOSTS_S * SECOND_NS)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-agent-")))
        namespace = stack.enter_context(new_namespace())
        stack.enter_context(interfaces(namespace))
        leader = stack.enter_context(Leader(there, directory, slice_ns=options.slice_ns, policy="timeslice", mode="always"))
        connection = stack.enter_context(listen(SWARM))
        leader.start()
        wait(lambda: bool(leader.status()), leader, "the coordinator leads")
        given = Conditions(load=HARDLY, spread_ns=spread_ns, absent=PLACE)
        swarm = stack.enter_context(Swarm(there, leader.master, connection, given))
        stack.enter_context(serving(swarm))
        tell("hosts register", 0.0)
        wait(lambda: swarm.counts().current >= options.hosts - 1, leader, f"{options.hosts - 1} hosts are members")
        found = _Agent(options, there, leader, namespace, directory, tell).run()
    return {**found, "case": asdict(options), "load_average": load_average, "environment": environment()}


class _Agent:
    """The agent's host: its namespace, its process, and its traffic."""

    def __init__(self, options: Options, there: World, leader: Leader, namespace: int, directory: Path, tell: Tell) -> None:
        self._options = options
        self._world = there
        self._leader = leader
        self._at = ("nsenter", "--target", str(namespace), "--net", "--")
        self._directory = directory
        self._log = directory / "agent.log"
        self._tell = tell

    def run(self) -> dict[str, Any]:
        target = self._address(self._options.hosts - 1)
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "link", "set", AGENT, "address", _mac(PLACE), "up"),
            ("ip", "addr", "add", f"{self._address(PLACE)}/8", "dev", AGENT),
            ("ip", "neigh", "replace", target, "lladdr", _mac(self._options.hosts - 1), "dev", AGENT, "nud", "permanent"),
        ):
            subprocess.run([*self._at, *command], check=True, capture_output=True)
        with self._process() as agent, ExitStack() as stack:
            sending = subprocess.Popen([*self._at, sys.executable, "-ISc", SENDER, target])
            stack.callback(end_process, sending)
            began_ns = time.monotonic_ns()
            self._tell("the agent is served", 0.3)
            time.sleep(WARM_S)
            before, sent, from_s = sample(agent.pid), self._sent_bytes(), time.monotonic()
            slots = self._slots()
            while (passed_s := time.monotonic() - from_s) < self._options.seconds:
                self._tell("measuring", 0.4 + 0.6 * passed_s / self._options.seconds)
                time.sleep(min(0.25, self._options.seconds - passed_s))
            after, seconds = sample(agent.pid), time.monotonic() - from_s
            if before is None or after is None:
                raise NotReady(f"the agent ended: {self._said()}")
            found = {
                "member_s": round(self._member_s, 3),
                "rss_mb": round(after.resident_mb, 1),
                "peak_mb": round(_peak_mb(agent.pid), 1),
                "cpu": round((after.cpu_s - before.cpu_s) / seconds, 4),
                "slots_per_s": round((self._slots() - slots) / seconds, 1),
                "traffic_mbps": round((self._sent_bytes() - sent) * 8e-6 / seconds, 1),
            }
        return found | self._counted(began_ns)

    @contextmanager
    def _process(self) -> Iterator[subprocess.Popen[bytes]]:
        """The agent, once it is a member."""
        key = self._directory / "host"
        name = self._world.names[PLACE]
        host_file.save(self._leader.master.enroll(name, salt=f"{PLACE:08d}".encode()), key)
        words = ["--interface", AGENT, "--rate", f"{self._options.rate_bps}bit", "--key", str(key), "--run-dir",
                 str(self._directory), "--statistics", str(self._directory / "statistics.json")]  # fmt: skip
        began_s = time.monotonic()
        with self._log.open("wb") as log:
            process = subprocess.Popen([*self._at, sys.executable, "-m", "cli.main", "agent", *words], stdout=log, stderr=log)
        try:
            while MEMBER not in self._said():
                if process.poll() is not None or time.monotonic() - began_s > PATIENCE_S:
                    raise NotReady(f"the agent did not join: {self._said()}")
                time.sleep(0.005)
            self._member_s = time.monotonic() - began_s
            yield process
        finally:
            end_process(process)

    def _counted(self, began_ns: int) -> dict[str, Any]:
        """What it wrote at its end."""
        counters = json.loads((self._directory / "statistics.json").read_text())
        first = [at for at in counters["first_slot_ns"] if at > began_ns]
        return {
            "late_fraction": round(counters["late"] / max(1, counters["slots"]), 4),
            "first_slot_s": round((first[0] - began_ns) / 1e9, 4) if first else None,
        }

    def _slots(self) -> int:
        """How many slots the leader granted to it."""
        assert self._leader.store is not None
        name = self._world.names[PLACE]
        return next((int(one["slots"]) for one in self._leader.store.members().values() if one.get("name") == name), 0)

    def _sent_bytes(self) -> int:
        told = subprocess.run([*self._at, "ip", "-s", "-j", "link", "show", AGENT], check=True, capture_output=True)
        return int(json.loads(told.stdout)[0]["stats64"]["tx"]["bytes"])

    def _said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @staticmethod
    def _address(number: int) -> str:
        value = FIRST_ADDRESS + number
        return ".".join(str(byte) for byte in value.to_bytes(4))


def _mac(number: int) -> str:
    return (0x02 << 40 | number + 1).to_bytes(6).hex(":")


def _peak_mb(pid: int) -> float:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
