"""The coordinator: one loop over the control socket, the courier and a timer heap. An edge.

It hears who is backlogged, asks the policy who may send, and says so. Decisions are elsewhere: `members` (who is there),
`congestion` (which links need permission), `policies` (who gets it).
"""

from __future__ import annotations

import heapq
import logging
import os
import select
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from controller.congestion import Congestion
from controller.jsonlines import JsonLines
from controller.members import Member, Members
from controller.network import FabricNetwork
from controller.policies import make_policy
from controller.policies.base import Policy, Slot
from controller.settings import CoordinatorSettings
from controller.tallies import Tallies
from protocol.auth import Guard, Key
from protocol.link import ControlSocket
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Ack,
    Backlog,
    Cause,
    Directive,
    Directory,
    DirectoryRequest,
    Error,
    ErrorCode,
    Grant,
    Heartbeat,
    Leave,
    Message,
    Override,
    Ping,
    Pong,
    Register,
    Regulate,
    Report,
    Welcome,
    Yield,
    encode,
)
from protocol.paging import Reassembler, paginate
from topology.fabric import Fabric
from topology.paths import Routes
from topology.spanning_tree import Tree

log = logging.getLogger("baton.coordinator")

MILLISECOND = 1_000_000
SWEEP_NS = 20 * MILLISECOND
STATUS_NS = 250 * MILLISECOND
REGULATE_REPEATS_NS = (20 * MILLISECOND, 100 * MILLISECOND)
REGULATE_REFRESH_NS = 1_000 * MILLISECOND
CONGESTION_SETTINGS = ("mode", "contend_fraction", "release_fraction", "quiet_ns")
GRACE_PART = 10
"""The grace is at most this part of a slice: what is sent late waits in a buffer behind the next slot's frames."""
LATE_PART = 4
"""A slot whose gate opened later after its start than this part of a slice counts as late."""


class Coordinator:
    """Grants slots under one leader epoch."""

    def __init__(
        self, settings: CoordinatorSettings, key: Key, link: ControlSocket, courier: JsonLines, epoch: int
    ) -> None:
        self.settings = settings
        self.key = key
        self.link = link
        self.courier = courier
        self.epoch = epoch
        self.guard = Guard(key, epoch=epoch, leader=True, address=link.address)
        self.members = Members()
        self.tallies = Tallies()
        self.override = Override.COORDINATE
        self.network: FabricNetwork | None = None
        self._fabric: dict[str, Any] | None = None
        self.policy: Policy = make_policy(settings)
        self.congestion = Congestion.from_settings(settings)
        self.regulated: dict[int, frozenset[int]] = {}
        self._regulate_version = 0
        self._backlogs: dict[int, Reassembler[Backlog]] = defaultdict(Reassembler)
        self._reports: dict[int, Reassembler[Report]] = defaultdict(Reassembler)
        self._sequence = time.time_ns()
        self._network_stale = True
        self._stopping = False
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._timer_number = 0
        self._plan_ns: int | None = None
        self._handlers: dict[type, Callable[..., None]] = {
            Backlog: self._on_backlog,
            Yield: self._on_yield,
            Ack: self._on_ack,
            Report: self._on_report,
            Ping: self._on_ping,
            DirectoryRequest: self._on_directory_request,
            Leave: self._on_leave,
        }

    # -- the loop -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until `stop` is called or the courier is gone."""
        now = time.monotonic_ns()
        for period, call in (
            (self.settings.heartbeat_ns, self._heartbeat),
            (SWEEP_NS, self._sweep),
            (STATUS_NS, self._status),
            (REGULATE_REFRESH_NS, self._refresh_regulation),
        ):
            self._every(now, period, call)
        link, courier = self.link.fileno(), self.courier.fileno()
        while not self._stopping:
            timeout = max(0, self._next_ns() - time.monotonic_ns()) / 1e9
            readable, _, _ = select.select((link, courier), (), (), timeout)
            now = time.monotonic_ns()
            if link in readable:
                while (raw := self.link.receive()) is not None:
                    self._receive(raw, now)
                    now = time.monotonic_ns()
            if courier in readable and not self._from_courier(now):
                log.error("the courier is gone: stopping, to be started again")
                return
            self._run_timers(time.monotonic_ns())
            now = time.monotonic_ns()
            if self._plan_ns is not None and now >= self._plan_ns:
                self._plan(now)

    def stop(self, *_: object) -> None:
        """Ends `run` soon; a signal handler."""
        self._stopping = True

    def _every(self, now_ns: int, period_ns: int, call: Callable[[int], None]) -> None:
        def again(then_ns: int) -> None:
            call(then_ns)
            self._at(then_ns + period_ns, again)

        self._at(now_ns, again)

    def _at(self, when_ns: int, call: Callable[[int], None]) -> None:
        self._timer_number += 1
        heapq.heappush(self._timers, (when_ns, self._timer_number, call))

    def _next_ns(self) -> int:
        due = self._timers[0][0]
        return due if self._plan_ns is None else min(due, self._plan_ns)

    def _run_timers(self, now_ns: int) -> None:
        while self._timers[0][0] <= now_ns:
            heapq.heappop(self._timers)[2](now_ns)

    # -- sending and receiving ------------------------------------------------------------------------------------------

    def _send(self, message: Message, to: bytes) -> None:
        self._sequence += 1
        self.link.send(
            encode(
                message,
                key=self.key,
                destination=to,
                source=self.link.address,
                sender=COORDINATOR,
                epoch=self.epoch,
                sequence=self._sequence,
            )
        )

    def _receive(self, raw: bytes, now_ns: int) -> None:
        frame = self.guard.accept(raw)
        if frame is None:
            return
        message = frame.message
        if isinstance(message, Register):
            self._on_register(message, frame.source, now_ns)
            return
        member = self.members.get(frame.sender)
        if member is None or member.mac != frame.source:
            self.guard.refuse(Cause.UNKNOWN_SENDER)
            self._send(Error(ErrorCode.UNKNOWN_SENDER, frame.sequence, "register first"), frame.source)
            return
        member.heard_ns = now_ns
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(member, message, now_ns)

    # -- membership -----------------------------------------------------------------------------------------------------

    def _on_register(self, message: Register, mac: bytes, now_ns: int) -> None:
        version = self.members.version
        gate = message.gates.name or "none"
        member = self.members.register(
            mac, message.name, message.rate_bps, message.addresses, gate, message.version, now_ns
        )
        settings = self.settings
        self._send(
            Welcome(
                message.nonce,
                member.node,
                settings.heartbeat_ns,
                settings.fail_open_ns,
                settings.yield_hysteresis_ns,
                settings.mice_bytes,
                settings.mice_rate_bps,
                settings.report_ns,
            ),
            mac,
        )
        self._backlogs[member.node].clear()
        self._reports[member.node].clear()
        if self.members.version != version:
            self._network_stale = True
            log.info("member %d: %s, %s", member.node, member.name, ", ".join(map(str, member.addresses)))
            self.courier.write({"event": ["member", "info", f"{member.name} is member {member.node}"]})

    def _on_leave(self, member: Member, message: Leave, now_ns: int) -> None:
        self._forget(member, now_ns, f"{member.name} left: {message.reason}")

    def _forget(self, member: Member, now_ns: int, why: str) -> None:
        log.info("%s", why)
        self.courier.write({"event": ["member", "warning", why]})
        self.courier.write({"gone": member.node})
        self.members.leave(member.node)
        self.policy.left(member.node, now_ns=now_ns)
        self.congestion.left(member.node, now_ns=now_ns)
        self.regulated.pop(member.node, None)
        self._network_stale = True
        self._plan(now_ns)

    def _on_directory_request(self, member: Member, _: DirectoryRequest, now_ns: int) -> None:
        for page in paginate(Directory(self.members.version, 0, 1, self.members.directory())):
            self._send(page, member.mac)
        self._regulate(member)

    def _on_ping(self, member: Member, message: Ping, now_ns: int) -> None:
        self._send(Pong(message.sent_ns, now_ns, time.monotonic_ns()), member.mac)

    # -- what hosts say of their queues ---------------------------------------------------------------------------------

    def _on_backlog(self, member: Member, message: Backlog, now_ns: int) -> None:
        pages = self._backlogs[member.node].add(message)
        if pages is None:
            return
        member.backlog = {destination: size for page in pages for destination, size in page.entries}
        self.policy.backlog(member.node, member.backlog, now_ns=now_ns)
        self._plan(now_ns)

    def _on_yield(self, member: Member, message: Yield, now_ns: int) -> None:
        member.yields += 1
        self.tallies.yields += 1
        if message.backlog_bytes:
            member.backlog[message.destination] = message.backlog_bytes
        else:
            member.backlog.pop(message.destination, None)
        self.policy.yielded(
            member.node, message.destination, message.slot, now_ns=now_ns, backlog_bytes=message.backlog_bytes
        )
        self._plan(now_ns)

    def _on_ack(self, member: Member, message: Ack, now_ns: int) -> None:
        start_ns = self.tallies.acknowledged(message.slot)
        if start_ns is None:
            return
        lateness = message.opened_ns - start_ns
        member.acknowledged += 1
        member.lateness_ns += (lateness - member.lateness_ns) // 8
        # A rate that is renewed comes into force whenever it is heard of; only a slot can be late.
        if self.settings.policy != "rate_limit" and lateness > self.settings.slice_ns // LATE_PART:
            member.late += 1
            self.tallies.late += 1

    def _on_report(self, member: Member, message: Report, now_ns: int) -> None:
        pages = self._reports[member.node].add(message)
        if pages is None:
            return
        member.sent_bps = {
            flow.destination: flow.bytes * 8 * 10**9 // max(1, page.period_ns) for page in pages for flow in page.entries
        }
        member.refused = {cause: count for page in pages for cause, count in page.counters}
        waiting = {flow.destination: flow.backlog_bytes for page in pages for flow in page.entries}
        rates = {d: (rate, waiting.get(d, 0)) for d, rate in member.sent_bps.items()}
        for destination, size in member.backlog.items():
            rates[destination] = (rates.get(destination, (0, 0))[0], size)
        self.congestion.report(member.node, rates, now_ns=now_ns)
        self._update_regulation(now_ns)

    # -- what the store says --------------------------------------------------------------------------------------------

    def _from_courier(self, now_ns: int) -> bool:
        values = self.courier.read()
        if values is None:
            return False
        for value in values:
            if "fabric" in value:
                self._fabric = value["fabric"]
                self._network_stale = True
            if "ports" in value:
                self.congestion.ports(value["ports"], now_ns=now_ns)
            if "override" in value:
                self._set_override(Override[str(value["override"]).upper()], now_ns)
            if "policy" in value:
                self._set_policy(value["policy"], now_ns)
        return True

    def _set_override(self, override: Override, now_ns: int) -> None:
        if override is self.override:
            return
        self.override = override
        log.info("override: %s", override.name.lower())
        self._heartbeat(now_ns)
        self._apply_policy(now_ns)

    def _set_policy(self, changes: dict[str, Any], now_ns: int) -> None:
        try:
            settings = self.settings.changed(changes)
        except ValueError as error:
            log.error("policy kept as it was: %s", error)
            return
        if settings == self.settings:
            return
        if any(getattr(settings, name) != getattr(self.settings, name) for name in CONGESTION_SETTINGS):
            self.congestion = Congestion.from_settings(settings)
        self.settings = settings
        log.info("policy: %s", settings.policy)
        self._apply_policy(now_ns)

    def _apply_policy(self, now_ns: int) -> None:
        """A fresh policy under the present settings, told all that is known."""
        self.policy = make_policy(self.settings)
        self._network_stale = True
        self._sweep(now_ns)
        self.policy.set_regulated(self.regulated, now_ns=now_ns)
        for member in self.members.present():
            self.policy.backlog(member.node, member.backlog, now_ns=now_ns)
        self._plan(now_ns)

    # -- the fabric and regulation --------------------------------------------------------------------------------------

    def _sweep(self, now_ns: int) -> None:
        """Forgets the silent, takes a changed fabric or membership into use, and lets quiet links go."""
        for member in self.members.silent(now_ns, self.settings.silence_ns):
            self._forget(member, now_ns, f"{member.name} is silent and loses its slots")
        if self._network_stale and self._fabric is not None:
            self._network_stale = False
            self._rebuild_network(now_ns)
        self._update_regulation(now_ns)
        self.tallies.forget_before(now_ns - self.settings.silence_ns)

    def _rebuild_network(self, now_ns: int) -> None:
        assert self._fabric is not None
        fabric = Fabric.from_dict(self._fabric["fabric"])
        tree = Tree.from_blocked(fabric, self._fabric.get("blocked", ()))
        self.network = FabricNetwork(fabric, Routes(fabric, tree), self.members.present())
        self.policy.set_network(self.network, now_ns=now_ns)
        self.congestion.set_network(self.network, list(self.network.hosts), now_ns=now_ns)
        nodes = {name: node for node, name in self.network.hosts.items()}
        for weight in self.settings.weights:
            if weight.source in nodes and (not weight.destination or weight.destination in nodes):
                self.policy.set_weight(nodes[weight.source], nodes.get(weight.destination), weight.weight)

    def _contended_links(self) -> list[tuple[str, str]]:
        return [link for link in self.congestion.contended() if isinstance(link, tuple)]

    def _update_regulation(self, now_ns: int) -> None:
        wanted = {} if self.settings.policy == "free" else self.congestion.regulated(now_ns=now_ns)
        if wanted == self.regulated:
            return
        changed = [n for n in wanted.keys() | self.regulated.keys() if wanted.get(n) != self.regulated.get(n)]
        self.regulated = dict(wanted)
        self._regulate_version += 1
        self.policy.set_regulated(self.regulated, now_ns=now_ns)
        self._tell_regulation(changed)
        for delay in REGULATE_REPEATS_NS:
            self._at(now_ns + delay, lambda _: self._tell_regulation(changed))
        self._plan(now_ns)

    def _tell_regulation(self, nodes: list[int]) -> None:
        for node in nodes:
            if (member := self.members.get(node)) is not None:
                self._regulate(member)

    def _refresh_regulation(self, _: int) -> None:
        self._tell_regulation([member.node for member in self.members.present()])

    def _regulate(self, member: Member) -> None:
        destinations = tuple(sorted(self.regulated.get(member.node, frozenset())))
        for page in paginate(Regulate(self._regulate_version, 0, 1, destinations)):
            self._send(page, member.mac)

    # -- granting -------------------------------------------------------------------------------------------------------

    def _plan(self, now_ns: int) -> None:
        if self.override is Override.FREE or self.network is None:
            self._plan_ns = None
            return
        plan = self.policy.plan(now_ns=now_ns, horizon_ns=now_ns + self.settings.lead_ns)
        for slot in plan.revokes:
            self._direct(slot, revoked=True)
        for slot in plan.grants:
            self._direct(slot)
        event = self.policy.next_event_ns()
        self._plan_ns = None if event is None else max(event - self.settings.lead_ns, now_ns + 1)

    def _direct(self, slot: Slot, revoked: bool = False) -> None:
        member = self.members.get(slot.node)
        if member is None:
            return
        if revoked:
            grant = Grant(slot.destination, slot.slot, slot.start_ns, slot.end_ns, 0, 0)
            self.tallies.revoked(slot.slot)
        else:
            end_ns = slot.end_ns + (0 if slot.rate_bps else min(self.settings.grace_ns, self.settings.slice_ns // GRACE_PART))
            grant = Grant(slot.destination, slot.slot, slot.start_ns, end_ns, slot.bytes, slot.rate_bps)
            member.slots += 1
            self.tallies.granted(slot.slot, slot.start_ns)
        self._send(Directive((grant,)), member.mac)

    def _heartbeat(self, _: int) -> None:
        self._send(Heartbeat(self.override, self.members.version, self._regulate_version), HEARTBEAT_MAC)

    # -- telling --------------------------------------------------------------------------------------------------------

    def _status(self, now_ns: int) -> None:
        settings, tallies = self.settings, self.tallies
        self.courier.write(
            {
                "status": {
                    "epoch": self.epoch,
                    "pid": os.getpid(),
                    "mac": self.link.address.hex(":"),
                    "policy": settings.policy,
                    "slice_ns": settings.slice_ns,
                    "override": self.override.name.lower(),
                    "slots": tallies.slots,
                    "acknowledged": tallies.acks,
                    "late_slots": tallies.late,
                    "lost": tallies.lost,
                    "yields": tallies.yields,
                    "members": len(self.members.present()),
                    "unplaced": self.network.unplaced if self.network else [],
                    "contended": sorted(map(list, self._contended_links())),
                    "refused": {cause.name.lower(): count for cause, count in self.guard.refused.items()},
                    "time_ns": now_ns,
                }
            }
        )
        for member in self.members.present():
            self.courier.write({"member": [member.node, _member_record(member, self.regulated, now_ns)]})


def _member_record(member: Member, regulated: dict[int, frozenset[int]], now_ns: int) -> dict[str, Any]:
    return {
        "name": member.name,
        "mac": member.mac.hex(":"),
        "addresses": [str(a) for a in member.addresses],
        "rate_bps": member.rate_bps,
        "gate": member.gate,
        "version": member.version,
        "heard_ms_ago": (now_ns - member.heard_ns) // MILLISECOND,
        "slots": member.slots,
        "acknowledged": member.acknowledged,
        "late_slots": member.late,
        "yields": member.yields,
        "lateness_us": member.lateness_ns // 1000,
        "backlog_bytes": member.backlog,
        "sent_bps": member.sent_bps,
        "regulated": sorted(regulated.get(member.node, ())),
        "refused": member.refused,
    }
