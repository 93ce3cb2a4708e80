"""Coordination under siege: a loaded fabric, undisturbed, beside as many harmless frames, and with all floods at once.

Method: a star of 100 Mb/s links with the real stack: Open vSwitch, the controller side as `baton up` starts it, Redis, an agent
on each of four hosts, and the web server. One UDP and two TCP flows share the link to one receiver by slots of `SLICE`, and
pings go the same way. This runs three times, for as long:

* `undisturbed`: nothing else;
* `harmless`: as many frames as the floods have, as plain UDP between two other hosts. An emulated switch takes some 60 us of
  the machine's processors for each frame, and so do their senders: what this costs is not Baton's doing;
* `siege`: all floods at once (bench/siege/rates.py says what they are, and how many): a stranger at a switch port, a tenant of
  a member, a host that has the key and no agent, and clients of the OpenFlow port and of the web server.

The record has for each phase goodput, slots and late slots, pings, each process's share of a processor, and the time in which
an operator loads the page once a second; for the siege what was sent by kind, what was refused by cause, the events by kind,
each process's memory and descriptors, and which restarted. Some seconds after the siege descriptors are counted again.
`verdicts` has each target.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.dashboard.hostile import PASSWORD, USER, Operator
from bench.dashboard.page import WebServer
from bench.record import Tell
from bench.siege import floods, rates
from bench.siege.verdicts import Sample, grown, memory, processor_share, times_ms, verdicts
from bench.siege.watch import Watch, sample
from controller.supervision import runstate
from emulation.fabric.fabric import COORDINATOR_MAC, EmulatedFabric
from emulation.measuring.confidence import together
from emulation.measuring.fidelity import environment
from emulation.processes import end_process
from emulation.stack.running import Running, UnderPolicy, run_under, with_baton
from emulation.stack.stack import OPENFLOW, Stack
from emulation.traffic.experiment import Flow
from topology import shapes
from webui.access.accounts import Accounts

SENDERS, RECEIVER = ("h1", "h2", "h3"), "h4"
STRANGER, KEYED = "h5", "h6"
TENANT_AT = "h3"
BOTTLENECK = ("s1", RECEIVER)
FLOWS = (Flow("udp", "h1", RECEIVER), Flow("tcp", "h2", RECEIVER), Flow("tcp", "h3", RECEIVER))
RATE_BPS, BUFFER_PACKETS, SLICE = 100_000_000, 100, "10ms"
WARMUP_S, AHEAD_S, SETTLE_S = 2.0, 5.0, 12.0
PHASES = ("undisturbed", "harmless", "siege")


@dataclass(frozen=True, slots=True)
class Options:
    """`factor`: of all floods' rates in bench/siege/rates.py; `kinds`: only these of them; `connections`: hostile ones to the
    web server."""

    seconds: float = 60.0
    factor: float = 1.0
    kinds: tuple[str, ...] = rates.KINDS
    connections: int = rates.HTTP_CONNECTIONS


def run(options: Options = Options(), tell: Tell = lambda what, done: None) -> dict[str, Any]:
    """The record of the module's docstring.

    Raises:
        EmulationError, StackError: the fabric, or Baton over it, did not come up, or a program failed.
    """
    fabric = shapes.build("star", hosts=6, rate_bps=RATE_BPS)
    tell("building the fabric, starting the controller", 0.0)
    with (
        tempfile.TemporaryDirectory(prefix="baton-siege-") as name,
        with_baton(fabric, buffer_packets=BUFFER_PACKETS, start_agents=False, coordinator={"slice": SLICE}) as running,
    ):
        baton = running.baton
        baton.start_agents(*SENDERS, RECEIVER)
        store = runstate.load(baton.directory / "run").store
        with WebServer(store, Path(name)) as web:
            Accounts(web.users).set_user(USER, PASSWORD, now_s=int(time.time()))
            return _Siege(running, web, options).run(tell)


class _Siege:
    def __init__(self, running: Running, web: WebServer, options: Options) -> None:
        self._running = running
        self._emulated: EmulatedFabric = running.emulated
        self._baton: Stack = running.baton
        self._web = web
        self._options = options
        self._operator = Operator(web.port, "127.0.0.1")
        self._operator.log_in()
        self._sent: dict[str, int] = {}

    def run(self, tell: Tell) -> dict[str, Any]:
        phases: dict[str, dict[str, Any]] = {}
        before = self._pids()
        restarts = dict(runstate.load(self._baton.directory / "run").restarts)
        begin: dict[str, Sample | None] = {}
        refused: dict[str, int] = {}
        told: list[dict[str, Any]] = []
        watch: Watch | None = None
        for number, name in enumerate(PHASES):
            tell(name, number / len(PHASES))
            counted, began_ms = self._refused(), time.time_ns() // 1_000_000
            begin = {process: sample(pid) for process, pid in before.items()}
            found, watch = self._phase(name, before)
            phases[name] = {
                **found.to_dict(),
                "slots": found.slots, "late_slots": found.late_slots,
                "page_ms": times_ms(watch.page_ms),
                "cpu": {process: processor_share(samples) for process, samples in watch.samples.items()},
            }  # fmt: skip
            refused = grown(counted, self._refused())
            told = [event for event in self._baton.store.events(1000) if event["at_ms"] >= began_ms]
        assert watch is not None
        time.sleep(SETTLE_S)
        settled = {process: sample(pid) for process, pid in before.items()}
        again = runstate.load(self._baton.directory / "run").restarts
        restarted = {name: again[name] - restarts.get(name, 0) for name in again if again[name] > restarts.get(name, 0)}
        restarted |= {name: 1 for name, pid in before.items() if settled[name] is None or self._pids().get(name) != pid}
        record: dict[str, Any] = {
            "seconds": self._options.seconds,
            "phases": phases,
            "sent": self._sent,
            "refused": refused,
            "events": dict(Counter(event["kind"] for event in told)),
            "restarted": restarted,
            "logs": self._baton.logs().splitlines() if restarted else [],
            "processes": {
                process: {
                    "memory": asdict(memory(samples)),
                    "descriptors": {
                        "begin": _descriptors(begin[process]),
                        "most": max(each.descriptors for each in samples),
                        "after": _descriptors(settled[process]),
                    },
                }
                for process, samples in watch.samples.items()
            },
        }
        reached = verdicts(record)
        missed = [verdict["target"] for verdict in reached if not verdict["holds"]]
        holds = f"not held: {', '.join(missed)}" if missed else "every target held"
        return {
            "verdicts": reached,
            **record,
            "confidence": together(phases, holds),
            "environment": environment(rate_mbps=RATE_BPS / 1e6, slice=SLICE, datapath=self._emulated.ovs.datapath_type),
        }

    def _phase(self, name: str, pids: Mapping[str, int]) -> tuple[UnderPolicy, Watch]:
        seconds = self._options.seconds
        until_ns = time.monotonic_ns() + round((seconds + WARMUP_S + AHEAD_S) * 1e9)
        watch = Watch(pids, self._operator)
        with ExitStack() as stack:
            programs = list(self._start(name, until_ns, stack))
            stack.enter_context(watch.watching())
            found = run_under(
                self._running, "timeslice", FLOWS, duration_s=seconds, warmup_s=WARMUP_S, bottlenecks=[BOTTLENECK],
                ping=(SENDERS[1], RECEIVER),
            )  # fmt: skip
            for program in programs:
                out, error = program.communicate(timeout=30)
                if program.returncode:
                    raise RuntimeError(f"a flood failed: {error.strip().splitlines()[-1:]}")
                if name == "siege":
                    self._sent |= json.loads(out)
        return found, watch

    def _start(self, name: str, until_ns: int, stack: ExitStack) -> Iterator[subprocess.Popen[str]]:
        factor, kinds = self._options.factor, self._options.kinds
        groups = (rates.STRANGER, rates.TENANT, rates.KEYED, rates.CLIENTS)
        stranger, tenant, keyed, clients = (rates.scaled(group, factor, kinds) for group in groups)
        if name == "undisturbed":
            return
        if name == "harmless":
            yield self._flood(STRANGER, rates.harmless(stranger | tenant), until_ns, stack)
            yield self._flood(KEYED, rates.harmless(keyed), until_ns, stack)
            return
        yield self._flood(STRANGER, stranger, until_ns, stack)
        yield self._flood(TENANT_AT, tenant, until_ns, stack)
        yield self._flood(KEYED, keyed, until_ns, stack, key=str(self._baton.host_file(KEYED)))
        told = {
            "until_ns": until_ns, "openflow": OPENFLOW, "web_port": self._web.port, "held": rates.OPENFLOW_HELD,
        }  # fmt: skip
        for kind, rate in clients.items():
            yield self._program(None, {"clients": {"rates": {kind: rate}, **told}}, stack)
        if rates.HTTP not in kinds:
            return
        told_there = (str(self._web.port), str(self._options.connections))
        command = ["nice", "-n", str(floods.NICE), sys.executable, "-m", "bench.dashboard.hostile", *told_there]
        hostile = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        stack.callback(end_process, hostile)

    def _flood(
        self, host: str, kinds: Mapping[str, float], until_ns: int, stack: ExitStack, key: str | None = None
    ) -> subprocess.Popen[str]:
        told = {
            "interface": self._emulated.interface(host), "rates": kinds, "until_ns": until_ns, "scene": self._scene(host),
            "key": key,
        }  # fmt: skip
        return self._program(host, {"frames": told}, stack)

    def _program(self, host: str | None, told: Mapping[str, Any], stack: ExitStack) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "bench.siege.floods", json.dumps(told)]
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
        }  # fmt: skip
        process = subprocess.Popen(argv, **pipes) if host is None else self._emulated.popen(host, argv, **pipes)
        stack.callback(end_process, process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def _scene(self, host: str) -> dict[str, Any]:
        addresses = self._emulated.endpoints()
        other = KEYED if host == STRANGER else STRANGER
        members = self._baton.store.members()
        return {
            "address": str(addresses[host]),
            "other_mac": self._mac(other),
            "other_address": str(addresses[other]),
            "leader_mac": COORDINATOR_MAC,
            "victims": [
                (member["mac"], member["addresses"][0], node)
                for node, member in sorted(members.items())
                if member["name"] in (RECEIVER, "h1", "h2") and member["addresses"]
            ][::-1],
        }

    def _mac(self, host: str) -> str:
        return self._emulated.run_in(host, "cat", f"/sys/class/net/{self._emulated.interface(host)}/address").strip()

    def _pids(self) -> dict[str, int]:
        services = runstate.load(self._baton.directory / "run").services
        found = {name: identity.pid for name, identity in services.items() if identity}
        found |= {f"agent {host}": agent.pid for host, agent in self._baton.agents.items()}
        assert self._web.process is not None
        return found | {"web": self._web.process.pid, "switch": self._emulated.ovs.switch_pid}

    def _refused(self) -> dict[str, int]:
        """Every count of refused input, by cause: of the switches' and of the control frames' readers, and logins."""
        store = self._baton.store
        counts = {str(name): int(count) for name, count in (store.ports() or {}).get("refused", {}).items()}
        for name, count in self._baton.status().get("refused", {}).items():
            counts[name] = counts.get(name, 0) + int(count)
        logins = store.connection.call(lambda client: client.xlen("baton:refused"))
        return {**counts, "logins_refused": int(logins)}


def _descriptors(found: Sample | None) -> int:
    return found.descriptors if found is not None else -1
