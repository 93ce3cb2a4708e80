"""The coordinator: one loop over the control socket, the courier and a timer heap. An edge.

It receives, sends and keeps the time. Decisions are elsewhere: `members` (who is there), `congestion` (which links need
permission) and `regulation` (who is told so), `policies` (who gets it) and `granting` (the directives that say so).
"""

from __future__ import annotations

import logging
import select
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from controller import status_document
from controller.config.settings import CoordinatorSettings
from controller.coordinator.candidate import announcement
from controller.election.leadership import Leadership
from controller.members.health import Clocks, HostHealth
from controller.members.key_rotation import KeyRotation
from controller.members.part import Part
from controller.members.pfc import Pfc
from controller.members.queue_conditions import HostControl
from controller.members.registry import Member, Members
from controller.priorities.coflow_messages import CoflowTelling
from controller.priorities.distribution import Distribution
from controller.processes.jsonlines import JsonLines
from controller.scheduling.congestion import Congestion
from controller.scheduling.granting import Granting
from controller.scheduling.network import FabricNetwork
from controller.scheduling.policing import Watch
from controller.scheduling.regulation import Regulation
from controller.scheduling.telemetry import SUMMARY_NS, Telemetry
from controller.scheduling.week_frames import WeekFrames
from controller.store.layout import FLUSH_NS
from protocol.auth import Guard, Key, KeyRing
from protocol.link import ControlSocket
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Ack,
    Backlog,
    Cause,
    Directory,
    DirectoryRequest,
    Error,
    ErrorCode,
    Heartbeat,
    Kind,
    Leave,
    Message,
    Override,
    Ping,
    Pong,
    Register,
    Report,
    SizeReport,
    ThresholdsRequest,
    Welcome,
    Yield,
    encode,
)
from protocol.paging import Reassembler, paginate
from protocol.timers import REFRESH_NS, Timers
from protocol.units import MILLISECOND_NS
from topology.fabric import Fabric
from topology.paths import Routes
from topology.spanning_tree import Tree

log = logging.getLogger("baton.coordinator")

SWEEP_NS = 24 * MILLISECOND_NS
"""As often as every second heartbeat, unless configured otherwise: what is due at once wakes us once."""
STATUS_NS = 250 * MILLISECOND_NS
PATIENT = ((Kind.ACK, None), (Kind.REPORT, None))
"""What is read when something else wakes us: the next heartbeat at the latest."""
CONGESTION_SETTINGS = ("mode", "contend_fraction", "release_fraction", "quiet_ns")


class Coordinator:
    """Grants slots under one leader epoch."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        key: Key | KeyRing,
        link: ControlSocket,
        courier: JsonLines,
        leadership: Leadership,
        start_tuner: Callable[[], JsonLines],
    ) -> None:
        self.settings = settings
        self.link = link
        self.courier = courier
        self.leadership = leadership
        self.epoch = leadership.epoch
        self.guard = Guard(key, epoch=self.epoch, leader=True, address=link.address)
        self.members = Members()
        self.members.reserve(leadership.nodes)
        self.timers = Timers()
        self.telemetry = Telemetry(courier.write)
        self.granting = Granting(settings, self.members, self._send, self.telemetry)
        self.regulation = Regulation(settings, self.members, self.timers, self._send)
        self.regulation.congestion.assume(leadership.contended)
        self.distribution = Distribution(settings, self._send, courier.write, start_tuner)
        self.coflows = CoflowTelling(self.timers, self._send)
        self.override = Override.COORDINATE
        self._fabric: dict[str, Any] | None = None
        self._reports: dict[int, Reassembler[Report]] = defaultdict(Reassembler)
        self._sequence = time.time_ns()
        self._network_stale = True
        self._stopping = False
        self._handlers: dict[type, Callable[..., None]] = {
            Backlog: self.granting.on_backlog,
            Yield: self.granting.on_yield,
            Ack: self.granting.on_ack,
            Report: self._on_report,
            Ping: self._on_ping,
            DirectoryRequest: self._on_directory_request,
            Leave: self._on_leave,
            SizeReport: self.distribution.on_size_report,
            ThresholdsRequest: self.distribution.on_request,
        }
        keys = KeyRotation(self.guard.ring, settings.key_file, self.members, self._send, courier.write)
        pfc = Pfc(settings, self.members, self.timers, self._send, courier.write)
        queues = HostControl(self.members, self.timers, self._send)
        self.granting.on_week = WeekFrames(self.timers, link.send, link.address).take
        watch = Watch(self.granting, self.members, self.regulation, courier.write)
        self.parts: list[Part] = [keys, watch, pfc, queues, Clocks(), HostHealth(courier.write)]
        for part in self.parts:
            self._handlers.update(part.handlers)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until `stop` is called, another leads, or the courier is gone."""
        now = time.monotonic_ns()
        for period, call in (
            (self.settings.heartbeat_ns, self._heartbeat),
            (SWEEP_NS, self._sweep),
            (STATUS_NS, self._status),
            (FLUSH_NS, self.telemetry.flush),
            (SUMMARY_NS, self.telemetry.summary),
            (REFRESH_NS, self.regulation.refresh),
            (SWEEP_NS, self.coflows.update),
            (REFRESH_NS, self.coflows.tell),
            (self.settings.size_period_ns, self.distribution.start),
            *((part.period_ns, part.advance) for part in self.parts),
        ):
            self.timers.every(now, period, call)
        while not self._stopping:
            timeout = max(0, self._next_ns() - time.monotonic_ns()) / 1e9
            tuner = self.distribution.tuner
            sources: list[ControlSocket | JsonLines] = [self.link, self.courier, self.leadership.lines]
            sources += [] if tuner is None else [tuner]
            readable, _, _ = select.select(sources, (), (), timeout)
            now = time.monotonic_ns()
            for waited, _ in self.link.patient():  # first: a slot's ACK comes before its YIELD, a REPORT before a LEAVE
                self._receive(waited, now)
            if self.link in readable:
                while (raw := self.link.receive()) is not None:
                    self._receive(raw, now)
                    now = time.monotonic_ns()
            if self.courier in readable and not self._from_courier(now):
                log.error("the courier is gone: stopping, to be started again")
                return
            if not self.leadership.serve(self.leadership.lines in readable):
                return
            self.timers.run(time.monotonic_ns())
            now = time.monotonic_ns()
            if self.granting.due_ns is not None and now >= self.granting.due_ns:
                self.granting.plan(now)
            if tuner in readable and not self.distribution.from_tuner():
                log.error("the tuner is gone: thresholds stay as they are until another one has started")

    def stop(self, *_: object) -> None:
        """Ends `run` soon; a signal handler."""
        self._stopping = True

    def _next_ns(self) -> int:
        due, planned_ns = min(self.timers.next_ns(), self.leadership.due_ns()), self.granting.due_ns
        return due if planned_ns is None else min(due, planned_ns)

    # -- sending and receiving ----------------------------------------------------------------------------------------

    def _send(self, message: Message, to: bytes) -> None:
        if self.leadership.may_speak():
            self.link.send(self._sealed(message, to))

    def _sealed(self, message: Message, to: bytes) -> bytes:
        self._sequence += 1
        return encode(
            message, key=self.guard.ring.sending, destination=to, source=self.link.address,
            sender=COORDINATOR, epoch=self.epoch, sequence=self._sequence,
        )  # fmt: skip

    def _receive(self, raw: bytes, now_ns: int) -> None:
        frame = self.guard.accept(raw)
        if frame is None:
            if self.guard.highest_epoch > self.epoch:
                self.leadership.heard(self.guard.highest_epoch, now_ns)
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

    # -- membership ---------------------------------------------------------------------------------------------------

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
        self.granting.joined(member.node)
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
        self.granting.left(member.node, now_ns)
        self.regulation.left(member.node, now_ns)
        for part in self.parts:
            part.left(member.node)
        self._network_stale = True
        self.granting.plan(now_ns)

    def _on_directory_request(self, member: Member, _: DirectoryRequest, now_ns: int) -> None:
        for page in paginate(Directory(self.members.version, 0, 1, self.members.directory())):
            self._send(page, member.mac)
        self.regulation.tell(member)

    def _on_ping(self, member: Member, message: Ping, now_ns: int) -> None:
        arrived_ns = self.link.arrived_ns()
        if self.leadership.may_speak():
            self.link.send_stamped(lambda leaving_ns: self._sealed(Pong(message.sent_ns, arrived_ns, leaving_ns), member.mac))

    # -- what hosts say of their traffic ------------------------------------------------------------------------------

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
        sent = {flow.destination: flow.bytes for page in pages for flow in page.entries}
        self.telemetry.reported(sent, self.regulation.regulated.get(member.node, frozenset()))
        for part in self.parts:
            part.reported(member.node, sent)
        self.regulation.congestion.report(member.node, rates, now_ns=now_ns)
        self._update_regulation(now_ns)

    # -- what the store says ------------------------------------------------------------------------------------------

    def _from_courier(self, now_ns: int) -> bool:
        values = self.courier.read()
        if values is None:
            return False
        self.take(values, now_ns)
        return True

    def take(self, values: Iterable[dict[str, Any]], now_ns: int) -> None:
        """What the courier tells: see there."""
        for value in values:
            for part in self.parts:
                for name in part.documents.keys() & value.keys():
                    part.documents[name](value[name], now_ns)
            if "fabric" in value:
                self._fabric = value["fabric"]
                self._network_stale = True
            if "ports" in value:
                self.regulation.congestion.ports(value["ports"], now_ns=now_ns)
                self.distribution.on_busiest(self.regulation.congestion)
            if "coflows" in value:
                self.coflows.opened(value["coflows"], value["ahead_ns"], now_ns)
            if "override" in value:
                self._set_override(Override[str(value["override"]).upper()], now_ns)
            if "policy" in value:
                self._set_policy(value["policy"], now_ns)
            if "thresholds" in value:
                self.distribution.resume(value["thresholds"])

    def _set_override(self, override: Override, now_ns: int) -> None:
        if override is self.override:
            return
        self.override = override
        self.granting.suspended = override is Override.FREE
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
            self.regulation.congestion = Congestion.from_settings(settings)
        self.settings = settings
        log.info("policy: %s", settings.policy)
        self._apply_policy(now_ns)

    def _apply_policy(self, now_ns: int) -> None:
        """A fresh policy under the present settings, told all that is known."""
        self.granting.renew(self.settings, now_ns)
        self._network_stale = True
        self._sweep(now_ns)
        self.granting.inform(self.regulation.regulated, now_ns)

    # -- the fabric ---------------------------------------------------------------------------------------------------

    def _sweep(self, now_ns: int) -> None:
        """Forgets the silent, takes a changed fabric or membership into use, and lets quiet links go."""
        for member in self.members.silent(now_ns, self.settings.silence_ns):
            self._forget(member, now_ns, f"{member.name} is silent and loses its slots")
        if self._network_stale and self._fabric is not None:
            self._network_stale = False
            self._rebuild_network(now_ns)
        self._update_regulation(now_ns)
        self.granting.forget_lost(now_ns)

    def _rebuild_network(self, now_ns: int) -> None:
        assert self._fabric is not None
        fabric = Fabric.from_dict(self._fabric["fabric"])
        tree = Tree.from_blocked(fabric, self._fabric.get("blocked", ()))
        network = FabricNetwork(fabric, Routes(fabric, tree), self.members.present())
        self.granting.set_network(network, now_ns)
        self.regulation.congestion.set_network(network, list(network.hosts), now_ns=now_ns)

    def _update_regulation(self, now_ns: int) -> None:
        if self.settings.policy == "weekly":  # its own schedule holds hosts, not permission
            self.granting.policy.set_regulated(self.regulation.congestion.regulated(now_ns=now_ns), now_ns=now_ns)
            if self.granting.due_ns is None:
                self.granting.plan(now_ns)
        if self.regulation.update(now_ns, free=self.settings.policy in ("free", "weekly")):
            self.granting.policy.set_regulated(self.regulation.regulated, now_ns=now_ns)
            self.granting.plan(now_ns)

    # -- telling ------------------------------------------------------------------------------------------------------

    def _heartbeat(self, _: int) -> None:
        versions = (self.members.version, self.regulation.version, self.distribution.version)
        self._send(Heartbeat(self.override, *versions), HEARTBEAT_MAC)

    def _status(self, now_ns: int) -> None:
        self.courier.write({"status": status_document.status(self, now_ns)})
        self.courier.write(announcement(self.settings, self.link, self.epoch))
        for node, record in status_document.members(self, now_ns):
            self.courier.write({"member": [node, record]})
