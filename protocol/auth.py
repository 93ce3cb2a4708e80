"""Decides which received frames to accept: replay windows, and the guard that checks every frame. Pure.

The rules are in PROTOCOL.md, "Epochs and replays"; the window is that of RFC 4303 section 3.4.3, over 64-bit numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from protocol.bodies.versions import NEWEST, SPOKEN, Versions
from protocol.key import TAG_BYTES, Key, KeyFileError
from protocol.keyring import Authentication, KeyRing, SharedAuthentication
from protocol.keys.authentication import GroupAuthentication, HostAuthentication
from protocol.keys.heartbeats import SEQUENCE_FROM, SEQUENCE_UNTIL, HeartbeatReader
from protocol.keys.hosts import Credentials, Master, Speaker
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Cause, Frame, Kind, Refused, decode, decode_proven
from protocol.wire import TYPE, VERSION

__all__ = ["Guard", "Key", "KeyFileError", "KeyRing", "ReplayWindow"]

WINDOW = 64
JUMP, FIRST_BELOW = 1 << 40, 1 << 62
"""How far a member's sequence number may be above its last one, and below what its first one must be: so no frame takes the
numbers that a host will need, and there is room above for millions of jumps."""
LAST_EPOCH, EPOCHS_AHEAD = 0xF000_0000, 1 << 26
"""The last epoch there can be, and how far one may be above those known: epochs are seconds or little more (two years of them),
so a forged one does not use up all that a fabric will need."""
Identity = tuple[int, bytes, bool, int] | tuple[bytes, bytes]
"""The owner of a series of sequence numbers: the sender, its MAC address, whether the frames went to all (agents may read those
much later), and their version: whoever can make frames of one uses up no numbers of another; or, of a host with keys of its
own, `Speaker.series`, whatever number and address it writes."""
Keys = Key | Credentials | Master
_ALL_SEEN = (1 << WINDOW) - 1


def believable(epoch: int, known: int) -> bool:
    """Whether a leader can have this epoch, for whoever knows of the epoch `known` (0: of none)."""
    return epoch <= min(LAST_EPOCH, known + EPOCHS_AHEAD if known else LAST_EPOCH)


def authentications(ring: KeyRing[Any]) -> Mapping[int, Authentication]:
    """How frames to whoever has these keys are authenticated, by version of the wire: a shared key serves in every version."""
    if isinstance(ring.sending, Key):
        return {version: SharedAuthentication(ring) for version in range(SPOKEN.lowest, NEWEST + 1)}
    return {NEWEST: HostAuthentication(ring) if isinstance(ring.sending, Credentials) else GroupAuthentication(ring)}


class _Nobody:
    """Verifies nothing: for frames of versions that we have no key for."""

    def tag_bytes(self, _: bytes) -> int:
        return TAG_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        raise Refused(Cause.VERSION)


class ReplayWindow:
    """The sequence numbers seen from one sender: the highest, and which of the 63 below it."""

    __slots__ = ("_seen", "highest")

    def __init__(self, highest: int = -1, seen: int = _ALL_SEEN) -> None:
        """Counts `highest` and all numbers below it as seen; or, with `seen` (bit n: `highest` - n), of the last 64 those that
        have a bit there."""
        self.highest = highest
        self._seen = seen

    def accept(self, sequence: int) -> bool:
        """Whether the number is new; marks it as seen. Numbers older than the window are never new."""
        ahead = sequence - self.highest
        if ahead > 0:
            # If the number is far ahead, all numbers in the window are new: they are higher than any seen before.
            self._seen = (self._seen << ahead | 1) & _ALL_SEEN if ahead < WINDOW else 1
            self.highest = sequence
            return True
        bit = 1 << -ahead if ahead > -WINDOW else 0
        if not bit or self._seen & bit:
            return False
        self._seen |= bit
        return True

    @property
    def seen(self) -> int:
        """Which of the last 64 numbers were seen: bit n is for `highest` - n."""
        return self._seen

    def end(self) -> int:
        """The guard drops the window. Returns the highest number, which is all that it remembers."""
        return self.highest


class Guard:
    """Accepts frames that are authentic, of this epoch, new, from the right kind of sender and addressed to us; counts the
    others by cause.

    A member's guard accepts frames of the leader only, and follows it to a higher epoch that is `believable`. In one epoch the
    leader has one MAC address: that of its first frame. A leader's guard accepts frames of members only, of exactly its own
    epoch; of later epochs it believes leaders only.

    The guard remembers sequence numbers for each (sender, source address) in bounded memory: when there are more than `senders`
    windows, it reduces the oldest to its highest number, and when there are more than `remembered` such numbers, it keeps only
    the highest of the oldest ones. So it never accepts a frame twice in an epoch, even after dropping the sender's window.

    A leader's guard refuses a number that is far above the sender's last one. A host whose numbers are refused, because they
    are that far above or because another host has used higher ones in its name, is in `astray`: the leader tells it the last.

    While the fabric changes its key, `ring` holds two keys, and the guard tries the second one when the first fails. A
    member's guard follows the leader: it sends with the key of the frame that it accepted last.

    A guard takes frames of all versions that we speak, each authenticated as its version is. A member's guard that was told
    to `agree` takes none of an older version in this epoch, and while a leader is heard (until `listen`) in no other either.

    Of a host with keys of its own, a leader's guard takes what it says as that host's alone: never as a leader's.
    """

    def __init__(
        self,
        key: Keys | KeyRing[Any],
        *,
        epoch: int = 0,
        leader: bool = False,
        address: bytes | None = None,
        senders: int = 4096,
        remembered: int = 65536,
        known: int = 0,
        ways: Mapping[int, Authentication] | None = None,
    ) -> None:
        """`address`: our MAC address, to refuse frames that are addressed to other hosts; None: the caller does that.

        `known`: an epoch near which a leader's is expected as long as none has been accepted (0: of none).
        `ways`: how frames are authenticated, by version of the wire; None: by `key` alone.
        """
        self.epoch = epoch
        self._known = known
        self.leader = leader
        self.highest_epoch = epoch
        """The highest believable epoch in any leader's frame; if it is above a leader's own, there is a newer leader."""
        self.twin: bytes | None = None
        """The address of another leader of a leader's own epoch; stores that lost touch may give one epoch to two."""
        self._source: bytes | None = None
        self.accepted = 0
        self.refused: Counter[Cause] = Counter()
        self.astray: tuple[bytes, int, int] | None = None
        """The source address of the last frame that was refused for its number alone, the highest number accepted from there,
        and the frame's version; the caller sets it to None."""
        self.foreign: tuple[int, bytes] | None = None
        """The version and the source address of the last frame whose version we do not speak; the caller sets it to None."""
        self.ring: KeyRing[Any] = key if isinstance(key, KeyRing) else KeyRing(key)
        self.authentications = dict(authentications(self.ring) if ways is None else ways)
        """By version of the wire."""
        self.speaker: Speaker | None = None
        """The host, with keys of its own, that made the last authentic frame."""
        self._heartbeat: Frame | None = None
        """The last one of a hash chain that was accepted."""
        self.agreed = 0
        """The version that a member and its leader agreed on in this epoch; 0: none yet."""
        self.heard = NEWEST
        """The newest version of which a member has accepted a frame in this epoch."""
        self._taken: dict[int, Authentication] = dict(self.authentications)
        self._address = address
        self._senders = senders
        self._remembered = remembered
        self._windows: dict[Identity, ReplayWindow] = {}
        self._highest: dict[Identity, int] = {}
        self._floor = -1

    def accept(self, frame: bytes) -> Frame | None:
        """The frame's content, or None if the guard refused and counted it."""
        authentication = self._taken.get(frame[VERSION]) if len(frame) > TYPE else None
        if authentication is None:
            self._note_version(frame)
            return None
        if not self._is_ours(frame[:6]):  # flooded by switches: it is under keys that we have not
            self.refused[Cause.NOT_OURS] += 1
            return None
        chain = authentication.heartbeats
        if chain is not None and frame[TYPE] == Kind.HEARTBEAT and self._heartbeat is not None and chain.repeats(frame):
            return self._next_heartbeat(chain, self._heartbeat, frame)
        self.speaker = None
        try:
            content = decode(frame, authentication)
        except Refused as refusal:
            self.refused[refusal.cause] += 1
            return None
        self.speaker = authentication.speaker
        chained = chain is not None and content.destination == HEARTBEAT_MAC and frame[TYPE] == Kind.HEARTBEAT
        cause = self._reject_reason(content, chain if chained else None)
        if cause is not None:
            self.refused[cause] += 1
            return None
        if chained:
            self._heartbeat = content
        if not self.leader:
            authentication.follow()
        self.accepted += 1
        return content

    def accept_proven(self, frame: bytes, speaker: Speaker) -> Frame | None:
        """The content of a frame of this host that the library of frames has found to be authentic and new, or None if it says
        nothing that we know."""
        self.speaker = speaker
        try:
            content = decode_proven(frame)
        except Refused as refusal:
            self.refused[refusal.cause] += 1
            return None
        self.accepted += 1
        return content

    def move(self, address: bytes) -> None:
        """A host has another MAC address by now: what it says and hears is under the keys of that one."""
        self._address = address
        here = [key.at(address) if isinstance(key, Credentials) else key for key in (self.ring.sending, self.ring.other)]
        self.ring.sending, self.ring.other = here

    def _is_ours(self, destination: bytes) -> bool:
        return self._address is None or destination in (self._address, HEARTBEAT_MAC)

    def _next_heartbeat(self, chain: HeartbeatReader, known: Frame, frame: bytes) -> Frame | None:
        """A heartbeat that says what the last one did, and is new: verified by a hash."""
        place = int.from_bytes(frame[SEQUENCE_FROM:SEQUENCE_UNTIL])
        if (cause := chain.refused_again(frame, place)) is not None:
            self.refused[cause] += 1
            return None
        self.accepted += 1
        destination, source, sender, epoch, _, message, version = known
        self._heartbeat = found = Frame(destination, source, sender, epoch, place, message, version)
        return found

    def _note_version(self, frame: bytes) -> None:
        """Counts a frame of a version that we do not take. What the leader says to all in an older version is for others."""
        version = frame[VERSION] if len(frame) > TYPE else 0
        if version in self.authentications:
            if (to := frame[:6]) != HEARTBEAT_MAC:
                self.refused[Cause.VERSION if self._is_ours(to) else Cause.NOT_OURS] += 1
            return
        try:
            decode(frame, _Nobody())
        except Refused as refusal:
            if version < NEWEST and frame[:6] == HEARTBEAT_MAC and self.accepted and not self.leader:
                return
            self.refused[refusal.cause] += 1
            if refusal.cause is Cause.VERSION:
                self.foreign = version, frame[6:12]

    @property
    def speaks(self) -> int:
        """The version that a member speaks with its leader: the agreed one; before that the newest heard."""
        return self.agreed or self.heard

    def agree(self, version: int) -> None:
        """A member and its leader have agreed on a version: in this epoch older ones do not count."""
        if version != self.agreed or len(self._taken) == len(self.authentications):
            self.agreed = version
            self._taken = {number: way for number, way in self.authentications.items() if number >= version}

    def listen(self) -> None:
        """A member hears no leader, or is not known to it: another leader may speak any version."""
        self._taken = dict(self.authentications)

    def _reject_reason(self, content: Frame, chain: HeartbeatReader | None) -> Cause | None:
        """Why to refuse an authentic frame, or None; follows a new epoch, and marks the sequence number as seen.

        `chain`: of a heartbeat whose sequence is a place in a hash chain.
        """
        destination, source, sender, epoch, sequence, _, version = content
        if epoch != self.epoch:
            if epoch < self.epoch:
                return Cause.OLD_EPOCH
            if sender != COORDINATOR or self.speaker is not None:
                return Cause.FUTURE_EPOCH if self.leader else Cause.NOT_LEADER
            if not believable(epoch, self.epoch or self._known):
                return Cause.FUTURE_EPOCH
            self.highest_epoch = max(self.highest_epoch, epoch)
            if self.leader:
                return Cause.FUTURE_EPOCH
            self.adopt(epoch)
        elif version < self.agreed:
            return Cause.VERSION
        if (sender == COORDINATOR) is self.leader:
            if self.leader and self.speaker is None and source != self._address:
                self.twin = source
            return Cause.NOT_LEADER
        if not self.leader:
            self._source = self._source or source
            if source != self._source:
                return Cause.NOT_LEADER
        if chain is not None:
            return chain.refused(sequence)
        to_all = sender, source, destination == HEARTBEAT_MAC, version
        identity: Identity = to_all if self.speaker is None else self.speaker.series
        window = self._windows.get(identity) or self._begin(identity)
        if self.leader and sequence - window.highest > JUMP and (window.highest >= 0 or sequence >= FIRST_BELOW):
            self.astray = source, max(0, window.highest), version
            return Cause.AHEAD
        if window.accept(sequence):
            if version > self.heard:
                self.heard = version
            return None
        if sequence <= window.highest - WINDOW:
            self.astray = source, window.highest, version
        return Cause.REPLAY

    def newest(self, source: bytes) -> int:
        """The highest sequence number in frames that the leader at this address sent to us alone; -1 if there was none."""
        window = self.leader_window(source)
        return -1 if window is None else window.highest

    def leader_window(self, source: bytes) -> ReplayWindow | None:
        """The window of what the leader at this address sends to us alone, in the version that we speak; None: it has none."""
        return self._windows.get((COORDINATOR, source, False, self.speaks))

    def replace_leader_window(self, source: bytes, window: ReplayWindow) -> None:
        """Puts another one in its place."""
        self._windows[COORDINATOR, source, False, self.speaks] = window

    def window(self, speaker: Speaker) -> ReplayWindow | None:
        """The window of a host with keys of its own; None: it has none."""
        return self._windows.get(speaker.series)

    def replace_window(self, speaker: Speaker, window: ReplayWindow) -> None:
        """Puts another one in its place, if it has one."""
        if speaker.series in self._windows:
            self._windows[speaker.series] = window

    def refuse(self, cause: Cause) -> None:
        """Counts a refusal; callers use it for causes that only they can see (UNKNOWN_SENDER, CLOCK)."""
        self.refused[cause] += 1

    def adopt(self, epoch: int) -> None:
        """Moves to an epoch; frames of lower ones are refused from now on, so their sequence numbers are dropped.

        Raises ValueError: the epoch is lower than the present one.
        """
        if epoch < self.epoch:
            raise ValueError(f"epoch: {epoch} must not be less than {self.epoch}; epochs only grow")
        if epoch > self.epoch:
            self.epoch = epoch
            self.agreed, self.heard = 0, min(self.authentications)
            self.listen()
            self._heartbeat = None
            for way in self.authentications.values():
                if way.heartbeats is not None:
                    way.heartbeats.new_leader()
            self._source = None
            self._windows.clear()
            self._highest.clear()
            self._floor = -1

    @property
    def spoken(self) -> Versions:
        """The versions of the wire for which we have keys."""
        return Versions(min(self.authentications), max(self.authentications))

    def forget(self, sender: int) -> None:
        """Frees the windows of a node that left; replays of its frames stay refused."""
        for identity in [identity for identity in self._windows if identity[0] == sender]:
            self._end(identity)

    def _begin(self, identity: Identity) -> ReplayWindow:
        if len(self._windows) >= self._senders:
            self._end(next(iter(self._windows)))
        window = self._windows[identity] = ReplayWindow(self._highest.pop(identity, self._floor))
        return window

    def _end(self, identity: Identity) -> None:
        highest = self._windows.pop(identity).end()
        if len(self._highest) >= self._remembered:
            self._floor = max(self._floor, self._highest.pop(next(iter(self._highest))))
        self._highest[identity] = highest
