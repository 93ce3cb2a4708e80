"""Runs an agent as `baton agent` does: what is missing is said in a line, and all is undone at the end. An edge: processes."""

from __future__ import annotations

import logging
import signal
import sys

from agents.agent import Agent, AgentConfig
from agents.host import Host
from agents.priorities import Priorities
from agents.snapshot import ForeignQdisc
from agents.statistics import write_statistics
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
        host = Host(
            config.interface,
            config.rate_bps,
            gate=gate,
            run_dir=config.run_dir,
            take_over=config.take_over,
            priorities=config.priorities,
        )
    except (KeyFileError, ForeignQdisc, BuildError) as error:
        print(f"baton agent: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        print(f"baton agent: interface {config.interface}: {what}{error.strerror}", file=sys.stderr)
        return 1
    priorities: Priorities | None = None
    agent: Agent | None = None
    try:
        priorities = _priorities(config) if config.priorities else None
        agent = Agent(config, key, host, priorities)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, agent.stop)
        if refused := become_realtime(config.realtime):
            log.warning("%s", refused)
        log.info("%s at %d bit/s, %s gates", config.interface, config.rate_bps, gate)
        agent.run()
    finally:
        if priorities is not None:
            priorities.close()
        host.close()
        if agent is not None and config.statistics is not None:
            write_statistics(config.statistics, agent.keeper.counters)
    return 0


def _priorities(config: AgentConfig) -> Priorities | None:
    """None where the kernel cannot have them: the host is coordinated all the same, its flows have no priorities."""
    try:
        return Priorities(config.interface, config.rate_bps, config.cgroup)
    except (BuildError, BpfError) as error:
        log.warning("flows have no priorities on this host: %s", error)
        return None
