"""Which members' frames the library takes, and what it may send: the keys, the guard and the lease decide. An edge: the socket.

The library is told of a member when the guard has accepted one of its frames, and forgets it as soon as anything changes by
which its frames are judged: it left, registered, its keys changed, or its backlogs are not believed. Its next frame then goes
through the guard again.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from controller.election.leadership import Leadership
from controller.frames.frames import Batch, Frames, LentWindow, Rows
from controller.members.host_keys import HostKeys
from controller.members.part import Part
from controller.members.registry import Figures, Member, Members
from protocol.auth import Guard, ReplayWindow
from protocol.keys.hosts import Speaker
from protocol.link import ControlSocket

FIGURES = Figures.__slots__


class _Known(NamedTuple):
    """A member whose frames the library takes, and as whom it speaks."""

    member: Member
    speaker: Speaker


class Exchange(Part):
    """The frames of one term. See `controller.scheduling.directing.Exchange` for what the schedule asks of it."""

    def __init__(
        self, frames: Frames, guard: Guard, link: ControlSocket, leadership: Leadership, members: Members, keys: HostKeys
    ) -> None:
        self.book = frames.book
        self.frames = self._frames = frames
        self.lock = frames.lock
        self._guard = guard
        self._leadership = leadership
        self._members = members
        self._keys = keys
        self._known: dict[int, _Known] = {}
        self._former: dict[int, Speaker] = {}
        """Of members that were forgotten: as whom they spoke. What the library has proven before may still wait for Python."""
        self.descriptors = link.fileno(), link.deferred_fileno()
        """Of the main socket, and of that of the deferred frames."""
        link.stamp()
        keys.changed = self._forget_at

    def take(self, box: int, now_ns: int) -> Batch | None:
        """The next batch of the socket `box` (MAIN or DEFERRED); None: nothing has come."""
        self.extend()
        batch = self._frames.take(self.descriptors[box], box, now_ns)
        if batch is not None:
            self._leadership.withheld += self._frames.withheld
            self._guard.accepted += batch.accepted
        return batch

    def direct(self, revoked: Rows, granted: Rows, watched: int, now_ns: int) -> list[int]:
        """Sends directives while the lease holds. Returns the rows of members that the library does not know."""
        with self.lock:
            self.extend()
            others = self._frames.direct(self.descriptors[0], revoked, granted, watched=watched, now_ns=now_ns)
            self._leadership.withheld += self._frames.withheld
        return others

    def extend(self) -> None:
        """Lets frames be sent for as long as the lease lasts."""
        self._frames.terms.until_ns = self._leadership.until_ns()

    def set_terms(self, grace_ns: int, late_ns: int) -> None:
        """How much longer a lease lasts than its slot; and how long after its start one that opens is late."""
        with self.lock:
            self._frames.terms.grace_ns, self._frames.terms.late_ns = grace_ns, late_ns

    def next_sequence(self) -> int:
        """The number of the leader's next frame."""
        return self._frames.next_sequence()

    # -- whose frames are taken ---------------------------------------------------------------------------------------

    def learn(self, member: Member, speaker: Speaker) -> None:
        """Has a member's frames taken from now on: the guard has accepted one of this speaker."""
        known = self._known.get(member.node)
        if known is None or known.speaker is not speaker:
            with self.lock:
                self._learn(member, speaker)

    def _learn(self, member: Member, speaker: Speaker) -> None:
        node = member.node
        self.forget(node)
        window, sending = self._guard.window(speaker), self._keys.sending_to(member.mac)
        if window is None or sending is None or isinstance(window, LentWindow):
            return
        peer = self._frames.know(node, member.mac, speaker, sending, window)
        for name in FIGURES:
            setattr(peer, name, getattr(member.figures, name))
        member.figures = cast(Figures, peer)  # the same fields
        self._known[node] = _Known(member, speaker)
        self._guard.replace_window(speaker, LentWindow(peer, self.lock, lambda: self.forget(node)))

    def speaker(self, node: int) -> Speaker | None:
        """Whose frames the library takes as this member's, or took last; None: it took none."""
        known = self._known.get(node)
        return self._former.get(node) if known is None else known.speaker

    def heard_since(self, node: int, sequence: int) -> dict[int, int] | None:
        """The bytes that wait at this node by what YIELDs later than the frame of this number said, by destination. None: the
        library has taken a later BACKLOG, or more YIELDs than it keeps."""
        if (peer := self._frames.knows(node)) is None:
            return {}
        with self.lock:
            if max(peer.backlog_sequence, peer.dropped_sequence) > sequence:
                return None
            later = sorted((word.sequence, word.destination, word.bytes) for word in peer.words if word.sequence > sequence)
        return {destination: size for _, destination, size in later}

    def has_later(self, node: int, then_ns: int) -> bool:
        """Whether the library has taken a BACKLOG of this node in a later batch than that of this time."""
        peer = self._frames.knows(node)
        return peer is not None and peer.backlog_ns > then_ns

    def forget(self, node: int) -> None:
        """Has all frames of this node judged by the guard."""
        if (known := self._known.pop(node, None)) is None:
            return
        self._former[node] = known.speaker
        with self.lock:
            self._frames.forget(node)
            peer = known.member.figures
            known.member.figures = Figures(*(getattr(peer, name) for name in FIGURES))
            if isinstance(lent := self._guard.window(known.speaker), LentWindow):
                self._guard.replace_window(known.speaker, ReplayWindow(lent.highest, lent.seen))

    def _forget_at(self, mac: bytes) -> None:
        if (member := self._members.at(mac)) is not None:
            self.forget(member.node)

    def joined(self, node: int) -> None:
        self.forget(node)
        self._frames.joined(node)

    def left(self, node: int, now_ns: int) -> None:
        with self.lock:
            self.forget(node)
            self._frames.left(node)
        self._former.pop(node, None)
