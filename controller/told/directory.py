"""The directory as members are told it: DIRECTORY and DIRECTORY_CHANGE. Sends only through what it is given.

What changes goes to all members. A member that joins, or has missed much, asks for the whole. A few are answered on their own;
where more ask, as when thousands register at once, one answer goes to all, and the changes to all then begin where that ends.

The whole is long in a large fabric: it is made, and sent, a little at a time. What changes meanwhile may be in it or not: its
version is that of the beginning, and the changes since that one make the present directory of it either way. So it is kept, and
sent to who joins later together with the changes since, as long as these are few.

While there are more addresses than a directory has room for, there are no changes, only wholes. Each is sent once as it was
made, even if the directory has changed meanwhile: a member that gets it knows those of the lowest nodes, and asks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from controller.members.part import SWEEP_NS, Part, Parts
from controller.members.registry import DIRECTORY_ADDRESSES, Address, Member, Members
from protocol.bodies.directory import DIRECTORY, DIRECTORY_CHANGE, changed_node, directory_entry
from protocol.messages import HEARTBEAT_MAC, Directory, DirectoryChange, DirectoryRequest, Message
from protocol.timers import Timers
from protocol.units import MILLISECOND_NS
from protocol.wire import BODY_MAX

TELLS = 3
"""How often a change of the directory is told: a frame may be lost."""
MOST_CHANGES = 8
"""Who missed more frames of changes is sent the whole."""
FEW, FEW_CHANGES = 2, 16
"""So many members are sent the whole, and so many what has changed, on their own between two looks."""
ALL_EVERY_NS = 500 * MILLISECOND_NS
"""The whole does not begin to go to all again before that time."""
WORK_AT_ONCE, TO_ONE, TO_ALL, BEGINNING, MAKING = 4, 1, 2, 1, 2
"""What one turn may cost, some 300 us; and what of it a frame to one member costs, a frame to all (it is signed), to begin the
whole, and to make the entries of `MADE_AT_ONCE` members."""
PAUSE_NS = 2 * MILLISECOND_NS
"""For how long the loop does other work then."""
MADE_AT_ONCE = 256
Entry = tuple[int, tuple[Address, ...]]


class _Whole:
    """The whole directory, made from its beginning on, so many members at a time; those of the lowest nodes keep all addresses
    where there is no room for all."""

    def __init__(self, members: Members) -> None:
        self.version = members.version
        self.pages: list[Directory] = []
        """Empty until all is made."""
        self.sent = False
        self._members = members
        self._nodes = deque(member.node for member in members.present())
        self._room = DIRECTORY_ADDRESSES
        self._groups: list[list[Entry]] = [[]]
        self._left = BODY_MAX - DIRECTORY.size

    def go_on(self, most: int) -> bool:
        """Takes so many more members; whether all is made."""
        for _ in range(min(most, len(self._nodes))):
            if (member := self._members.get(self._nodes.popleft())) is not None:
                self._take((member.node, member.addresses[: self._room]))
        if not self._nodes:
            count = len(self._groups)
            self.pages = [Directory(self.version, page, count, tuple(rows)) for page, rows in enumerate(self._groups)]
        return not self._nodes

    def _take(self, entry: Entry) -> None:
        self._room -= len(entry[1])
        size = len(directory_entry(*entry))
        if size > self._left:
            self._groups.append([])
            self._left = BODY_MAX - DIRECTORY.size
        self._groups[-1].append(entry)
        self._left -= size


class ToldDirectory(Part):
    """Tells members who is there.

    Args:
        parts: all of the coordinator's parts, which tell a member that asks what else it may have missed.
    """

    def __init__(
        self, members: Members, parts: Parts, timers: Timers, send: Callable[[Message, bytes], None]
    ) -> None:
        self.handlers = {DirectoryRequest: self._on_request}
        self.periodic = ((SWEEP_NS, self._tell_changes), (SWEEP_NS, self._look))
        self._members = members
        self._parts = parts
        self._timers = timers
        self._send = send
        self._bases: deque[int] = deque([members.version] * TELLS, maxlen=TELLS)
        """The version of the directory at each of the last looks."""
        self._oldest: int | None = None
        """The oldest version of which members want the changes; they are told with the next changes to all."""
        self._wanting: dict[int, None] = {}
        """The members that are to be sent the whole, in order."""
        self._answered = self._answered_changes = 0
        """How many members were sent the whole, and how many changes, since the last look."""
        self._kept: _Whole | None = None
        """The whole, as it was made last."""
        self._making: _Whole | None = None
        self._sending: deque[tuple[Message, bytes]] = deque()
        self._under_way = False
        """Whether the next turn is scheduled."""
        self._all_ns = -ALL_EVERY_NS

    # -- changes --------------------------------------------------------------------------------------------------------

    def _tell_changes(self, _: int) -> None:
        """Sends all members the last changes of the directory, so that nobody needs to ask for the whole."""
        base = self._bases[0]
        self._bases.append(self._members.version)
        oldest, self._oldest = self._oldest, None
        changes = None if oldest is None or oldest >= base else self._changes(oldest)
        for change in (self._changes(base) if changes is None else changes) or ():
            self._send(change, HEARTBEAT_MAC)

    def _changes(self, base: int) -> list[DirectoryChange] | None:
        """What makes the present directory of an earlier one: frames, each of which begins where the one before ends. None: it
        takes too many, or that version is not known any more."""
        changed = self._members.changed_since(base) if 0 < base <= self._members.version else None
        if changed is None:
            return None
        found: list[DirectoryChange] = []
        entries: list[tuple[int, bool, tuple[Address, ...]]] = []
        room, reached = BODY_MAX - DIRECTORY_CHANGE.size, base
        for node, version in changed.items():
            entry = self._members.change(node)
            size = len(changed_node(*entry))
            if size > room and entries:
                found.append(DirectoryChange(found[-1].version if found else base, reached, tuple(entries)))
                if len(found) == MOST_CHANGES:
                    return None
                entries, room = [], BODY_MAX - DIRECTORY_CHANGE.size
            entries.append(entry)
            room, reached = room - size, version
        if entries:
            found.append(DirectoryChange(found[-1].version if found else base, reached, tuple(entries)))
        return found

    # -- the whole ------------------------------------------------------------------------------------------------------

    def _on_request(self, member: Member, message: DirectoryRequest, now_ns: int) -> None:
        """Answers with what has changed since the member's version, or with the whole. Where many ask at once, one answer goes
        to all."""
        self._parts.tell(member)
        if 0 < message.version <= self._members.version and self._answered_changes >= FEW_CHANGES:
            self._oldest = min(message.version, self._oldest or message.version)
            return
        if (changes := self._changes(message.version)) is not None:
            self._answered_changes += 1
            for change in changes:
                self._send(change, member.mac)
            return
        self._wanting[member.node] = None
        if not self._under_way:
            self._go_on(now_ns)

    def left(self, node: int, now_ns: int) -> None:
        self._wanting.pop(node, None)

    def _look(self, now_ns: int) -> None:
        """Now more members may be answered."""
        self._answered = self._answered_changes = 0
        if self._wanting and not self._under_way:
            self._go_on(now_ns)

    def _go_on(self, now_ns: int) -> None:
        """Does as much as one turn has room for, and the rest soon."""
        left = WORK_AT_ONCE
        while left > 0 and (cost := self._work(now_ns)):
            left -= cost
        self._under_way = bool(self._sending) or self._making is not None
        if self._under_way:
            self._timers.at(now_ns + PAUSE_NS, self._go_on)

    def _work(self, now_ns: int) -> int:
        """Does a part of what is to be done; returns what that cost, 0: there is nothing to do now."""
        if self._sending:
            return self._send_next()
        if self._making is not None:
            if self._making.go_on(MADE_AT_ONCE):
                self._kept, self._making = self._making, None
            return MAKING
        if not self._wanting:
            return 0
        to_all = self._answered + len(self._wanting) > FEW
        if to_all and now_ns - self._all_ns < ALL_EVERY_NS:
            return 0
        whole = self._kept
        since = None if whole is None else self._changes(whole.version)
        if whole is None or (since is None and (whole.sent or not self._members.left_out())):
            self._making = _Whole(self._members)
            return BEGINNING
        whole.sent = True
        if to_all:
            self._all_ns = now_ns
            self._sending.extend((page, HEARTBEAT_MAC) for page in whole.pages)
        else:
            self._answered += len(self._wanting)
            macs = [member.mac for node in self._wanting if (member := self._members.get(node)) is not None]
            messages: tuple[Message, ...] = (*whole.pages, *(since or ()))
            self._sending.extend((message, mac) for mac in macs for message in messages)
        self._wanting.clear()
        return self._send_next() if self._sending else 0

    def _send_next(self) -> int:
        message, to = self._sending.popleft()
        self._send(message, to)
        if to != HEARTBEAT_MAC:
            return TO_ONE
        if not self._sending and self._kept is not None:  # who has the whole now takes the next changes
            self._bases.extend([self._kept.version] * TELLS)
        return TO_ALL
