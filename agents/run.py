"""Runs an agent as `baton agent` does: what is missing is said in a line, and all is undone at the end. An edge: processes."""

from __future__ import annotations

import dataclasses
import json
import logging
import signal
import sys
import time
from pathlib import Path

from agents.agent import Agent
from agents.config import AgentConfig
from agents.host_control.pfc import PfcPart
from agents.host_control.pfc_nic import NicPfc, NoPfc
from agents.host_control.queue_conditions import QueueConditions
from agents.host_control.week_queues import WeekQueues
from agents.host_control.weekly import Weekly, WeeklyCounters
from agents.kernel import capabilities
from agents.kernel.snapshot import ForeignQdisc
from agents.membership.keys import Keys
from agents.permission.counters import Counters
from agents.priorities.priorities import Priorities
from agents.queues.host import Host
from agents.reflex.reflex import Reflex
from ebpf.build import BuildError
from ebpf.libbpf import BpfError
from protocol.auth import Key, KeyFileError
from protocol.realtime import become_realtime

log = logging.getLogger("baton.agent")


def run(config: AgentConfig) -> int:
    """Runs an agent until a signal ends it; the exit status. What is wrong with the set-up is said in one line."""
    try:
        key = Key.load(config.key_file)
        gate = "tbf" if config.gate == "auto" else config.gate
        nic = NicPfc(config.interface) if config.pfc == "nic" else None
        host = Host(
            config.interface,
            config.rate_bps,
            gate=gate,
            run_dir=config.run_dir,
            take_over=config.take_over,
            priorities=config.priorities,
        )
    except (KeyFileError, ForeignQdisc, BuildError, NoPfc) as error:
        print(f"baton agent: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        print(f"baton agent: interface {config.interface}: {what}{error.strerror}", file=sys.stderr)
        return 1
    agent: Agent | None = None
    weekly: Weekly | None = None
    try:
        agent = Agent(config, key, host)
        weekly = Weekly(agent, time.monotonic_ns, config.rate_bps, WeekQueues(agent))
        agent.add(weekly)
        agent.reflex = reflex = _reflex(agent, host)
        agent.pace.hurried = reflex.plan if reflex is not None else lambda: weekly.week is not None
        agent.pace.next_instant_ns = weekly.next_due_ns
        if reflex is not None:
            reflex.steps = weekly.next_changes
        conditions = QueueConditions(agent, config.rate_bps)
        agent.add(conditions)
        if reflex is not None:
            reflex.conditions.ruled = conditions.ruled
        if config.priorities and (priorities := _priorities(agent)) is not None:
            agent.add(priorities)
        if config.pfc != "off":
            agent.add(PfcPart(agent, config.interface, config.rate_bps, time.monotonic_ns, nic, reflex))
        keys = Keys(agent, agent.guard.ring, config.key_file)
        agent.add(keys)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, agent.stop)
        signal.signal(signal.SIGHUP, keys.look)
        if refused := become_realtime(config.realtime):
            log.warning("%s", refused)
        if refused := capabilities.drop():
            log.warning("%s", refused)
        log.info("%s at %d bit/s, %s gates", config.interface, config.rate_bps, gate)
        agent.run()
    finally:
        if agent is not None:
            agent.close()
            if agent.reflex is not None:
                agent.reflex.close()
        host.close()
        if agent is not None and weekly is not None and config.statistics is not None:
            write_statistics(config.statistics, agent.keeper.counters, weekly.counters)
    return 0


def _reflex(agent: Agent, host: Host) -> Reflex | None:
    """None where it cannot be built: all that it obeys is obeyed all the same, tens of microseconds later."""
    try:
        return Reflex(host, agent.rules, agent.keeper, agent)
    except (BuildError, OSError) as error:
        log.warning("pauses, conditions and days are obeyed without a reflex: %s", error)
        return None


def _priorities(agent: Agent) -> Priorities | None:
    """None where the kernel cannot have them: the host is coordinated all the same, its flows have no priorities."""
    try:
        config = agent.config
        return Priorities(agent, config.interface, config.rate_bps, config.cgroup)
    except (BuildError, BpfError) as error:
        log.warning("flows have no priorities on this host: %s", error)
        return None


def write_statistics(path: Path, counters: Counters, weekly: WeeklyCounters) -> None:
    """Writes counts and the newest latency samples (ns) to `path`, whole or not at all; those of weeks under "weekly"."""
    record = {name: getattr(counters, name) for name in Counters.__slots__}
    record["weekly"] = dataclasses.asdict(weekly)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(record))
    temporary.replace(path)
