"""Who may be believed: replay windows, and the guard that every received frame passes. Pure.

The rules are in PROTOCOL.md, "Epochs and replays"; the window is that of RFC 4303 section 3.4.3, over 64-bit
numbers. `Key` is at home in `key`.
"""

from __future__ import annotations

from collections import Counter

from protocol.key import Key, KeyFileError
from protocol.keyring import KeyRing
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Cause, Frame, Refused, decode

__all__ = ["Guard", "Key", "KeyFileError", "KeyRing", "ReplayWindow"]

WINDOW = 64
Identity = tuple[int, bytes, bool]
"""Whose sequence numbers: the sender, its address, and whether they were sent to all (these may be read much later)."""
_ALL_SEEN = (1 << WINDOW) - 1


class ReplayWindow:
    """The sequence numbers seen of one sender: the highest, and which of the 63 below it."""

    __slots__ = ("_seen", "highest")

    def __init__(self, highest: int = -1) -> None:
        """`highest`: this number and all below it count as seen."""
        self.highest = highest
        self._seen = _ALL_SEEN

    def accept(self, sequence: int) -> bool:
        """Whether the number is new; it is seen from now on. Numbers older than the window are never new."""
        ahead = sequence - self.highest
        if ahead > 0:
            # A long way ahead all numbers in the window are new: they lie above all that was ever seen.
            self._seen = (self._seen << ahead | 1) & _ALL_SEEN if ahead < WINDOW else 1
            self.highest = sequence
            return True
        bit = 1 << -ahead if ahead > -WINDOW else 0
        if not bit or self._seen & bit:
            return False
        self._seen |= bit
        return True


class Guard:
    """Takes frames that are authentic, of this epoch, new, from whom we listen to and meant for us; counts
    the rest by cause.

    A member's guard hears the leader only and follows it to a higher epoch. A leader's guard hears members
    only, of exactly its own epoch. Sequence numbers are remembered for each (sender, source address), in
    bounded memory: of the least recently begun `senders` only the highest number is kept, and of the oldest
    of these only the highest of all. So whoever is forgotten, nothing once accepted is accepted again in that
    epoch.

    While the fabric changes its key, `ring` holds two: a frame that the first did not make is tried with the other. A member's
    guard then follows the leader: what it took last tells which key to send with.
    """

    def __init__(
        self,
        key: Key | KeyRing,
        *,
        epoch: int = 0,
        leader: bool = False,
        address: bytes | None = None,
        senders: int = 4096,
        remembered: int = 65536,
    ) -> None:
        """`address`: our MAC address, to refuse what is addressed to others; None: the caller does that."""
        self.epoch = epoch
        self.leader = leader
        self.highest_epoch = epoch
        """The highest in any authentic frame, accepted or not: above a leader's own, another leads."""
        self.accepted = 0
        self.refused: Counter[Cause] = Counter()
        self.ring = key if isinstance(key, KeyRing) else KeyRing(key)
        self._address = address
        self._senders = senders
        self._remembered = remembered
        self._windows: dict[Identity, ReplayWindow] = {}
        self._highest: dict[Identity, int] = {}
        self._floor = -1

    def accept(self, frame: bytes) -> Frame | None:
        """The frame's content, or None: refused and counted."""
        swapped = False
        try:
            content = decode(frame, self.ring.sending)
        except Refused as refusal:
            other = self.ring.other
            if other is None or refusal.cause is not Cause.TAG:
                self.refused[refusal.cause] += 1
                return None
            try:
                content, swapped = decode(frame, other), True
            except Refused as second:
                self.refused[second.cause] += 1
                return None
        cause = self._doubt(content)
        if cause is not None:
            self.refused[cause] += 1
            return None
        if swapped and not self.leader:
            self.ring.swap()
        self.accepted += 1
        return content

    def _doubt(self, content: Frame) -> Cause | None:
        destination, source, sender, epoch, sequence, _ = content
        if destination != self._address and self._address is not None and destination != HEARTBEAT_MAC:
            return Cause.NOT_OURS
        self.highest_epoch = max(self.highest_epoch, epoch)
        if epoch < self.epoch:
            return Cause.OLD_EPOCH
        if self.leader:
            if epoch > self.epoch:
                return Cause.FUTURE_EPOCH
            if sender == COORDINATOR:
                return Cause.NOT_LEADER
        elif sender != COORDINATOR:
            return Cause.NOT_LEADER
        elif epoch > self.epoch:
            self.adopt(epoch)
        identity = sender, source, destination == HEARTBEAT_MAC
        window = self._windows.get(identity) or self._begin(identity)
        return None if window.accept(sequence) else Cause.REPLAY

    def newest(self, source: bytes) -> int:
        """The highest sequence number of what the leader at this address has sent to us alone; -1: nothing yet."""
        window = self._windows.get((COORDINATOR, source, False))
        return -1 if window is None else window.highest

    def refuse(self, cause: Cause) -> None:
        """Counts a refusal; also for what only the caller can see (UNKNOWN_SENDER, CLOCK)."""
        self.refused[cause] += 1

    def adopt(self, epoch: int) -> None:
        """Takes an epoch: lower ones are refused from now on, so their sequence numbers can be forgotten.

        Raises ValueError: lower than the present epoch.
        """
        if epoch < self.epoch:
            raise ValueError(f"epoch: {epoch} must not be less than {self.epoch}; epochs only grow")
        if epoch > self.epoch:
            self.epoch = epoch
            self._windows.clear()
            self._highest.clear()
            self._floor = -1

    def forget(self, sender: int) -> None:
        """Frees the windows of a node that left; what it sent stays refused."""
        for identity in [identity for identity in self._windows if identity[0] == sender]:
            self._end(identity)

    def _begin(self, identity: Identity) -> ReplayWindow:
        if len(self._windows) >= self._senders:
            self._end(next(iter(self._windows)))
        window = self._windows[identity] = ReplayWindow(self._highest.pop(identity, self._floor))
        return window

    def _end(self, identity: Identity) -> None:
        highest = self._windows.pop(identity).highest
        if len(self._highest) >= self._remembered:
            self._floor = max(self._floor, self._highest.pop(next(iter(self._highest))))
        self._highest[identity] = highest
