"""Runs an agent as `baton agent` does: a missing prerequisite is one line, and all is undone at the end. An edge: processes."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from agents.addresses.part import Addresses
from agents.agent import Agent
from agents.config import AgentConfig
from agents.guests.part import Guests
from agents.host_control.pfc import PfcPart
from agents.host_control.pfc_nic import NicPfc, NoPfc
from agents.host_control.queue_conditions import QueueConditions
from agents.host_control.week_queues import WeekQueues
from agents.host_control.week_schedule import WeekCounters, WeekSchedule
from agents.kernel import capabilities
from agents.kernel.features import GateUnavailable
from agents.kernel.probe import ProbeRefused, probed_gate
from agents.kernel.snapshot import ForeignQdisc, InterfaceGone, InterfaceInUse
from agents.loop.pulse import Pulse
from agents.membership.keys import Keys, of_host
from agents.permission.counters import Counters
from agents.priorities.priorities import Priorities
from agents.priorities.tagger import TaggerSettings
from agents.queues.guardian import Guardian
from agents.queues.host import Host
from agents.queues.leftovers import put_back_leftovers
from agents.reflex.reflex import Reflex
from agents.reflex.slots import SlotReflex
from ebpf.build import BuildError
from ebpf.libbpf import BpfError
from protocol.auth import KeyFileError
from protocol.keys import host_file
from protocol.realtime import become_realtime, wake_in_time
from topology.units import format_rate

log = logging.getLogger("baton.agent")

REMEDIES = {
    errno.ENODEV: "; name one that `ip link` shows",
    errno.EPERM: "; run as root",
    errno.EACCES: "; run as root",
}
"""What to do where the kernel refuses the set-up."""


ENDING = (signal.SIGTERM, signal.SIGINT)


class Stopped(Exception):
    """A signal asked the agent to end while it was being set up."""


def run(config: AgentConfig) -> int:
    """Runs an agent until a signal ends it; returns the exit status. An error of the set-up is printed in one line.

    What an earlier agent left at the interface is put back first: whatever else is wrong, no gate stays shut.
    """
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGHUP)}
    asked: list[int] = []

    def stop(number: int, _: object) -> None:
        asked.append(number)
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)  # what was set up is being undone
        raise Stopped

    for number in ENDING:
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the keys are read below
    try:
        with suppress(OSError, InterfaceInUse):  # told below, in its order
            put_back_leftovers(socket.if_nametoindex(config.interface), config.run_dir)
        return _run(config, asked)
    except Stopped:
        return 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(config: AgentConfig, asked: Sequence[int]) -> int:
    """`asked`: the signals that asked it to end meanwhile."""
    try:
        secret = host_file.load(config.key_file)
        if config.name not in ("", secret.name):
            raise KeyFileError(f"--name {config.name}: this host was enrolled as {secret.name}; leave --name out")
        config = dataclasses.replace(config, name=secret.name)
        gate_kind = probed_gate(config.gate)
        nic = NicPfc(config.interface) if config.pfc == "nic" else None
        host = Host(
            config.interface,
            config.rate_bps,
            gate_kind=gate_kind,
            run_dir=config.run_dir,
            take_over=config.take_over,
            dscp=TaggerSettings().dscp if config.priorities else (),
            priority_tag=config.priority_tag,
        )
    except (KeyFileError, ForeignQdisc, InterfaceInUse, BuildError, NoPfc, GateUnavailable, ProbeRefused) as error:
        print(f"baton agent: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        remedy = REMEDIES.get(error.errno or 0, "")
        print(f"baton agent: interface {config.interface}: {what}{error.strerror or error}{remedy}", file=sys.stderr)
        return 1
    agent: Agent | None = None
    weeks: WeekSchedule | None = None
    reflex: Reflex | None = None
    slots: SlotReflex | None = None
    guardian: Guardian | None = None
    try:
        guardian = Guardian(config.interface, config.run_dir)
        agent = Agent(config, secret.at(host.link.address), host)
        membership = agent.membership
        addresses = Addresses(
            agent, config.interface, config.addresses, membership.room_for_addresses, membership.set_addresses,
            time.monotonic_ns,
        )  # fmt: skip
        agent.add(addresses)
        log.info("%s", introduction(config, addresses.link_bps, addresses.described(), gate_kind))
        if 0 < addresses.link_bps < config.rate_bps:
            log.warning("%s", rate_warning(config.rate_bps, addresses.link_bps))
        weeks = WeekSchedule(
            agent, time.monotonic_ns, config.rate_bps, WeekQueues(host, agent.keeper, agent.rules)
        )
        agent.add(weeks)
        conditions = QueueConditions(agent, config.rate_bps)
        agent.add(conditions)
        reflex = _reflex(agent, host, weeks, conditions)
        slots = _slots(agent, host, reflex)
        agent.throttle.watch(busy=_busy(reflex, weeks), next_instant_ns=weeks.next_due_ns)
        agent.add(Pulse(guardian.beat))
        if config.priorities and (priorities := _priorities(agent)) is not None:
            agent.add(priorities)
            if config.guests is not None and (guests := _guests(agent, priorities, addresses)) is not None:
                agent.add(guests)
        if config.pfc != "off":
            agent.add(PfcPart(agent, config.interface, config.rate_bps, time.monotonic_ns, nic, reflex))
        keys = Keys(
            agent, agent.guard.ring, config.key_file, of_host(secret.name, lambda: host.link.address), membership.announce_anew,
        )  # fmt: skip
        agent.add(keys)
        for number in ENDING:
            signal.signal(number, agent.stop)
        signal.signal(signal.SIGHUP, keys.look)
        wake_in_time()
        if refused := become_realtime(config.realtime):
            log.warning("%s", refused)
        if refused := capabilities.drop():
            log.warning("%s", refused)
        if asked:  # amid a call of a library, which lets no exception through
            raise Stopped
        agent.run(reflex, slots)
    except InterfaceGone as error:
        print(f"baton agent: {error}", file=sys.stderr)
        return 1
    finally:
        with ExitStack() as closing:  # the host is put back whatever else fails
            closing.callback(_put_back, host, guardian)
            for part in (slots, reflex, agent):
                if part is not None:
                    closing.callback(part.close)
        if agent is not None and weeks is not None and config.statistics is not None:
            try:
                write_statistics(config.statistics, agent.keeper.counters, weeks.counters)
            except OSError as error:
                log.error("--statistics %s: %s; name a file in a directory of root's", config.statistics, error.strerror)
    return 0


def _put_back(host: Host, guardian: Guardian | None) -> None:
    """If the host can't be put back, the guardian stays, and tries once more when this process has ended."""
    host.close()
    if guardian is not None:
        guardian.dismiss()


def introduction(config: AgentConfig, link_bps: int, addresses: str, gate_kind: str) -> str:
    """One line: what the agent has found, and from where."""
    rate, link = format_rate(config.rate_bps), format_rate(link_bps) if link_bps else "unknown"
    source = "the link" if config.rate_source != "--rate" else f"--rate; the link's own: {link}"
    return f"{config.interface}: {rate} ({source}), {addresses}, {gate_kind} gates"


def rate_warning(rate_bps: int, link_bps: int) -> str:
    """What is wrong with a rate above the link's own, and what to do."""
    rate, link = format_rate(rate_bps), format_rate(link_bps)
    return f"--rate {rate} is above the link's own {link}: it cannot carry what is granted; leave --rate out, or say {link}"


def _reflex(agent: Agent, host: Host, weeks: WeekSchedule, conditions: QueueConditions) -> Reflex | None:
    """None where it cannot be built: the agent then does the same by itself, tens of microseconds later."""
    try:
        return Reflex(
            host, agent.rules, agent.keeper, agent,
            steps=weeks.next_steps, has_conditions=conditions.has_conditions,
        )  # fmt: skip
    except (BuildError, OSError) as error:
        log.warning("pauses, conditions and days are obeyed without a reflex: %s", error)
        return None


def _slots(agent: Agent, host: Host, reflex: Reflex | None) -> SlotReflex | None:
    """None where it cannot be built: the agent then does the same by itself, and takes more of a processor."""
    try:
        return SlotReflex(agent, host, reflex)
    except (BuildError, OSError) as error:
        log.warning("slots are obeyed without a reflex: %s", error)
        return None


def _busy(reflex: Reflex | None, weeks: WeekSchedule) -> Callable[[], bool]:
    return reflex.busy if reflex is not None else lambda: weeks.week is not None


def _priorities(agent: Agent) -> Priorities | None:
    """None where the kernel cannot have them: the host is coordinated all the same, its flows have no priorities."""
    try:
        config = agent.config
        return Priorities(agent, config.interface, config.rate_bps, config.cgroup)
    except (BuildError, BpfError, OSError) as error:
        log.warning("flows have no priorities on this host: %s", error)
        return None


def _guests(agent: Agent, priorities: Priorities, addresses: Addresses) -> Guests | None:
    """None where nobody can be heard: the guests' flows are tagged as flows without a mark."""
    config = agent.config
    assert config.guests is not None
    try:
        return Guests(
            agent, priorities.tagger, lambda: addresses.found, config.rate_bps, config.guests,
            interface=config.interface, run_dir=config.run_dir, clock=time.monotonic_ns,
        )  # fmt: skip
    except OSError as error:
        why = error.strerror or error
        log.warning("guests cannot mark their flows: UDP port %d, %s: %s", config.guests, config.run_dir, why)
        return None


def write_statistics(path: Path, counters: Counters, weekly: WeekCounters) -> None:
    """Writes counts and the newest latency samples (ns) to `path`, whole or not at all; those of weeks under "weekly". A device
    or a pipe stays what it is."""
    record = {name: getattr(counters, name) for name in Counters.__slots__}
    record["weekly"] = dataclasses.asdict(weekly)
    if path.exists() and not path.is_file():
        path.write_text(json.dumps(record))
        return
    target = path.resolve()
    temporary = target.with_name(f"{target.name}.new")  # for host.json not host.new, which is the host's next key
    try:
        temporary.write_text(json.dumps(record))
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
