"""Which hosts are where, learned from frames that anybody can make. Pure.

* A MAC address that is known at one port does not move by a frame at another: first its old place is asked. Frames of it that
  still enter there, or its answer to an ARP request that is sent there, refuse the move; silence for MOVE_NS allows it. That
  time counts from when the switch there was told to copy the address's frames to us, and up to what we have read of that
  switch: a controller that is behind takes nobody's silence for granted. Nor does one to which the switch passes on so many
  frames that its meter may drop the host's. A host that has moved (a VM that announces itself by
  gratuitous ARP) is silent at its old place. If that port went down, or its switch left, the address was forgotten with it,
  and nobody is asked.
* A port has so many hosts at most, and so many new ones a second. What is not learnt is flooded, as by any switch.

Times are monotonic nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from controller.openflow.intake.budget import Budget
from protocol.units import MILLISECOND_NS

MOVE_NS = 500 * MILLISECOND_NS
"""How long a host must be silent at its old port before it moves."""
UNDERWAY_NS = 100 * MILLISECOND_NS
"""What comes from the old port within this time was on its way before the question."""
ASK_NS = 100 * MILLISECOND_NS
"""Between two ARP requests to the old port."""
HOLD_NS = 2_000 * MILLISECOND_NS
"""How long after a refusal the same move is not asked for again."""
QUESTIONS_MAX = 256
QUESTIONS_PER_PORT = 8
AGENTS_PER_PORT = 8
"""Room for addresses that send control frames, beyond a port's hosts."""
NEW_PER_S, NEW_AT_ONCE = 8, 64
ADDRESSES_PER_HOST = 64
HELD_MAX = 4_096


class PortRef(NamedTuple):
    """A port of the fabric: datapath id and OpenFlow port number."""

    dpid: int
    number: int


@dataclass(frozen=True, slots=True)
class Host:
    """A MAC address learned at an edge port, with the IP addresses that it used (oldest first).

    `speaks_control`: it has sent a frame of the control EtherType, so it is an agent's own address, not a VM's. `asked`:
    whether it is still here is in question, so its switch copies its frames to the controller.
    """

    mac: str
    at: PortRef
    addresses: tuple[str, ...] = ()
    speaks_control: bool = False
    asked: bool = False


class Request(NamedTuple):
    """An ARP request to send out by a port: does the host `mac` there still have this address?"""

    at: PortRef
    mac: str
    address: str


@dataclass(slots=True)
class _Question:
    to: PortRef
    since_ns: int
    next_ns: int
    copied_ns: int | None = None
    """When its switch was told to copy the address's frames; None: not yet."""


Tell = Callable[[str, str, PortRef, str], None]
"""Hears of what is refused: kind of event, severity, port, text after the port's name."""
Moved = Callable[[Host, PortRef], None]


class Hosts:
    """The hosts by MAC address. Its methods return whether what is known has changed."""

    def __init__(self, counts: Counter[str], tell: Tell, moved: Moved, per_port: int) -> None:
        """`counts` counts refusals by name; `moved` hears of a host and where it was."""
        self.by_mac: dict[str, Host] = {}
        self._owners: dict[str, str] = {}  # by address: who used it last
        self._at: dict[PortRef, set[str]] = {}  # the MAC addresses at each port that has any
        self._new: dict[PortRef, Budget] = {}
        self._questions: dict[str, _Question] = {}
        self._held: dict[tuple[str, PortRef], int] = {}
        self._counts, self._tell, self._moved, self._per_port = counts, tell, moved, per_port

    def seen(
        self, at: PortRef, mac: str, now_ns: int, address: str | None = None, control: bool = False, *, claims: bool = True
    ) -> bool:
        """A frame of this MAC address entered by an edge port. An IP address that it does not claim stays with who has it."""
        if not claims and self._owners.get(address or "", mac) != mac:
            address = None
        host = self.by_mac.get(mac)
        if host is None:
            if not self._has_room(at, now_ns, control):
                return False
            host = Host(mac, at)
        elif host.at != at:
            return self._ask(host, at, now_ns)
        elif host.asked:
            host = self._answered(host, now_ns)
        return self._put(self._with(host, address, control))

    def inherited(self, at: PortRef, mac: str, address: str | None) -> bool:
        """A host that an earlier application knew, which was bounded as this one is; a known one gets its addresses."""
        host = self.by_mac.get(mac, Host(mac, at, speaks_control=True))
        return host.at == at and self._put(self._with(host, address, control=False))

    def taken_over(self, host: Host, now_ns: int) -> bool:
        """A host that its switch knows since an earlier application; a port has room for as many as ever. If a frame of it came
        elsewhere meanwhile, its old place is asked as ever."""
        known = self.by_mac.get(host.mac)
        if known is None or known.at != host.at:
            if self._count(host.at) >= self._per_port + (AGENTS_PER_PORT if host.speaks_control else 0):
                return False
            if known is not None:
                self._forget([known])
            self._put(Host(host.mac, host.at, speaks_control=host.speaks_control))
        taken = self.by_mac[host.mac]
        for address in (None, *host.addresses):
            taken = self._with(taken, address, host.speaks_control)
        self._put(taken)
        if known is not None and known.at != host.at:
            self._ask(taken, known.at, now_ns)
        return True

    def idle(self, at: PortRef, mac: str) -> bool:
        """A host has sent nothing for the ageing time; it is forgotten if it has not moved meanwhile."""
        host = self.by_mac.get(mac)
        return host is not None and host.at == at and self._forget([host])

    def gone(self, at: PortRef) -> bool:
        """Nothing can be at this port any more."""
        self._new.pop(at, None)
        for mac, question in list(self._questions.items()):
            if question.to == at:
                del self._questions[mac]
                self.by_mac[mac] = replace(self.by_mac[mac], asked=False)
        return self._forget([self.by_mac[mac] for mac in self._at.get(at, ())])

    def applied(self, seen_ns: int) -> None:
        """The switches were sent the tables for what was known at `seen_ns`: they copy the frames of whoever was asked then."""
        for question in self._questions.values():
            if question.copied_ns is None and seen_ns >= question.since_ns:
                question.copied_ns = seen_ns

    def loud(self, at: PortRef, now_ns: int) -> bool:
        """More frames come from a port than are read: it is not silent, so no host leaves it. Whether any was to."""
        staying = [mac for mac in self._questions if self.by_mac[mac].at == at]
        for mac in staying:
            self.by_mac[mac] = self._refused(self.by_mac[mac], now_ns)
        return bool(staying)

    def crowded(self, dpid: int, now_ns: int) -> None:
        """A switch passes on so many frames that some may be lost: silence of its hosts counts from now on."""
        for mac, question in self._questions.items():
            if question.copied_ns is not None and self.by_mac[mac].at.dpid == dpid:
                question.copied_ns = max(question.copied_ns, now_ns)

    def asked_at(self) -> set[int]:
        """The switches (datapath ids) whose hosts are in question."""
        return {self.by_mac[mac].at.dpid for mac in self._questions}

    def tick(self, now_ns: int, present_ns: int = 0, read_ns: Mapping[int, int] | None = None) -> bool:
        """Moves the hosts whose old place has been silent for MOVE_NS, and while this process was running to hear it: since
        `present_ns`. One whose new port is full is forgotten: frames to it are flooded, and so reach it. `read_ns`: until when
        all that a switch sent has been read, by datapath id; None: until now."""
        changed = False
        for mac, question in list(self._questions.items()):
            host = self.by_mac[mac]
            read_until_ns = now_ns if read_ns is None else read_ns.get(host.at.dpid, 0)
            if question.copied_ns is not None and read_until_ns - max(question.copied_ns, present_ns) >= MOVE_NS:
                del self._questions[mac]
                self._forget([host])
                if self._count(question.to) < self._per_port:
                    self._moved(host, question.to)
                    self._put(replace(host, at=question.to, asked=False))
                changed = True
        self._held = {move: until_ns for move, until_ns in self._held.items() if now_ns < until_ns}
        return changed

    @property
    def in_question(self) -> bool:
        """Whether a move is being decided, or one that was refused is held."""
        return bool(self._questions or self._held)

    def requests(self, now_ns: int) -> Iterator[Request]:
        """The ARP requests that are due."""
        for mac, question in self._questions.items():
            host = self.by_mac[mac]
            if host.addresses and now_ns >= question.next_ns:
                question.next_ns = now_ns + ASK_NS
                yield Request(host.at, mac, host.addresses[-1])

    def _has_room(self, at: PortRef, now_ns: int, control: bool) -> bool:
        most = self._per_port + (AGENTS_PER_PORT if control else 0)
        if self._count(at) >= most:
            text = f"shows more than {most} addresses; further ones are not learnt, and frames to them are flooded"
        elif not self._new.setdefault(at, Budget(NEW_PER_S, NEW_AT_ONCE)).take(now_ns):
            text = f"shows more than {NEW_PER_S} new addresses a second; they are learnt more slowly"
        else:
            return True
        self._counts["hosts_not_learnt"] += 1
        self._tell("hosts_not_learnt", "warning", at, text)
        return False

    def _count(self, at: PortRef) -> int:
        """How many hosts are at a port."""
        return len(self._at.get(at, ()))

    def _ask(self, host: Host, to: PortRef, now_ns: int) -> bool:
        """A known host's address is seen elsewhere: asks whether it is still where it was."""
        if host.asked or (host.mac, to) in self._held:
            return False
        bound_for = sum(1 for question in self._questions.values() if question.to == to)
        if len(self._questions) >= QUESTIONS_MAX or bound_for >= QUESTIONS_PER_PORT:
            self._counts["moves_not_asked"] += 1
            return False
        self._questions[host.mac] = _Question(to, now_ns, now_ns + ASK_NS)
        self.by_mac[host.mac] = replace(host, asked=True)
        return True

    def _answered(self, host: Host, now_ns: int) -> Host:
        """A host that was asked for is still there."""
        question = self._questions[host.mac]
        return host if now_ns - question.since_ns < UNDERWAY_NS else self._refused(host, now_ns)

    def _refused(self, host: Host, now_ns: int) -> Host:
        """A host stays where it is."""
        question = self._questions.pop(host.mac)
        if len(self._held) < HELD_MAX:
            self._held[host.mac, question.to] = now_ns + HOLD_NS
        self._counts["moves_refused"] += 1
        text = f"sends frames with the address {host.mac}, which still answers where it was: not moved"
        self._tell("move_refused", "warning", question.to, text)
        return replace(host, asked=False)

    def _with(self, host: Host, address: str | None, control: bool) -> Host:
        if address not in (None, "0.0.0.0", *host.addresses) and len(host.addresses) < ADDRESSES_PER_HOST:
            assert address is not None
            self._take_address(address, host.mac)
            host = replace(host, addresses=(*host.addresses, address))
        return replace(host, speaks_control=True) if control and not host.speaks_control else host

    def _put(self, host: Host) -> bool:
        before = self.by_mac.get(host.mac)
        if before is None:
            self._at.setdefault(host.at, set()).add(host.mac)
            self._owners.update(dict.fromkeys(host.addresses, host.mac))
        self.by_mac[host.mac] = host
        return before != host

    def _forget(self, hosts: list[Host]) -> bool:
        for host in hosts:
            del self.by_mac[host.mac]
            self._at[host.at].remove(host.mac)
            if not self._at[host.at]:
                del self._at[host.at]
            self._questions.pop(host.mac, None)
            for address in host.addresses:
                self._owners.pop(address, None)
        return bool(hosts)

    def _take_address(self, address: str, mac: str) -> None:
        """Takes an address from the host that had it: it belongs to the host that used it last."""
        owner = self.by_mac.get(self._owners.get(address, ""))
        if owner is not None:
            self.by_mac[owner.mac] = replace(owner, addresses=tuple(other for other in owner.addresses if other != address))
        self._owners[address] = mac
