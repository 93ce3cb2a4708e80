"""Messages as bytes: `encode` and `decode` of whole frames, and the bodies that coordination itself consists of. Pure.

PROTOCOL.md is the contract. A body consists of the fields of its layout, then rows, addresses or text, as its codec here
or in protocol/bodies/ defines. Every message has a single encoding: `encode` reproduces what `decode` accepts byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from protocol.bodies import host_control as host
from protocol.bodies import pfc, registration
from protocol.bodies.directory import (
    DIRECTORY_CHANGE,
    DIRECTORY_REQUEST,
    changed_node,
    pack_directory,
    pack_directory_change,
    unpack_directory,
    unpack_directory_change,
)
from protocol.bodies.flows.coflow_report import CoflowReport, pack_coflow_report, unpack_coflow_report
from protocol.bodies.flows.guest_marks import GUEST_MARKS, GuestMarks
from protocol.bodies.flows.losses import Losses, pack_losses, unpack_losses
from protocol.bodies.flows.priorities import (
    THRESHOLDS_REQUEST,
    pack_paths,
    pack_size_report,
    pack_thresholds,
    unpack_paths,
    unpack_size_report,
    unpack_thresholds,
)
from protocol.bodies.groups import GROUPS_REQUEST, GroupsChange, GroupsRequest, pack_groups, unpack_groups
from protocol.bodies.host_control import ClockReport, Conditions, Week
from protocol.bodies.host_link import HOST_LINK, HostLink
from protocol.bodies.host_state import HostState, pack_host_state, unpack_host_state
from protocol.bodies.keys import KEY_STATE, KeyState, KeyStep, pack_key_step, unpack_key_step
from protocol.bodies.pfc import PfcPause, PfcReport, PfcSettings
from protocol.bodies.text import packed_text, unpacked_text
from protocol.bodies.versions import NEWEST
from protocol.bodies.vocabulary import (
    COORDINATOR,
    HEARTBEAT_MAC,
    UNREGISTERED,
    Ack,
    Backlog,
    Coflows,
    Directive,
    Directory,
    DirectoryChange,
    DirectoryRequest,
    Error,
    ErrorCode,
    FlowReport,
    Frame,
    GateKind,
    Grant,
    Heartbeat,
    IPAddress,
    Kind,
    Leave,
    Message,
    Override,
    Paths,
    Ping,
    Pong,
    Register,
    Regulate,
    Report,
    SizeReport,
    Thresholds,
    ThresholdsRequest,
    Welcome,
    Yield,
)
from protocol.wire import (
    BODY,
    BODY_MAX,
    ETHERTYPE,
    Cause,
    Envelope,
    Layout,
    Prover,
    Refused,
    Verifier,
    check_page,
    envelope,
    seal,
    unseal,
)

__all__ = [
    "COORDINATOR", "DIRECTORY_CHANGE", "ETHERTYPE", "HEARTBEAT_MAC", "MAX_GRANTS", "UNREGISTERED", "Ack", "Backlog", "Cause",
    "ClockReport", "Coflows", "Conditions", "Directive", "Directory", "DirectoryChange", "DirectoryRequest", "Error",
    "ErrorCode", "FlowReport", "Frame", "GateKind", "Grant", "Heartbeat", "IPAddress", "Kind", "Leave", "Message",
    "Override", "Paths", "PfcPause", "PfcReport", "PfcSettings", "Ping", "Pong", "Refused", "Register", "Regulate", "Report",
    "SizeReport", "Thresholds", "ThresholdsRequest", "Week", "Welcome", "Yield", "changed_node", "decode", "encode",
]  # fmt: skip

# -- layouts: the fixed part of a body, in the order of the wire ------------------------------------------

REGULATE = COFLOWS = Layout(version="Q", page="H", pages="H")
DESTINATION = Layout(destination="I")
BACKLOG = Layout(report="Q", page="H", pages="H")
BACKLOG_ENTRY = Layout(destination="I", bytes="Q", deadline_bytes="Q")
COFLOW_ENTRY = Layout(coflow="I", queue="B")
GRANT = Layout(destination="I", slot="Q", start_ns="Q", end_ns="Q", bytes="I", rate_bps="Q")
YIELD = Layout(destination="I", slot="Q", unspent_bytes="I", backlog_bytes="Q")
ACK = Layout(slot="Q", destination="I", received_ns="Q", opened_ns="Q")
REPORT = Layout(report="Q", period_ns="Q", page="H", pages="H", entry_count="H")
REPORT_ENTRY = Layout(destination="I", bytes="Q", backlog_bytes="Q")
REPORT_COUNTER = Layout(cause="H", count="Q")
HEARTBEAT = Layout(override="B", directory_version="Q", regulate_version="Q", thresholds_version="I")
PING = Layout(sent_ns="Q")
PONG = Layout(sent_ns="Q", received_ns="Q", replied_ns="Q")
ERROR = Layout(code="H", sequence="Q")

MAX_GRANTS = BODY_MAX // GRANT.size


# -- pieces --------------------------------------------------------------------------------------------------


def _known(values: type[IntEnum], name: str, value: int) -> None:
    try:
        values(value)
    except ValueError:
        known = ", ".join(f"{v.value} ({v.name})" for v in values)
        raise ValueError(f"{name}: {value!r} must be one of {known}") from None


# -- codecs: a body from a message, a message from a body ----------------------------------------------------

Pack = Callable[[Any], bytes]
Unpack = Callable[[bytes], Message]


def _fixed(layout: Layout, message_type: Callable[..., Message]) -> tuple[Pack, Unpack]:
    """The codec of a message that consists of its layout only."""
    name = getattr(message_type, "__name__", "")
    values, whole = layout.values, layout.struct.unpack

    def pack(message: object) -> bytes:
        return layout.pack(name, *values(message))

    def unpack(body: bytes) -> Message:
        return message_type(*whole(body))

    return pack, unpack


def _pack_directive(message: Directive) -> bytes:
    grants = message.grants
    if len(grants) > MAX_GRANTS:
        raise ValueError(f"Directive.grants: {len(grants)}, at most {MAX_GRANTS}; send several directives")
    for grant in grants:
        if grant.bytes and grant.rate_bps:
            raise ValueError(f"Grant.bytes: {grant.bytes}, must be 0 as rate_bps is {grant.rate_bps}")
        if grant.end_ns < grant.start_ns:
            raise ValueError(f"Grant.end_ns: {grant.end_ns} must not be before start_ns, {grant.start_ns}")
    return GRANT.pack_rows("Directive.grants", map(GRANT.values, grants))


def _unpack_directive(body: bytes) -> Directive:
    grants = []
    for row in GRANT.struct.iter_unpack(body):
        _, _, start_ns, end_ns, size, rate_bps = row
        if end_ns < start_ns or (size and rate_bps):
            raise ValueError("grant")
        grants.append(Grant(*row))
    return Directive(tuple(grants))


def _pack_regulate(message: Regulate) -> bytes:
    head = REGULATE.pack("Regulate", *REGULATE.values(message))
    check_page("Regulate", message.page, message.pages)
    return head + DESTINATION.pack_rows("Regulate.destinations", ((d,) for d in message.destinations))


def _unpack_regulate(body: bytes) -> Regulate:
    version, page, pages = REGULATE.struct.unpack_from(body)
    check_page("", page, pages)
    rows = DESTINATION.struct.iter_unpack(body[REGULATE.size :])
    return Regulate(version, page, pages, tuple([destination for (destination,) in rows]))


def _pages_of_rows(head: Layout, row: Layout, message_type: Callable[..., Message]) -> tuple[Pack, Unpack]:
    """The codec of a message that comes in pages of `entries`, each of them a row."""
    name = getattr(message_type, "__name__", "")

    def pack(message: Any) -> bytes:  # noqa: ANN401 -- a message of that type
        start = head.pack(name, *head.values(message))
        check_page(name, message.page, message.pages)
        return start + row.pack_rows(f"{name}.entries", message.entries)

    def unpack(body: bytes) -> Message:
        number, page, pages = head.struct.unpack_from(body)
        check_page("", page, pages)
        return message_type(number, page, pages, tuple(row.struct.iter_unpack(body[head.size :])))

    return pack, unpack


def _pack_report(message: Report) -> bytes:
    values = (message.report, message.period_ns, message.page, message.pages, len(message.entries))
    head = REPORT.pack("Report", *values)
    check_page("Report", message.page, message.pages)
    entries = REPORT_ENTRY.pack_rows("Report.entries", map(REPORT_ENTRY.values, message.entries))
    return head + entries + REPORT_COUNTER.pack_rows("Report.counters", message.counters)


def _unpack_report(body: bytes) -> Report:
    report, period_ns, page, pages, count = REPORT.struct.unpack_from(body)
    check_page("", page, pages)
    middle = REPORT.size + count * REPORT_ENTRY.size
    if middle > len(body):
        raise ValueError("entries cut short")
    entries = map(FlowReport._make, REPORT_ENTRY.struct.iter_unpack(body[REPORT.size : middle]))
    counters = REPORT_COUNTER.struct.iter_unpack(body[middle:])
    return Report(period_ns, page, pages, tuple(entries), tuple(counters), report)


def _pack_heartbeat(message: Heartbeat) -> bytes:
    _known(Override, "Heartbeat.override", message.override)
    return HEARTBEAT.pack("Heartbeat", *HEARTBEAT.values(message))


def _unpack_heartbeat(body: bytes) -> Heartbeat:
    override, *versions = HEARTBEAT.struct.unpack(body)
    return Heartbeat(Override(override), *versions)


def _pack_error(message: Error) -> bytes:
    _known(ErrorCode, "Error.code", message.code)
    return ERROR.pack("Error", message.code, message.sequence) + packed_text("Error.text", message.text, BODY_MAX)


def _unpack_error(body: bytes) -> Error:
    code, sequence = ERROR.struct.unpack_from(body)
    return Error(ErrorCode(code), sequence, unpacked_text(body[ERROR.size :]))


def _pack_leave(message: Leave) -> bytes:
    return packed_text("Leave.reason", message.reason, BODY_MAX)


def _unpack_leave(body: bytes) -> Leave:
    return Leave(unpacked_text(body))


_CODECS: dict[Kind, tuple[type, tuple[Pack, Unpack]]] = {
    Kind.REGISTER: (Register, (registration.pack_register, registration.unpack_register)),
    Kind.WELCOME: (Welcome, (registration.pack_welcome, registration.unpack_welcome)),
    Kind.DIRECTORY_REQUEST: (DirectoryRequest, _fixed(DIRECTORY_REQUEST, DirectoryRequest)),
    Kind.DIRECTORY: (Directory, (pack_directory, unpack_directory)),
    Kind.REGULATE: (Regulate, (_pack_regulate, _unpack_regulate)),
    Kind.BACKLOG: (Backlog, _pages_of_rows(BACKLOG, BACKLOG_ENTRY, Backlog)),
    Kind.DIRECTIVE: (Directive, (_pack_directive, _unpack_directive)),
    Kind.YIELD: (Yield, _fixed(YIELD, Yield)),
    Kind.ACK: (Ack, _fixed(ACK, Ack)),
    Kind.REPORT: (Report, (_pack_report, _unpack_report)),
    Kind.HEARTBEAT: (Heartbeat, (_pack_heartbeat, _unpack_heartbeat)),
    Kind.PING: (Ping, _fixed(PING, Ping)),
    Kind.PONG: (Pong, _fixed(PONG, Pong)),
    Kind.LEAVE: (Leave, (_pack_leave, _unpack_leave)),
    Kind.ERROR: (Error, (_pack_error, _unpack_error)),
    Kind.COFLOWS: (Coflows, _pages_of_rows(COFLOWS, COFLOW_ENTRY, Coflows)),
    Kind.SIZE_REPORT: (SizeReport, (pack_size_report, unpack_size_report)),
    Kind.THRESHOLDS: (Thresholds, (pack_thresholds, unpack_thresholds)),
    Kind.THRESHOLDS_REQUEST: (ThresholdsRequest, _fixed(THRESHOLDS_REQUEST, ThresholdsRequest)),
    Kind.CONDITIONS: (Conditions, (host.pack_conditions, host.unpack_conditions)),
    Kind.WEEK: (Week, (host.pack_week, host.unpack_week)),
    Kind.CLOCK_REPORT: (ClockReport, (host.pack_clock_report, host.unpack_clock_report)),
    Kind.PFC_SETTINGS: (PfcSettings, (pfc.pack_settings, pfc.unpack_settings)),
    Kind.PFC_PAUSE: (PfcPause, (pfc.pack_pause, pfc.unpack_pause)),
    Kind.PFC_REPORT: (PfcReport, (pfc.pack_report, pfc.unpack_report)),
    Kind.KEY_STEP: (KeyStep, (pack_key_step, unpack_key_step)),
    Kind.KEY_STATE: (KeyState, _fixed(KEY_STATE, KeyState)),
    Kind.HOST_STATE: (HostState, (pack_host_state, unpack_host_state)),
    Kind.PATHS: (Paths, (pack_paths, unpack_paths)),
    Kind.HOST_LINK: (HostLink, _fixed(HOST_LINK, HostLink)),
    Kind.COFLOW_REPORT: (CoflowReport, (pack_coflow_report, unpack_coflow_report)),
    Kind.LOSSES: (Losses, (pack_losses, unpack_losses)),
    Kind.GROUPS_CHANGE: (GroupsChange, (pack_groups, unpack_groups)),
    Kind.GROUPS_REQUEST: (GroupsRequest, _fixed(GROUPS_REQUEST, GroupsRequest)),
    Kind.DIRECTORY_CHANGE: (DirectoryChange, (pack_directory_change, unpack_directory_change)),
    Kind.GUEST_MARKS: (GuestMarks, _fixed(GUEST_MARKS, GuestMarks)),
}
KINDS: dict[int, type] = {int(kind): cls for kind, (cls, _) in _CODECS.items()}
"""What each type of message is decoded to."""
_CODECS_BY_VERSION = {
    3: _CODECS,
    2: _CODECS
    | {
        Kind.REGISTER: (Register, (registration.pack_register_2, registration.unpack_register_2)),
        Kind.WELCOME: (Welcome, (registration.pack_welcome_2, registration.unpack_welcome_2)),
    },
}
"""What a version has of its own, and what it has as the newest one."""
_PACK: dict[int, dict[type, tuple[int, Pack]]] = {
    version: {cls: (int(kind), codec[0]) for kind, (cls, codec) in codecs.items()}
    for version, codecs in _CODECS_BY_VERSION.items()
}
_UNPACK: dict[int, dict[int, Unpack]] = {
    version: {int(kind): codec[1] for kind, (_, codec) in codecs.items()} for version, codecs in _CODECS_BY_VERSION.items()
}


def encode(
    message: Message,
    *,
    key: Prover,
    destination: bytes,
    source: bytes,
    sender: int,
    epoch: int,
    sequence: int,
    version: int = NEWEST,
) -> bytes:
    """The whole Ethernet frame (without its check sequence) that carries `message` in a version that we speak, at least 60
    bytes.

    Raises ValueError: a value is out of its field's range, or the message too long for one frame; the text names the field.
    """
    kind, body = pack_body(message, version)
    return seal(
        kind,
        body,
        key=key,
        destination=destination,
        source=source,
        sender=sender,
        epoch=epoch,
        sequence=sequence,
        version=version,
    )


def pack_body(message: Message, version: int = NEWEST) -> tuple[int, bytes]:
    """The type of a message and its body, as `seal` takes them. Raises ValueError naming a field whose value does not fit."""
    kind, pack = _PACK[version][type(message)]
    return kind, pack(message)


def decode(frame: bytes, key: Verifier) -> Frame:
    """The verified content of a frame as received, padding included.

    Raises only Refused, for any bytes: SHORT, NOT_BATON, VERSION, LENGTH, TAG, UNKNOWN_TYPE or MALFORMED.
    """
    return _content(frame, unseal(frame, key))


def decode_proven(frame: bytes) -> Frame:
    """The same of a frame that was verified elsewhere. Raises only Refused: UNKNOWN_TYPE or MALFORMED."""
    return _content(frame, envelope(frame))


def _content(frame: bytes, sealed: Envelope) -> Frame:
    destination, source, version, kind, sender, epoch, sequence, length = sealed
    unpack = _UNPACK[version].get(kind)
    if unpack is None:
        raise Refused(Cause.UNKNOWN_TYPE)
    try:
        message = unpack(frame[BODY : BODY + length])
    except (ValueError, struct.error):
        raise Refused(Cause.MALFORMED) from None
    return Frame(destination, source, sender, epoch, sequence, message, version)
