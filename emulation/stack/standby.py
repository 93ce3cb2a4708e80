"""A second controller over an emulated fabric: `baton up --standby`, with its own run directory, OpenFlow port and attachment
to the fabric. An edge: namespaces, processes.

    with PrivateRedis(directory) as redis, star(store=redis.url) as (emulated, baton), Standby(baton) as standby:
        signal_all(baton.directory / "run", signal.SIGKILL)
        baton.wait(standby.leads, "the standby to lead")
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import yaml
from mininet.link import Link as VethLink
from mininet.node import Host as MininetHost

from controller.election.controllers import name_of
from controller.supervision import runstate
from emulation.fabric.naming import port_number
from emulation.fabric.ports import noop_qos
from emulation.resource import Resource
from emulation.stack.stack import OPENFLOW, START_S, Stack, StackError

STANDBY_NODE = "coord2"
MAC = "02:00:00:ff:ff:02"
LISTEN = ("127.0.0.1", OPENFLOW[1] + 1)


class Standby(Resource):
    """A standby controller beside a Stack whose store runs apart from it, so that it survives the leader."""

    def __init__(self, baton: Stack) -> None:
        self.baton = baton
        self.run_dir = Path()
        self.name = ""

    def _start(self, stack: ExitStack) -> None:
        self._plug_in()
        self.run_dir = self.baton.directory / "standby"
        self.name = name_of(self.run_dir)
        stack.callback(self._run, "down", "--run-dir", str(self.run_dir))
        self._run("up", "--standby", "--config", str(self._write_config()))
        self._connect_switches()

    def leads(self) -> bool:
        """Whether this controller holds the lease."""
        leader = self.baton.store.leader()
        return leader is not None and leader["name"] == self.name

    def _plug_in(self) -> None:
        emulated = self.baton.emulated
        switch, first = emulated.coordinator_switch, emulated.coordinator_port
        self.port = f"{switch}-eth{port_number(first) + 1}"
        self.interface = f"{STANDBY_NODE}-eth0"
        emulated.net.addHost(STANDBY_NODE, cls=MininetHost, ip=None, mac=MAC)
        ends = {"intfName1": self.interface, "intfName2": self.port, "port1": 0, "port2": port_number(self.port)}
        emulated.net.addLink(STANDBY_NODE, switch, cls=VethLink, addr1=MAC, **ends)
        number = ("set", "Interface", self.port, f"ofport_request={port_number(self.port)}")
        emulated.ovs.vsctl("add-port", switch, self.port, "--", *number, "--", *noop_qos(self.port))
        emulated.run_in(STANDBY_NODE, "ip", "link", "set", self.interface, "up")
        emulated.run_in(switch, "ip", "link", "set", self.port, "up")
        emulated.ovs.widen_packet_sockets()

    def _write_config(self) -> Path:
        baton, emulated = self.baton, self.baton.emulated
        config = yaml.safe_load((baton.directory / "baton.yaml").read_text())
        config["run_dir"] = str(self.run_dir)
        config["web"] = "none"
        config["openflow"]["listen"] = f"{LISTEN[0]}:{LISTEN[1]}"
        config["coordinator"] |= {
            "interface": self.interface,
            "attachment": f"{emulated.coordinator_switch}:{self.port}",
            "netns": f"/proc/{emulated.node(STANDBY_NODE).pid}/ns/net",
        }
        path = baton.directory / "standby.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _connect_switches(self) -> None:
        emulated = self.baton.emulated
        targets = [f"tcp:{address}:{port}" for address, port in (OPENFLOW, LISTEN)]
        for switch in emulated.fabric.switches:
            emulated.ovs.vsctl("set-controller", switch, *targets)
        emulated.connect_switches(START_S)

    def _run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cli.main", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
        if done.returncode and arguments[0] == "up":
            logs = [f"{path.stem}: {path.read_text(errors='replace')[-800:]}" for path in sorted(self.run_dir.glob("*.log"))]
            raise StackError("\n".join([f"baton up --standby: {done.stderr.strip()}", *logs]))


def processes_of(run_dir: Path) -> list[int]:
    """The pids of a controller side, in the order in which they must be killed to look like a dead machine: before a process
    those that would restart it or report its end."""
    state = runstate.load(run_dir)
    found = [state.supervisor.pid]
    for identity in state.services.values():
        if identity is not None:
            found += [*_children(identity.pid), identity.pid]
    return found


def signal_all(run_dir: Path, number: signal.Signals) -> int:
    """Sends a signal to every process of a controller side, one right after the other; when the first was sent (monotonic
    ns)."""
    pids = processes_of(run_dir)
    at_ns = time.monotonic_ns()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return at_ns


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _children(int(text))
            yield int(text)
