"""What the leader says: frames to one member or to all, each in the version, under the key and with the number that its
receiver expects. An edge: the control socket, the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from controller.election.leadership import Leadership
from controller.frames.exchange import Exchange
from controller.members.host_keys import HostKeys
from controller.members.registry import Member, Members
from controller.members.wire_versions import WireVersions
from protocol.auth import Guard
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keys.hosts import Speaker
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Error, ErrorCode, Kind, Message, Pong, pack_body
from protocol.units import MILLISECOND_NS
from protocol.wire import seal

CORRECTION_NS = MILLISECOND_NS
"""At most so often a host hears that its sequence numbers are refused: replayed frames are refused for theirs, too."""


class Outgoing:
    """The frames that leave under one leader epoch. None leaves without the lease.

    Args:
        guard: has the ways to authenticate, and says whose frame is handled.
        exchange: the frames of the loop of slots, which share the leader's numbers; None: there is no such loop.
        sequence: the number before the first one, where there is no exchange.
        own_keys: whether each host has keys of its own.
    """

    def __init__(
        self, link: ControlSocket, guard: Guard, leadership: Leadership, members: Members, keys: HostKeys,
        versions: WireVersions, exchange: Exchange | None, sequence: int, *, own_keys: bool,
    ) -> None:  # fmt: skip
        self.answering = NEWEST
        """The version of the frame that is handled: hosts that are not members get their answers in it."""
        self._link = link
        self._guard = guard
        self._leadership = leadership
        self._members = members
        self._keys = keys
        self._versions = versions
        self._exchange = exchange
        self._sequence = sequence
        self._own_keys = own_keys
        self._corrected_ns = 0
        self._answered: tuple[bytes, Speaker] | None = None
        """Who sent that frame, and its source address, if the host is no member: it gets its answers under its own key."""
        self._in_order: AbstractContextManager[None] = nullcontext() if exchange is None else exchange.lock
        """Held from when a frame gets its number until it is sent: hosts refuse what is 64 numbers late."""

    def send(self, message: Message, to: bytes) -> None:
        """Sends a message to the host at this address, or to all (HEARTBEAT_MAC), while the lease holds and a key is known."""
        if to == HEARTBEAT_MAC:
            versions = self._versions.to_all(message, time.monotonic_ns())
        else:
            member = self._members.at(to)
            versions = (self.answering if member is None else member.wire,)
        for version in versions:
            if self._leadership.may_speak() and self._knows(to, version):
                kind, body = pack_body(message, version)
                # What goes to all has numbers of its own at its receivers, and the loop of slots sends none of it.
                with nullcontext() if to == HEARTBEAT_MAC else self._in_order:
                    self._link.send(self._sealed(kind, body, to, version))

    def pong(self, member: Member, sent_ns: int, arrived_ns: int) -> None:
        """Answers a PING that the member sent at this time of its clock, and that arrived at this time of ours."""
        if self._leadership.may_speak() and self._knows(member.mac, member.wire):
            with self._in_order:
                self._link.send_stamped(
                    lambda leaving_ns: self._sealed(
                        *pack_body(Pong(sent_ns, arrived_ns, leaving_ns), member.wire), member.mac, member.wire
                    )
                )

    def correct(self, astray: bytes, highest: int, version: int, now_ns: int) -> None:
        """Tells a host from which number on its frames count: another one has used higher ones in its name."""
        if now_ns - self._corrected_ns >= CORRECTION_NS:
            self._corrected_ns, self.answering = now_ns, version
            with self.answers(astray):
                self.send(Error(ErrorCode.SEQUENCE, highest, "go on after this sequence number"), astray)

    @contextmanager
    def answers(self, source: bytes) -> Iterator[None]:
        """What is sent to this address meanwhile answers the last frame, and goes out under the key of its sender."""
        speaker = self._guard.speaker
        self._answered = None if speaker is None else (source, speaker)
        try:
            yield
        finally:
            self._answered = None

    def key_for(self, mac: bytes) -> Key | None:
        """The key of the host at this address: that of the frame that is answered, or of the member there."""
        if self._answered is not None and self._answered[0] == mac:
            return self._answered[1].credentials.from_leader
        return self._keys.sending_to(mac)

    def _knows(self, to: bytes, version: int) -> bool:
        """Whether there is a key for frames to this address."""
        return version < NEWEST or to == HEARTBEAT_MAC or not self._own_keys or self.key_for(to) is not None

    def _sealed(self, kind: int, body: bytes, to: bytes, version: int) -> bytes:
        way, sequence = self._guard.authentications[version], None
        if kind == Kind.HEARTBEAT:
            sequence = way.place()
        if sequence is None:
            sequence = self._next_sequence()
        return seal(
            kind, body, key=way, destination=to, source=self._link.address,
            sender=COORDINATOR, epoch=self._guard.epoch, sequence=sequence, version=version,
        )  # fmt: skip

    def _next_sequence(self) -> int:
        if self._exchange is not None:
            return self._exchange.next_sequence()
        self._sequence += 1
        return self._sequence
