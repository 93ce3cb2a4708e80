"""The host agent: one loop over the control socket, the classifier's events and the timers. An edge.

Decisions are elsewhere: `membership` (where the agent stands towards the coordinator), `gatekeeper` (which gate is open),
`clock` (what time it is at the coordinator). This file receives, sends, and keeps the time.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from agents.config import AgentConfig
from agents.kernel.netlink import NetlinkError
from agents.loop.clock import Clock
from agents.loop.part import Handler, Part
from agents.loop.parts import NEVER_NS, Parts
from agents.loop.throttle import Throttle
from agents.loop.waiting import Waiting
from agents.membership.clock_sync import ClockSync
from agents.membership.membership import Membership
from agents.membership.own_address import OwnAddress
from agents.membership.reporting import Reporting
from agents.membership.upkeep import Upkeep
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rules
from agents.queues.classifier import Backlogged, NewFlow
from agents.queues.host import Host
from agents.reflex.reflex import Reflex
from agents.reflex.slots import SlotReflex
from protocol import virtual_time
from protocol.auth import JUMP, Guard, Keys
from protocol.bodies.versions import Unspoken
from protocol.keyring import Authentication, KeyRing
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    KINDS,
    Cause,
    Directive,
    Error,
    ErrorCode,
    Message,
    Refused,
    Register,
    Welcome,
    decode,
    encode,
)
from protocol.timers import Mishaps
from protocol.wire import VERSION, Prover

log = logging.getLogger("baton.agent")

POLL_NS = 800_000
"""How long the agent polls for the answer to a BACKLOG. While an agent sleeps, its code and data leave the caches, and opening
the gate takes half as long again. Once for each destination that becomes backlogged, unless answers came later than that lately
(the coordinator is far, or other hosts have their turns): so it costs little of a processor."""
MOST_FRAMES, MOST_EVENTS = 32, 16
"""How many frames, and how many events of flows, one turn of the loop takes: a third of a millisecond, and some of them (a new
flow gets a queue). The rest waits for the next turn, so that no flood delays what has its time."""


class Agent:
    """One host's agent. Make it, `run` it, and the interface is as it was before when `run` returns."""

    def __init__(self, config: AgentConfig, keys: Keys | KeyRing[Any], host: Host) -> None:
        self.config = config
        self.link = host.link
        self.guard = Guard(keys, address=self.link.address)
        self.leader_mac = HEARTBEAT_MAC
        self.clock = Clock()
        self.rules = Rules(
            host, known=host.queues.destinations, on_freed=lambda destination: self.keeper.resume(destination)
        )
        self.keeper = Gatekeeper(
            self.rules,
            self.send,
            to_local=self.clock.local,
            to_coordinator=self.clock.coordinator,
            clock=time.monotonic_ns,
            link_bps=config.rate_bps,
            gated=host.queues.destinations,
        )
        self.throttle = Throttle(time.monotonic_ns)
        self.mishaps = Mishaps(log.error, lambda: self.guard.refuse(Cause.FAILED), (NetlinkError,))
        self.parts = Parts(time.monotonic_ns, self.mishaps)
        self.membership = Membership(
            config, host, self.keeper, self.rules, self.parts, self.send, self.guard.agree, self.guard.spoken
        )
        self._queues = host.queues
        self._flows = host.flows
        self._events: deque[Backlogged | NewFlow] = deque()
        """Those that were read and not handled yet."""
        self.sequence = time.time_ns()
        self.poll_until_ns = 0
        self._last_directive: tuple[bytes, Authentication] | None = None
        self._unspoken = Unspoken("this agent", "the controller", self.guard.spoken)
        self._stopping = False
        self._polls = not virtual_time.inside()
        self._delay = virtual_time.processing_delay(virtual_time.AGENT_DELAY)
        self._handlers: Mapping[type, Handler] = {
            **self.membership.handlers,
            Welcome: self._on_welcome,
            Directive: self._on_directive,
            Error: self._on_error,
        }
        self.add(ClockSync(self, self.link.arrived_ns))
        self.add(OwnAddress(self.link, self._move))
        self._reporting = Reporting(self, host, self.keeper, self.guard, self.throttle)
        self.add(self._reporting)
        self._upkeep = Upkeep(self, host, self.keeper, self.parts, self.guard, self.throttle)
        self.add(self._upkeep)

    def add(self, part: Part) -> None:
        """Joins a part to the loop, before `run`; it is closed with the agent."""
        self.parts.add(part)

    def close(self) -> None:
        """Closes every part; the caller closes the host."""
        self.parts.close()

    # -- the loop -------------------------------------------------------------------------------------------------------

    def run(self, reflex: Reflex | None = None, slots: SlotReflex | None = None) -> None:
        """Serves until `stop` is called, then leaves the fabric and puts the interface back.

        Args:
            reflex: waits in the agent's place while it has something to do; the caller closes it.
            slots: the same, as long as only slots are due.
        """
        link, events = self.link.fileno(), self._flows.fileno()
        descriptors = [link, events, *self.parts.descriptors]
        waiting = Waiting(descriptors, self.link.deferred_fileno(), reflex)
        if self.config.busy_poll or self._delay is not None:
            slots = None  # they are about turns of Python
        try:
            while not self._stopping:
                due_ns = self._next_ns()
                by_slots = slots is not None and due_ns > time.monotonic_ns() and slots.ready()
                if slots is not None and by_slots:
                    due_ns = min(self.parts.next_due_ns(), self.membership.next_due_ns(leader=False) or NEVER_NS)
                    readable = slots.wait(descriptors, due_ns)
                    due_ns = 0  # what is due is asked anew
                else:
                    readable = self._wait(waiting, due_ns)
                try:
                    if slots is not None and by_slots:
                        if (frame := slots.frame()) is not None:
                            self._receive(frame, time.monotonic_ns())
                        slots.check()
                    self._serve(link in readable, events in readable, readable, due_ns)
                    self.rules.reconcile()
                    self.mishaps.turn_done()
                except NetlinkError as error:
                    self.parts.touch()
                    self._upkeep.on_kernel_refusal(error, time.monotonic_ns())
                except Exception as error:
                    self.parts.touch()
                    self.mishaps.turn_failed("a turn of the loop", error, time.monotonic_ns())
        finally:
            waiting.close()
            self.membership.leave(time.monotonic_ns())

    def _wait(self, waiting: Waiting, due_ns: int) -> list[int]:
        if awaiting := time.monotonic_ns() < self.poll_until_ns:
            self._rehearse()
        polling = awaiting or (self._polls and self.config.busy_poll)
        # while it awaits an answer, one look, then the next rehearsal
        readable = waiting.until(0 if awaiting else due_ns, poll=polling, deferred=not self.member)
        if self._delay is not None:
            self._delay.sleep()
        return readable

    def _serve(self, link: bool, events: bool, readable: list[int], due_ns: int) -> None:
        """Handles the frames and events that came, and runs the timers that have expired."""
        now = time.monotonic_ns()
        if link:
            for _ in range(MOST_FRAMES):
                if (frame := self.link.receive()) is None:
                    break
                self._receive(frame, now)
                now = time.monotonic_ns()
        if due := now >= due_ns:
            self.keeper.advance(now)
            self.parts.advance(time.monotonic_ns())
        self.parts.serve(readable)  # after the timers: a PFC frame is about the flows that have the class by now
        if self.membership.heartbeats.due(now) or not self.member:
            self._hear(now)
        if events or self._events:
            self._flow_events(now)
        if due:
            self._keep_watch(time.monotonic_ns())

    def stop(self, *_: object) -> None:
        """Ends `run` soon; a signal handler."""
        self._stopping = True

    def _next_ns(self) -> int:
        if self._events:
            return 0
        due_ns = self.parts.next_due_ns()
        for other_ns in (self.keeper.next_due_ns(), self.membership.next_due_ns()):
            if other_ns is not None and other_ns < due_ns:
                due_ns = other_ns
        return due_ns

    def _keep_watch(self, now_ns: int) -> None:
        if self.membership.silent(now_ns):
            self._hear(now_ns)  # a heartbeat may still wait in the socket
        before = self.membership.state
        self.membership.advance(now_ns)
        if self.membership.state is not before:
            self._keep_to_version()

    @cached_property
    def unwanted(self) -> int:
        """The types of messages that nobody here handles, as a mask of bits; all parts have joined."""
        kinds = KINDS.items()
        return sum(1 << number for number, kind in kinds if kind not in self._handlers and not self.parts.handles(kind))

    @property
    def poll_ns(self) -> int:
        """How long to poll for the answer to a BACKLOG."""
        return POLL_NS if self._polls and self.keeper.counters.usual_answer_ns() < POLL_NS else 0

    # -- what parts may use: part.Surroundings --------------------------------------------------------------------------

    @property
    def nodes(self) -> Container[int]:
        return self.membership.nodes

    @property
    def member(self) -> bool:
        return self.membership.member

    @property
    def enforcing(self) -> bool:
        return self.keeper.enforcing

    def needs_permission(self, node: int) -> bool:
        return self.keeper.regulates(node)

    @property
    def idle(self) -> bool:
        return self.keeper.next_due_ns() is None

    def refuse(self, cause: Cause) -> None:
        self.guard.refuse(cause)

    def send(self, message: Message) -> None:
        self.link.send(self._sealed(message))
        newer = self.guard.ring.other
        if type(message) is Register and newer is not None and self.guard.ring.renews:
            self.link.send(self._sealed(message, newer.to_leader))  # the answer shows whether the leader takes that key

    def send_stamped(self, message: Callable[[int], Message]) -> None:
        self.link.send_stamped(lambda leaving_ns: self._sealed(message(leaving_ns)))

    # -- sending and receiving ------------------------------------------------------------------------------------------

    def _sealed(self, message: Message, key: Prover | None = None) -> bytes:
        self.sequence += 1
        guard = self.guard
        version = guard.heard if type(message) is Register else guard.speaks
        return encode(
            message, key=key or guard.authentications[version], destination=self.leader_mac, source=self.link.address,
            sender=self.membership.node, epoch=guard.epoch, sequence=self.sequence, version=version,
        )  # fmt: skip

    def _hear(self, now_ns: int) -> None:
        """Takes the newest of the waiting heartbeats that is the leader's; of its copies, that of the newest version."""
        earliest_ns = self.membership.heartbeats.looked(now_ns)
        waiting = self.link.deferred_frames()
        waiting.reverse()
        if len(waiting) > 1:
            waiting.sort(key=_version, reverse=True)
        for raw, came_ns in waiting:
            if self._receive(raw, now_ns, max(came_ns, earliest_ns)):
                return

    def _receive(self, raw: bytes, now_ns: int, came_ns: int | None = None) -> bool:
        """Handles a frame that came at `came_ns`, or now; returns whether it is the leader's."""
        known_epoch, known_version = self.guard.epoch, self.guard.heard
        frame = self.guard.accept(raw)
        if frame is None or frame.sender != COORDINATOR:
            if self.guard.foreign is not None:
                self._note_foreign(*self.guard.foreign, now_ns)
            return False
        self.leader_mac = frame.source
        if frame.epoch > known_epoch:
            self.membership.new_leader(frame.epoch, now_ns)
        if not self.membership.heartbeats.heard(frame, now_ns if came_ns is None else came_ns):
            return True
        if type(frame.message) is Directive:
            self._last_directive = raw, self.guard.authentications[frame.version]
        before = self.membership.state
        if (handler := self._handlers.get(type(frame.message))) is not None:
            try:
                handler(frame.message, now_ns)
            except Exception as error:
                self.mishaps.note(type(frame.message).__name__, error, now_ns)
        if self.membership.state is not before:
            self.parts.touch()
            self._keep_to_version()
        elif self.guard.agreed and self.guard.heard > known_version:
            self.membership.announce_anew(now_ns)  # the leader speaks a newer version than the one that we registered in
        self.parts.handle(frame.message, now_ns)
        return True

    def _keep_to_version(self) -> None:
        """A member keeps to the version that it has agreed on with its leader."""
        if self.member:
            self.guard.agree(self.membership.wire)
        else:
            self.guard.listen()

    def _move(self, now_ns: int) -> None:
        """Registers anew: the interface has another MAC address, at which the leader knows nobody."""
        self.guard.move(self.link.address)
        self.membership.unknown(now_ns)
        self._keep_to_version()

    def _note_foreign(self, version: int, source: bytes, now_ns: int) -> None:
        self.guard.foreign = None
        if line := self._unspoken.heard(version, source, now_ns):
            log.warning("%s", line)

    def _on_welcome(self, message: Welcome, now_ns: int) -> None:
        for way in self.guard.authentications.values():
            if way.heartbeats is not None:
                way.heartbeats.welcomed(message.place, message.value)
        self.membership.handlers[Welcome](message, now_ns)

    def _on_error(self, message: Error, now_ns: int) -> None:
        if message.code is not ErrorCode.SEQUENCE:
            self.membership.on_error(message, now_ns)
        elif not 0 <= self.sequence - message.sequence <= JUMP:
            log.warning("the leader refuses our sequence numbers; going on after %d", message.sequence)
            self.sequence = message.sequence
            self.membership.try_again(now_ns)

    # -- directives -----------------------------------------------------------------------------------------------------

    def _rehearse(self) -> None:
        """Handles the last directive again, without effect, while one is awaited: its code and data are in the caches then."""
        if self._last_directive:
            with suppress(Refused):  # the fabric's key has changed since
                decode(*self._last_directive)
            self.keeper.rehearse()

    def obeyed(self, frame: bytes) -> None:
        """Notes that the reflex for slots has obeyed a directive."""
        self._last_directive = frame, self.guard.authentications[frame[VERSION]]

    def _on_directive(self, message: Directive, now_ns: int) -> None:
        self.poll_until_ns = 0
        if not self.clock.synchronised:  # it names times of a clock that we do not know yet
            self.refuse(Cause.CLOCK)
            return
        self.keeper.directive(message, now_ns)

    # -- flows ----------------------------------------------------------------------------------------------------------

    def _flow_events(self, now_ns: int) -> None:
        events = self._events
        if not events:
            events.extend(self._flows.events())
        for _ in range(min(len(events), MOST_EVENTS)):
            event = events.popleft()
            try:
                self._flow_event(event, now_ns)
            except Exception as error:
                self.mishaps.note(type(event).__name__, error, now_ns)

    def _flow_event(self, event: Backlogged | NewFlow, now_ns: int) -> None:
        if isinstance(event, Backlogged):
            if not self.keeper.regulates(event.destination):
                self._reporting.woken(event.destination, now_ns)
                self.parts.touch()
                return
            if self.keeper.backlogged(event.destination, now_ns, urgent=event.urgent) and self.poll_ns:
                self.poll_until_ns = now_ns + self.poll_ns
        elif isinstance(event, NewFlow):
            node = event.destination
            if node and self._queues.ensure_flow(event.source, event.target, node, event.dscp):
                self.keeper.created(node, now_ns)
                self.rules.reapply(node)


def _version(waiting: tuple[bytes, int]) -> int:
    """The version of a frame that waited; not verified yet."""
    frame = waiting[0]
    return frame[VERSION] if len(frame) > VERSION else 0
