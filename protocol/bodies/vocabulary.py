"""The messages between leader and members: a class for each, with the meaning of its fields. Pure.

Times are integer nanoseconds, sizes bytes, rates bit/s; clocks are the coordinator's unless a field says
otherwise. Their encoding is in `messages` and PROTOCOL.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag, unique
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.bodies.flows.guest_marks import GuestMarks
from protocol.bodies.flows.losses import Losses
from protocol.bodies.groups import GroupsChange, GroupsRequest
from protocol.bodies.host_control import ClockReport, Conditions, Week
from protocol.bodies.host_link import HostLink
from protocol.bodies.host_state import HostState
from protocol.bodies.keys import KeyState, KeyStep
from protocol.bodies.pfc import PfcPause, PfcReport, PfcSettings
from protocol.bodies.versions import NEWEST, SPOKEN, Versions

HEARTBEAT_MAC = bytes.fromhex("034241544f4e")
"""The group address that every agent listens to: locally administered, "BATON" in its last five bytes."""
UNREGISTERED, COORDINATOR = 0, 1
"""Node ids: of a host that is not yet a member, and of the leader. Members have 16 and up."""

IPAddress = IPv4Address | IPv6Address


@unique
class Kind(IntEnum):
    """The header's type; numbers are never reused."""

    REGISTER = 1
    WELCOME = 2
    DIRECTORY_REQUEST = 3
    DIRECTORY = 4
    REGULATE = 5
    BACKLOG = 6
    DIRECTIVE = 7
    YIELD = 8
    ACK = 9
    REPORT = 10
    HEARTBEAT = 11
    PING = 12
    PONG = 13
    LEAVE = 14
    ERROR = 15
    SIZE_REPORT = 16
    THRESHOLDS = 17
    THRESHOLDS_REQUEST = 18
    COFLOWS = 19
    CONDITIONS = 20
    WEEK = 21
    CLOCK_REPORT = 22
    PFC_SETTINGS = 23
    PFC_PAUSE = 24
    PFC_REPORT = 25
    KEY_STEP = 32
    KEY_STATE = 33
    HOST_STATE = 40
    HOST_LINK = 41
    PATHS = 42
    LOSSES = 43
    DIRECTORY_CHANGE = 44
    GROUPS_CHANGE = 45
    GROUPS_REQUEST = 46
    COFLOW_REPORT = 47
    GUEST_MARKS = 48


class GateKind(IntFlag):
    """The gates that a host can put before a destination, named as the kernel names them."""

    TBF = 1
    PLUG = 2


@unique
class Override(IntEnum):
    """The operator's setting for the whole fabric: the policy decides, or every gate is open."""

    COORDINATE = 0
    FREE = 1


@unique
class ErrorCode(IntEnum):
    """Why the coordinator refused a host's message."""

    UNKNOWN_SENDER = 1
    """Register first."""
    REFUSED = 2
    """The text names the field of the message and the remedy."""
    BUSY = 3
    """Ask again later."""
    SEQUENCE = 4
    """The leader refuses your sequence numbers; go on after the one in `sequence`."""


@dataclass(frozen=True, slots=True)
class Register:
    """Host to leader: make me a member, or note my new addresses. The Welcome repeats the fresh `nonce`.

    `version` is the agent's, a text; `versions` those of the wire that it speaks (in a frame of version 2: that one).
    """

    name: str
    nonce: int
    rate_bps: int
    addresses: tuple[IPAddress, ...]
    gates: GateKind
    version: str
    versions: Versions = SPOKEN


@dataclass(frozen=True, slots=True)
class Welcome:
    """Leader to host: you are `node`; with the settings of your agent.

    We speak `version` of the wire from now on; `versions` are those that the leader speaks (in a frame of version 2: that one).
    `place` and `value` are the last heartbeat's in its hash chain (protocol/keys/heartbeats.py): only later ones are new.
    """

    nonce: int
    node: int
    heartbeat_ns: int
    fail_open_ns: int
    yield_hysteresis_ns: int
    mice_bytes: int
    mice_rate_bps: int
    report_ns: int
    version: int = NEWEST
    versions: Versions = SPOKEN
    place: int = 0
    value: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class DirectoryRequest:
    """Member to leader: send the Directory; `version` is the one I have, 0 for none."""

    version: int


@dataclass(frozen=True, slots=True)
class Directory:
    """Leader to member: every node id with its VMs' addresses; full state, in pages."""

    version: int
    page: int
    pages: int
    entries: tuple[tuple[int, tuple[IPAddress, ...]], ...]


@dataclass(frozen=True, slots=True)
class DirectoryChange:
    """Leader to all: (node, whether it is a member, its addresses) of every node that differs between two versions of the
    Directory. Who has version `base`, or a later one, then has `version`."""

    base: int
    version: int
    entries: tuple[tuple[int, bool, tuple[IPAddress, ...]], ...]


@dataclass(frozen=True, slots=True)
class Regulate:
    """Leader to member: the nodes it may not send large flows to without a grant; full state, in pages."""

    version: int
    page: int
    pages: int
    destinations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Member to leader: (destination node, bytes that wait at its gate, how many of these belong to flows with a deadline);
    full state of regulated destinations, in pages.
    """

    report: int
    page: int
    pages: int
    entries: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease: with `bytes`, to send that many; with `rate_bps`, to send at that rate; with neither, the slot is revoked.
    Never both.
    """

    destination: int
    slot: int
    start_ns: int
    end_ns: int
    bytes: int
    rate_bps: int


@dataclass(frozen=True, slots=True)
class Directive:
    """Leader to member: leases, at most `MAX_GRANTS`."""

    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Yield:
    """Member to leader: I will not use the rest of this slot."""

    destination: int
    slot: int
    unspent_bytes: int
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Member to leader: when the slot's directive arrived and when its gate opened. Since it passes the interface's queues, it
    also wakes them.
    """

    slot: int
    destination: int
    received_ns: int
    opened_ns: int


class FlowReport(NamedTuple):
    """The bytes that large flows sent to a destination node in the period, and those that wait for it now."""

    destination: int
    bytes: int
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """Member to leader, periodic, in pages: traffic, and (Cause, count) of refused frames since the agent's start.

    `report` numbers the reports, so that pages of different reports are never mixed.
    """

    period_ns: int
    page: int
    pages: int
    entries: tuple[FlowReport, ...]
    counters: tuple[tuple[int, int], ...]
    report: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Leader to all: I am alive; the operator's override; the newest versions of the documents that you should have."""

    override: Override
    directory_version: int
    regulate_version: int
    thresholds_version: int = 0
    """0: flows have no priorities in this fabric."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Member to leader: its own clock at sending (RFC 5905 section 8, T1)."""

    sent_ns: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Leader to member: the Ping's time, and the leader's clock at receipt (T2) and reply (T3)."""

    sent_ns: int
    received_ns: int
    replied_ns: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Member to leader: remove me from the members at once."""

    reason: str


@dataclass(frozen=True, slots=True)
class Error:
    """Leader to host: I refused your frame with this sequence number; `text` names the field and the remedy."""

    code: ErrorCode
    sequence: int
    text: str


@dataclass(frozen=True, slots=True)
class SizeReport:
    """Member to leader, once a period: the flows that ended in it, counted by type and bin of size (`size_bins`).

    Reports add up, row by row, and each is complete: a lost report loses only its own counts and time. `version` is that of
    the thresholds in use. If a period has more rows than a frame holds, it comes in several reports, and only the first has
    a `period_ns` above 0.
    """

    version: int
    period_ns: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Leader to all, or to a member that asked: the splitting thresholds beta and the demotion thresholds alpha in bytes.

    One fewer of each than there are `bands`, or none while none are known: all flows of types 2 and 3 are in the first band
    then. `period_ns` is how often to send a SizeReport, `termination` the scheme for flows that will miss their deadline.
    """

    version: int
    period_ns: int
    bands: int
    termination: int
    beta: tuple[int, ...]
    alpha: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ThresholdsRequest:
    """Member to leader: send the Thresholds; `version` is the one I have, 0 for none."""

    version: int


@dataclass(frozen=True, slots=True)
class Coflows:
    """Leader to all: (coflow, priority queue) of the open coflows; full state, in pages."""

    version: int
    page: int
    pages: int
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Paths:
    """Leader to member: what MCP takes as the link, C and K (Karuna, section 3); full state, in pages.

    `rate_bps` is the capacity of the slowest link on the member's way to most destinations, `marking_bytes` the queue from
    which that link's port marks; `entries` has (destination node, the same two) where the way is another.
    """

    version: int
    page: int
    pages: int
    rate_bps: int
    marking_bytes: int
    entries: tuple[tuple[int, int, int], ...]


Message = (
    Register | Welcome | DirectoryRequest | Directory | Regulate | Backlog | Directive | Yield | Ack | Report
    | Heartbeat | Ping | Pong | Leave | Error | SizeReport | Thresholds | ThresholdsRequest
    | Coflows | Paths | Conditions | Week | ClockReport | PfcSettings | PfcPause | PfcReport
    | KeyStep | KeyState | HostState | HostLink | Losses | DirectoryChange | GroupsChange | GroupsRequest
    | CoflowReport | GuestMarks
)  # fmt: skip


class Frame(NamedTuple):
    """An authentic frame: MAC addresses, the header's numbers, the message, and the version of the wire."""

    destination: bytes
    source: bytes
    sender: int
    epoch: int
    sequence: int
    message: Message
    version: int = NEWEST
