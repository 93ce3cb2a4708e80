"""What a leader hears, frame by frame: whose it is, whether it counts, and which part handles it. Sends only through what it is
given.

The guard judges a frame by its tag and its number, and here it is judged by who is a member. A refused frame may still tell
something: that another controller leads, or that a host's numbers are behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from controller.coordinator.outgoing import Outgoing
from controller.coordinator.repeats import Repeats
from controller.election.leadership import Leadership
from controller.frames.exchange import Exchange
from controller.members.admission import Admission
from controller.members.membership import Membership
from controller.members.registry import Member, Members
from controller.members.wire_versions import WireVersions
from protocol.auth import Guard
from protocol.keys.hosts import Speaker
from protocol.messages import Ack, Backlog, Cause, Error, ErrorCode, Frame, Message, Ping, Register, Yield
from protocol.timers import Mishaps
from protocol.wire import SENDER

BATCHED = frozenset((Backlog, Yield, Ack, Ping))
"""What the library takes of members that it was told of."""


class Reception:
    """Gives messages of members to their handlers, and registers hosts.

    Args:
        address: the leader's own, which a twin of it is told.
        exchange: takes members' frames itself once it knows them; None: all frames come here.
        trusts: whether a node's backlogs are believed: only then the exchange takes its frames.
        handlers: by message's class; called with the member, the message and the time (ns).
    """

    def __init__(
        self,
        guard: Guard,
        address: bytes,
        leadership: Leadership,
        outgoing: Outgoing,
        members: Members,
        membership: Membership,
        admission: Admission,
        versions: WireVersions,
        repeats: Repeats,
        mishaps: Mishaps,
        exchange: Exchange | None,
        trusts: Callable[[int], bool],
        handlers: Mapping[type, Callable[..., None]],
    ) -> None:
        self._guard = guard
        self._address = address
        self._leadership = leadership
        self._outgoing = outgoing
        self._members = members
        self._membership = membership
        self._admission = admission
        self._versions = versions
        self._repeats = repeats
        self._mishaps = mishaps
        self._exchange = exchange
        self._trusts = trusts
        self._handlers = handlers
        self.looped = False
        """Whether frames come from the loop of slots, which goes on taking others while they wait."""

    def receive(self, raw: bytes, now_ns: int, proven: bool = False) -> None:
        """Handles a frame. `proven`: the library of frames has found it to be authentic, and new."""
        known = self._exchange.speaker(int.from_bytes(raw[SENDER])) if proven and self._exchange is not None else None
        frame = self._guard.accept(raw) if known is None else self._guard.accept_proven(raw, known)
        if frame is None:
            self._learn_from_refused(now_ns)
            return
        message, speaker, self._outgoing.answering = frame.message, self._guard.speaker, frame.version
        if isinstance(message, Register):
            with self._mishaps.surviving("Register", now_ns), self._outgoing.answers(frame.source):
                self._register(message, frame, now_ns)
                self._repeats.answered(raw, time.time_ns())
            return
        member = self._members.get(frame.sender)
        named = known is not None or speaker is None or (member is not None and speaker.name == member.name)
        if member is None or member.mac != frame.source or not named:
            self._guard.refuse(Cause.UNKNOWN_SENDER)
            with self._outgoing.answers(frame.source):
                self._outgoing.send(Error(ErrorCode.UNKNOWN_SENDER, frame.sequence, "register first"), frame.source)
            return
        if frame.version != member.wire:
            self._guard.refuse(Cause.VERSION)
            return
        member.figures.last_heard_ns = now_ns
        if speaker is not None and type(message) in BATCHED:
            self._learn(member, speaker)
        if type(message) is Backlog:
            since = self._heard_since(member.node, frame.sequence)
            if since is None:
                return
            if since:
                message = replace(message, entries=(*message.entries, *((to, size, 0) for to, size in since.items())))
        self._handle(member, message, now_ns)

    def _handle(self, member: Member, message: Message, now_ns: int) -> None:
        if (handler := self._handlers.get(type(message))) is not None:
            try:
                handler(member, message, now_ns)
            except Exception as error:
                self._mishaps.note(type(message).__name__, error, now_ns)

    # -- members ------------------------------------------------------------------------------------------------------

    def _register(self, message: Register, frame: Frame, now_ns: int) -> None:
        speaker = self._guard.speaker
        if speaker is not None and (problem := self._admission.refusal(speaker, message.name, frame.source, now_ns)):
            self._guard.refuse(Cause.UNKNOWN_SENDER)
            self._outgoing.send(Error(ErrorCode.REFUSED, frame.sequence, problem), frame.source)
        elif not self._membership.register(message, frame.source, now_ns):
            self._guard.refuse(Cause.VERSION)
        elif speaker is not None and (member := self._members.at(frame.source)) is not None:
            self._learn(member, speaker)

    def _learn(self, member: Member, speaker: Speaker) -> None:
        """Has the library take this member's frames from now on."""
        if self._exchange is not None and self._trusts(member.node):
            self._exchange.learn(member, speaker)

    def _heard_since(self, node: int, sequence: int) -> dict[int, int] | None:
        """What the loop of slots has heard of single destinations of this host while this BACKLOG waited for Python: the bytes
        that wait. None: it has heard all that waits."""
        return self._exchange.heard_since(node, sequence) if self._exchange is not None and self.looped else {}

    # -- refused frames -----------------------------------------------------------------------------------------------

    def _learn_from_refused(self, now_ns: int) -> None:
        """Follows up what the guard noticed about the frame that it has refused."""
        guard, leadership = self._guard, self._leadership
        if guard.highest_epoch > guard.epoch:
            leadership.heard(guard.highest_epoch, now_ns)
        if guard.twin is not None:
            leadership.twin(guard.twin, self._address, now_ns)
            guard.twin = None
        if (astray := guard.astray) is not None:
            guard.astray = None
            self._outgoing.correct(*astray, now_ns)
        if guard.foreign is not None:
            self._versions.heard(*guard.foreign, now_ns)
            guard.foreign = None
