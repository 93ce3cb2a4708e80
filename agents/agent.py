"""The host agent: one loop over the control socket, the classifier's events and the timers. An edge.

Decisions are elsewhere: `lifecycle` (where it stands towards the coordinator), `gatekeeper` (which gate is open),
`clock` (what time it is there). This file receives, sends, and keeps the time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container
from contextlib import suppress

from agents.config import AgentConfig
from agents.kernel.netlink import NetlinkError
from agents.loop.clock import Clock
from agents.loop.pace import Pace
from agents.loop.part import Handler, Part
from agents.loop.parts import Parts
from agents.loop.waiting import Waiting
from agents.membership.clock_sync import Discipline
from agents.membership.hearing import Hearing
from agents.membership.lifecycle import Event, Lifecycle, State
from agents.membership.reporting import Reporting
from agents.membership.upkeep import Upkeep
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rules
from agents.queues.classifier import Backlogged, NewFlow
from agents.queues.host import Host
from agents.reflex.reflex import Reflex
from protocol.auth import Guard, Key
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Cause,
    Directive,
    Directory,
    DirectoryRequest,
    Error,
    ErrorCode,
    Gates,
    Heartbeat,
    Leave,
    Message,
    Override,
    Register,
    Regulate,
    Welcome,
    decode,
    encode,
)
from protocol.paging import Reassembler
from protocol.units import MILLISECOND_NS

log = logging.getLogger("baton.agent")

VERSION = "0.1.0"
REGISTER_RETRY_NS = 50_000_000
ASK_AGAIN_NS = 20_000_000
OPENING_NS = 5_000_000
"""What waking up and opening every gate may take: begun so long before `fail_open` is over."""
POLL_NS = 800_000
"""How long the answer to a BACKLOG is polled for: while an agent sleeps its code and data leave the caches, and opening the
gate takes half as long again. Once for each destination that becomes backlogged, so it costs little of a processor."""


class Agent:
    """One host's agent. Make it, `run` it, and the interface is as it was before when `run` returns."""

    def __init__(self, config: AgentConfig, key: Key, host: Host) -> None:
        self.config = config
        self.link = host.link
        self.queues = host.queues
        self.flows = host.flows
        self.guard = Guard(key, address=self.link.address)
        self.lifecycle = Lifecycle()
        self.clock = Clock()
        self.rules = Rules(host, known=host.queues.destinations)
        self.keeper = Gatekeeper(
            self.rules,
            self.send,
            to_local=self.clock.local,
            to_coordinator=self.clock.coordinator,
            clock=time.monotonic_ns,
            link_bps=config.rate_bps,
        )
        self.rules.on_freed = self.keeper.resume
        self.reflex: Reflex | None = None
        self.node = 0
        self.leader_mac = HEARTBEAT_MAC
        self.override = Override.COORDINATE
        self.nodes: Container[int] = frozenset()
        self.fail_open_ns = 50 * MILLISECOND_NS
        self.addresses = set(config.addresses)
        self._sequence = time.time_ns()
        self._nonce = time.time_ns()
        self.hearing = Hearing()
        self._directory: Reassembler[Directory] = Reassembler()
        self._directory_version = -1
        self._regulate: Reassembler[Regulate] = Reassembler()
        self._asked_ns = 0
        self._poll_until_ns = 0
        self._last_directive: tuple[bytes, Key] | None = None
        self._register_ns = 0
        self._stopping = False
        self.pace = Pace(time.monotonic_ns)
        self.parts = Parts(time.monotonic_ns)
        self._handlers: dict[type, Handler] = {
            Heartbeat: self._on_heartbeat,
            Welcome: self._on_welcome,
            Directory: self._on_directory,
            Regulate: self._on_regulate,
            Directive: self._on_directive,
            Error: self._on_error,
        }
        self.add(Discipline(self, self.link.arrived_ns))
        self.add(Reporting(self))
        self.upkeep = Upkeep(self)
        self.add(self.upkeep)

    def add(self, part: Part) -> None:
        """Joins a part to the loop, before `run`; it is closed with the agent."""
        self.parts.add(part)

    def close(self) -> None:
        """Closes every part; the host is its maker's to close."""
        self.parts.close()

    # -- the loop -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until `stop` is called, then leaves the fabric and puts the interface back."""
        link, events = self.link.fileno(), self.flows.fileno()
        waiting = Waiting([link, events, *self.parts.descriptors], self.link.patient_fileno(), self.reflex)
        try:
            while not self._stopping:
                due_ns = self._next_ns()
                if awaiting := time.monotonic_ns() < self._poll_until_ns:
                    self._rehearse()
                polling = awaiting or self.config.busy_poll
                # while it awaits, one look, then the next rehearsal
                readable = waiting.until(0 if awaiting else due_ns, poll=polling, patient=not self.member)
                try:
                    self._serve(link in readable, events in readable, readable, due_ns)
                    self.rules.settle()
                except NetlinkError as error:
                    self.parts.touch()
                    self.upkeep.failed(error, time.monotonic_ns())
        finally:
            waiting.close()
            self._leave()

    def _serve(self, link: bool, events: bool, readable: list[int], due_ns: int) -> None:
        """Takes what came, and does what is due."""
        now = time.monotonic_ns()
        if link:
            while (frame := self.link.receive()) is not None:
                self._receive(frame, now)
                now = time.monotonic_ns()
        if due := now >= due_ns:
            self.keeper.advance(now)
            self.parts.advance(time.monotonic_ns())
        self.parts.serve(readable)  # after what is due: a PFC frame that opens a class means whose class it is by now
        if self.hearing.due(now) or not self.member:
            self._hear(now)
        if events:
            self._flow_events(now)
        if due:
            self._keep_watch(time.monotonic_ns())

    def stop(self, *_: object) -> None:
        """Ends `run` soon; a signal handler."""
        self._stopping = True

    def _next_ns(self) -> int:
        times = [self.parts.next_due_ns()]
        if (due := self.keeper.next_due_ns()) is not None:
            times.append(due)
        if self.lifecycle.state in (State.MEMBER, State.REGISTERING):
            times += [self.hearing.heard_ns + self.fail_open_ns, self.hearing.latest_ns()]
        if self.lifecycle.state is State.REGISTERING:
            times.append(self._register_ns)
        return min(times)

    def _keep_watch(self, now_ns: int) -> None:
        watched = self.lifecycle.state in (State.MEMBER, State.REGISTERING)
        if watched and now_ns - self.hearing.heard_ns >= self.fail_open_ns:
            self._hear(now_ns)
            if now_ns - self.hearing.heard_ns >= self.fail_open_ns:
                self._silence(now_ns)
        if now_ns >= self._register_ns:
            self._register(now_ns)

    # -- sending and receiving ------------------------------------------------------------------------------------------

    @property
    def member(self) -> bool:
        """See part.Surroundings."""
        return self.lifecycle.state is State.MEMBER

    @property
    def obeying(self) -> bool:
        """See part.Surroundings."""
        return self.keeper.obeying

    @property
    def idle(self) -> bool:
        """See part.Surroundings."""
        return self.keeper.next_due_ns() is None

    def refuse(self, cause: Cause) -> None:
        """See part.Surroundings."""
        self.guard.refuse(cause)

    def send(self, message: Message) -> None:
        """Sends to the leader."""
        self.link.send(self._sealed(message))

    def send_stamped(self, message: Callable[[int], Message]) -> None:
        """See part.Surroundings."""
        self.link.send_stamped(lambda leaving_ns: self._sealed(message(leaving_ns)))

    def _sealed(self, message: Message) -> bytes:
        self._sequence += 1
        return encode(
            message, key=self.guard.ring.sending, destination=self.leader_mac, source=self.link.address,
            sender=self.node, epoch=self.guard.epoch, sequence=self._sequence,
        )  # fmt: skip

    def _hear(self, now_ns: int) -> None:
        """Takes the newest heartbeat that is the leader's."""
        longest_ns = self.hearing.looked(now_ns)
        for raw, age_ns in reversed(self.link.patient()):
            if self._receive(raw, now_ns, min(age_ns, longest_ns)):
                return

    def _receive(self, raw: bytes, now_ns: int, age_ns: int = 0) -> bool:
        """Takes a frame that came `age_ns` ago; whether it is the leader's."""
        known_epoch = self.guard.epoch
        frame = self.guard.accept(raw)
        if frame is None or frame.sender != COORDINATOR:
            return False
        self.leader_mac = frame.source
        if frame.epoch > known_epoch:
            self._new_leader(frame.epoch, now_ns)
        if not self.hearing.heard(frame, now_ns - age_ns):
            return True
        if type(frame.message) is Directive:
            self._last_directive = raw, self.guard.ring.sending
        before = self.lifecycle.state
        if (handler := self._handlers.get(type(frame.message))) is not None:
            handler(frame.message, now_ns)
        if self.lifecycle.state is not before:
            self.parts.touch()
        self.parts.handle(frame.message, now_ns)
        return True

    # -- membership -----------------------------------------------------------------------------------------------------

    def _new_leader(self, epoch: int, now_ns: int) -> None:
        log.info("leader with epoch %d heard", epoch)
        self._nonce += 1
        self.hearing.new_leader()
        self._directory.clear()
        self._regulate.clear()
        self._directory_version = -1
        before = self.lifecycle.state
        self.lifecycle.on(Event.NEW_LEADER)
        self._release(now_ns)
        self.parts.new_leader(now_ns)
        self.keeper.regulate(frozenset(), now_ns)  # the new leader says anew who needs permission
        if before is not State.REGISTERING:  # else the next try is due anyway
            self._register(now_ns)

    def _register(self, now_ns: int) -> None:
        if self.lifecycle.state is not State.REGISTERING:
            return
        self._register_ns = now_ns + REGISTER_RETRY_NS
        self._announce()

    def _announce(self) -> None:
        # The same nonce in every try: on a crowded fabric the answer to one may come after the next was sent.
        self.send(
            Register(
                self.config.name,
                self._nonce,
                self.config.rate_bps,
                tuple(sorted(self.addresses, key=lambda a: (a.version, int(a)))),
                Gates[self.queues.gate.upper()],
                VERSION,
            )
        )

    def _on_heartbeat(self, message: Heartbeat, now_ns: int) -> None:
        before = self.lifecycle.state
        changed = self.lifecycle.on(Event.HEARTBEAT)
        if changed and self.lifecycle.state is State.REGISTERING:
            self._register(now_ns)
        if self.lifecycle.state is not State.MEMBER:
            return
        if message.override is not self.override or before is State.FAIL_OPEN:
            self.override = message.override
            self._apply_override(now_ns)
        if message.directory_version != self._directory_version and now_ns - self._asked_ns > ASK_AGAIN_NS:
            self._asked_ns = now_ns
            self.send(DirectoryRequest(max(0, self._directory_version)))

    def _apply_override(self, now_ns: int) -> None:
        if self.override is Override.FREE:
            log.info("override: every gate is open")
            self._release(now_ns)
        else:
            self.keeper.obey(now_ns)

    def _on_welcome(self, message: Welcome, now_ns: int) -> None:
        if message.nonce != self._nonce or self.lifecycle.state is State.LISTENING:
            return
        first = message.node != self.node or self.lifecycle.state is not State.MEMBER
        self.node = message.node
        self.fail_open_ns = max(message.fail_open_ns // 2, message.fail_open_ns - OPENING_NS)
        self.keeper.hysteresis_ns = message.yield_hysteresis_ns
        self.flows.set_mice(message.mice_bytes, message.mice_rate_bps)
        self.lifecycle.on(Event.WELCOME)
        if first:
            log.info("member %d of epoch %d", self.node, self.guard.epoch)
            self.send(DirectoryRequest(0))
            self._apply_override(now_ns)

    def _on_error(self, message: Error, now_ns: int) -> None:
        log.warning("the coordinator says: %s (%s)", message.text, message.code.name)
        if message.code is ErrorCode.UNKNOWN_SENDER and self.lifecycle.on(Event.UNKNOWN):
            self._release(now_ns)
            self._register(now_ns)

    def _silence(self, now_ns: int) -> None:
        member = self.lifecycle.state is State.MEMBER
        self.lifecycle.on(Event.SILENCE)
        if member:
            self._release(now_ns)
            log.warning("nothing heard from the leader: every gate is open")

    def _release(self, now_ns: int) -> None:
        self.keeper.release()
        self.rules.release()
        self.parts.released(now_ns)

    def _leave(self) -> None:
        self.lifecycle.on(Event.STOP)
        with suppress(NetlinkError):  # what is gone holds nothing shut
            self._release(time.monotonic_ns())
        if self.node:
            self.send(Leave("stopped"))

    # -- the fabric's directory, regulation, directives -----------------------------------------------------------------

    def _on_directory(self, message: Directory, _: int) -> None:
        pages = self._directory.add(message)
        if pages is None:
            return
        entries = {node: addresses for page in pages for node, addresses in page.entries if node != self.node}
        self.flows.set_directory(entries)
        self.nodes = frozenset(entries)
        self._directory_version = message.version

    def _on_regulate(self, message: Regulate, now_ns: int) -> None:
        pages = self._regulate.add(message)
        if pages is None:
            return
        self.keeper.regulate(frozenset(d for page in pages for d in page.destinations), now_ns)

    def _rehearse(self) -> None:
        """Goes the way of a directive, to no effect, while one is awaited: its code and data are in the caches then."""
        if self._last_directive:
            decode(*self._last_directive)
            self.keeper.rehearse()

    def _on_directive(self, message: Directive, now_ns: int) -> None:
        self._poll_until_ns = 0
        self.keeper.directive(message, now_ns)

    # -- flows ----------------------------------------------------------------------------------------------------------

    def _flow_events(self, now_ns: int) -> None:
        for event in self.flows.events():
            if isinstance(event, Backlogged):
                if self.keeper.backlogged(event.destination, now_ns, urgent=event.urgent):
                    self._poll_until_ns = now_ns + POLL_NS
            elif isinstance(event, NewFlow):
                if event.source not in self.addresses and self.lifecycle.state is State.MEMBER:
                    self.addresses.add(event.source)
                    self._announce()
                node = event.destination
                if node and self.queues.ensure_flow(event.source, event.target, node, event.dscp):
                    self.keeper.created(node, now_ns)
                    self.rules.enforce(node)
