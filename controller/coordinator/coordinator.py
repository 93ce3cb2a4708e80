"""The coordinator of one leader's term: one loop over the control socket, the store bridge and a timer heap. An edge.

It receives, sends and keeps the time. All else is in its parts: each has messages, documents and periodic calls of its own.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Callable, Iterable
from typing import Any

from controller.coflows.telling import CoflowQueues
from controller.config.settings import CoordinatorSettings
from controller.coordinator.attachment import Attachment
from controller.coordinator.candidate import announcement
from controller.coordinator.garbage import Garbage
from controller.coordinator.gathering import Gathering
from controller.coordinator.intake import Intake
from controller.coordinator.loop_intake import LoopIntake
from controller.coordinator.outgoing import Outgoing
from controller.coordinator.publication import Publication
from controller.coordinator.rank import Rank
from controller.coordinator.reception import Reception
from controller.coordinator.repeats import Repeats
from controller.coordinator.told_links import ToldLinks
from controller.election.leadership import Leadership
from controller.frames.exchange import Exchange
from controller.frames.frames import Batch, Frames
from controller.frames.loop import SlotLoop
from controller.frames.told import Planned
from controller.members.admission import Admission
from controller.members.enrolments import Enrolments
from controller.members.guest_marks import GuestCounts
from controller.members.health import Clocks, HostHealth
from controller.members.host_keys import HostKeys
from controller.members.host_links import HostLinks
from controller.members.key_rotation import KeyRotation
from controller.members.membership import Membership
from controller.members.part import STATUS_NS, Parts, periods
from controller.members.pause_control import PauseControl
from controller.members.queue_conditions import QueueConditions
from controller.members.registry import Member, Members
from controller.members.wire_versions import WireVersions
from controller.priorities.distribution import Distribution
from controller.priorities.path_limits import PathLimits
from controller.processes.jsonlines import JsonLines
from controller.scheduling.granting import Granting
from controller.scheduling.links.capacities import Capacities
from controller.scheduling.policing import Policing
from controller.scheduling.policy_control import PolicyControl
from controller.scheduling.regulation import Regulation
from controller.scheduling.telemetry import Telemetry
from controller.scheduling.week_frames import WeekFrames
from controller.slots.slot_length import SlotLengths, Work
from controller.told.directory import ToldDirectory
from protocol import virtual_time
from protocol.auth import Guard, authentications
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keyring import KeyRing, SharedAuthentication
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.hosts import Master
from protocol.link import ControlSocket
from protocol.messages import HEARTBEAT_MAC, Cause, Heartbeat, Kind, Ping
from protocol.timers import Mishaps, Timers
from protocol.units import MILLISECOND_NS, SECOND_NS

log = logging.getLogger("baton.coordinator")

CALLS_NS = 20 * MILLISECOND_NS
"""No call that is due is made later in its turn: the lease must be renewed."""
DEFERRED = tuple(
    (kind, None) for kind in (Kind.ACK, Kind.REPORT, Kind.CLOCK_REPORT, Kind.HOST_STATE, Kind.HOST_LINK, Kind.COFLOW_REPORT)
)
"""Frames that do not wake the loop: it reads them when something else wakes it, at the latest the next heartbeat."""
SENDERS = 1 << 16
"""More than there are node ids: no member's replay window makes room for another's."""


class Coordinator:
    """Grants slots under one leader epoch."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        key: Key | KeyRing[Any],
        link: ControlSocket,
        bridge: JsonLines,
        leadership: Leadership,
        start_tuner: Callable[[], JsonLines],
        shared: Key | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        """`key`: the master key, or two of them while it is changed; `shared`: what hosts of version 2 of the wire have.
        `compiled`: frames come and go in batches, by the library in C (it must be there: controller/frames/library.py).

        `bridge` and `start_tuner`'s result are this process's ends of the lines to the store bridge and to the tuner."""
        self.settings = settings
        self.link = link
        self.bridge = bridge
        self.leadership = leadership
        self.epoch = leadership.epoch
        ring: KeyRing[Any] = key if isinstance(key, KeyRing) else KeyRing(key)
        enrolments = Enrolments()
        self.keys = HostKeys(ring, enrolments)
        ways = dict(authentications(ring))
        own_keys = isinstance(ring.sending, Master)
        if own_keys:
            ways = {NEWEST: LeaderAuthentication(ring, self.keys.find, lambda mac: self.outgoing.key_for(mac))}
            ways |= {} if shared is None else {NEWEST - 1: SharedAuthentication(KeyRing(shared))}
        self.guard = Guard(ring, epoch=self.epoch, leader=True, address=link.address, ways=ways, senders=SENDERS)
        self.mishaps = Mishaps(log.error, lambda: self.guard.refuse(Cause.FAILED))
        self.members = Members()
        self.members.reserve(leadership.nodes)
        self.timers = Timers()
        self._periods = periods(settings)
        self._links = ToldLinks(self.timers, bridge.write)
        self._stopping = False
        self._delay = virtual_time.processing_delay(virtual_time.CONTROLLER_DELAY)

        members, timers, write, sequence = self.members, self.timers, bridge.write, time.time_ns()
        self._loop: SlotLoop | None = None
        self._rank: Rank | None = None
        self.exchange: Exchange | None = None
        if compiled and own_keys:
            frames = Frames(link.address, self.epoch, sequence, link.tag)
            self.exchange = Exchange(frames, self.guard, link, leadership, members, self.keys)
        spoken = self.guard.spoken
        self.versions = WireVersions(members, settings.fail_open_ns, write, spoken)
        self.outgoing = Outgoing(
            link, self.guard, leadership, members, self.keys, self.versions, self.exchange, sequence, own_keys=own_keys
        )
        send = self.outgoing.send
        parts = self.parts = Parts()
        telemetry = Telemetry(write, timers.at, self.members.__len__)
        week_frames = WeekFrames(timers, link.send, link.address)
        self.repeats = Repeats(members)
        self.intake = Intake(
            link, self.exchange, self.repeats, self.mishaps, lambda batch, now_ns: self.granting.take(batch, now_ns),
            lambda raw, now_ns, proven: self.reception.receive(raw, now_ns, proven),
        )  # fmt: skip
        self.membership = Membership(
            settings, members, parts, send, write, spoken, self._position,
            lambda now_ns: self.intake.read_until(now_ns),
        )  # fmt: skip
        self.directory = ToldDirectory(members, parts, timers, send)
        self.admission = Admission(
            self.keys, enrolments, settings.key_file, members, self.membership.forget, write, shared=shared is not None
        )
        self.granting = Granting(settings, members, send, telemetry, week_frames.take, self.exchange)
        self.distribution = Distribution(settings, send, write, start_tuner)
        self.regulation = Regulation(
            settings, members, timers, send, self.granting, parts, leadership.contended, self.distribution.on_busiest,
            lambda: self.intake.behind,
        )  # fmt: skip
        self.publication = Publication(
            self._periods[STATUS_NS], timers, members, parts, write, self._head, self.mishaps
        )
        capacities = Capacities(timers, self.granting, self.regulation, write)
        self.policy = PolicyControl(
            settings, members, self.granting, self.regulation, capacities, self._heartbeat, timers,
            lambda: leadership.serve(readable=True), write,
        )  # fmt: skip
        parts.add(
            *(() if self.exchange is None else (self.exchange,)),
            Gathering(parts.take),
            self.membership,
            self.repeats,
            self.directory,
            self.admission,
            self.versions,
            self.policy,
            self.granting,
            SlotLengths(self.policy, self._take_work, lambda: self.granting.tallies.slots, write),
            telemetry,
            self.regulation,
            capacities,
            CoflowQueues(timers, members, send, write, lambda: self.granting.network),
            PathLimits(settings, members, lambda: self.granting.network, timers, send),
            self.distribution,
            KeyRotation(ring, settings.key_file, members, send, write, self.keys.follow),
            Policing(self.granting, members, self.regulation, write, timers.at),
            PauseControl(settings, members, timers, send, write),
            QueueConditions(members, timers, send),
            Clocks(),
            HostHealth(write),
            GuestCounts(),
            HostLinks(lambda: self.granting.network, settings.mice_rate_bps, link.address),
            Attachment(write),
            self.publication,
            Garbage(members),
        )
        self.reception = Reception(
            self.guard, link.address, leadership, self.outgoing, members, self.membership, self.admission, self.versions,
            self.repeats, self.mishaps, self.exchange, self.granting.trusts, {**parts.handlers, Ping: self._on_ping},
        )  # fmt: skip

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until `stop` is called, another controller leads, or store bridge, elector or interface are lost."""
        now = time.monotonic_ns()
        self.admission.look(now)  # before any frame is believed
        self.timers.every(now, self.settings.heartbeat_ns, self._heartbeat)
        self.timers.every(now, SECOND_NS, self._look_at_interface)
        self.parts.begin(self.timers, now, self._periods)
        self.timers.every(now, self._periods[STATUS_NS], self.publication.publish)
        loop = self._loop = self._begin_loop(now)
        try:
            self._serve()
        finally:
            self._loop = None
            if loop is not None:
                loop.end()
            if self._rank is not None:
                self._rank.end()

    def _begin_loop(self, now_ns: int) -> SlotLoop | None:
        """Starts the loop of slots; None: frames are taken, and slots are planned, in this loop. In virtual time they are."""
        exchange = self.exchange
        if exchange is None or self._delay is not None or virtual_time.inside():
            return None
        try:
            loop = SlotLoop(exchange.frames, exchange.descriptors)
            loop.start()
        except OSError as error:
            log.warning("slots are planned between all else, and stop with it: there is no thread for them: %s", error)
            return None
        self.intake = LoopIntake(
            self.link, exchange, loop, self.repeats, self.mishaps, self._take_told, self.reception.receive, self.granting.attend
        )
        self.reception.looped = True
        exchange.extend()
        self.granting.begin_loop(loop, now_ns)
        self._rank = Rank(loop, self.settings.realtime_priority)
        return loop

    def _take_told(self, told: Batch | Planned, then_ns: int) -> None:
        if isinstance(told, Batch):
            self.guard.accepted += told.accepted
            self.granting.take(told, then_ns)
        else:
            self.granting.planned(told, then_ns)

    def _serve(self) -> None:
        while not self._stopping:
            timeout = 0 if self.intake.behind else max(0, self._next_ns() - time.monotonic_ns()) / 1e9
            tuner = self.distribution.tuner
            source = self.intake.source
            sources: list[ControlSocket | JsonLines | SlotLoop] = [source, self.bridge, self.leadership.lines]
            sources += [] if tuner is None else [tuner]
            readable, _, _ = select.select(sources, (), (), timeout)
            if self._delay is not None:
                self._delay.sleep()
            self.intake.turn(time.monotonic_ns(), woken=source in readable)
            if self.exchange is not None:
                self.exchange.extend()
            now = time.monotonic_ns()
            if self.bridge in readable and not self._from_bridge(now):
                log.error("the store bridge is gone: stopping, to be started again")
                return
            if not self.leadership.serve(self.leadership.lines in readable):
                return
            if text := self.leadership.resumed():
                log.warning("%s", text)
                self.bridge.write({"event": ["leader", "warning", text]})
            self._serve_timers()
            if tuner in readable:
                self._from_tuner(now)

    def _from_tuner(self, now_ns: int) -> None:
        with self.mishaps.surviving("the tuner's thresholds", now_ns):
            if not self.distribution.from_tuner():
                log.error("the tuner is gone: thresholds stay as they are until another one has started")

    def _serve_timers(self) -> None:
        """Makes the calls that are due, and plans. Raises the error of either when it fails turn by turn."""
        try:
            began_ns = time.monotonic_ns()
            self.timers.run(began_ns, lambda: time.monotonic_ns() - began_ns >= CALLS_NS)
            now = time.monotonic_ns()
            if self.granting.due_ns is not None and now >= self.granting.due_ns:
                self.granting.plan(now)
            self.mishaps.turn_done()
        except Exception as error:
            self.mishaps.turn_failed("what was due", error, time.monotonic_ns())

    def stop(self, *_: object) -> None:
        """Ends `run` soon; a signal handler."""
        self._stopping = True

    def _look_at_interface(self, _: int) -> None:
        """Gives up the lead without an interface: as long as we held the lease no other controller would take our place."""
        if fault := self.link.fault():
            log.error("interface %s %s: stopping, to be started again", self.settings.interface, fault)
            self.stop()

    def _next_ns(self) -> int:
        due, planned_ns = min(self.timers.next_ns(), self.leadership.due_ns()), self.granting.due_ns
        return due if planned_ns is None else min(due, planned_ns)

    def _take_work(self) -> Work | None:
        """What the loop of slots did since the last call; None: there is none."""
        return None if self._loop is None else self._loop.take_work()

    # -- members ------------------------------------------------------------------------------------------------------

    def _on_ping(self, member: Member, message: Ping, now_ns: int) -> None:
        self.outgoing.pong(member, message.sent_ns, self.intake.arrived_ns())

    def _position(self) -> tuple[int, bytes]:
        """Place and value of the last heartbeat."""
        way = self.guard.authentications[NEWEST]
        return way.position if isinstance(way, LeaderAuthentication) else (0, bytes(16))

    def _heartbeat(self, _: int) -> None:
        if self._loop is not None:
            self.leadership.withheld += self._loop.take_withheld()
        if self._rank is not None:
            self._rank.look(len(self.members))
        versions = (self.members.version, self.regulation.version, self.distribution.version)
        self.outgoing.send(Heartbeat(self.policy.override, *versions), HEARTBEAT_MAC)

    # -- the store ----------------------------------------------------------------------------------------------------

    def _from_bridge(self, now_ns: int) -> bool:
        lines = self.bridge.read()
        if lines is None:
            return False
        self.take(lines, now_ns)
        return True

    def take(self, lines: Iterable[dict[str, Any]], now_ns: int) -> None:
        """Gives the store bridge's lines (see there) to the parts that they are for."""
        for line in lines:
            with self.mishaps.surviving(", ".join(map(str, line)), now_ns):
                self.parts.take(line, now_ns)

    def _head(self, now_ns: int) -> list[dict[str, Any]]:
        status = self._document(now_ns)
        self._links.tell(status.pop("links"), now_ns)
        return [{"status": status}, announcement(self.settings, self.link, self.epoch)]

    def _document(self, now_ns: int) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "leader": self.settings.name,
            "from_memory": self.leadership.election.from_memory,
            "pid": os.getpid(),
            "mac": self.link.address.hex(":"),
            "refused": {cause.name.lower(): count for cause, count in self.guard.refused.items()},
            "time_ns": now_ns,
            "period_ns": self._periods[STATUS_NS],
            "loop_longest_us": {} if self._loop is None else self._loop.take_longest_us(),
            "loop_dropped": 0 if self._loop is None else self._loop.dropped,
            **self.parts.status(),
        }
