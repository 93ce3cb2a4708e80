"""Messages as bytes: the layout of each body, and `encode` and `decode` of whole frames. Pure.

PROTOCOL.md is the contract. A body consists of the fields of its layout, then rows, addresses or text, as its codec below
defines. Every message has a single encoding: `encode` reproduces what `decode` accepts byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from protocol.bodies import host_control as host
from protocol.bodies import pfc
from protocol.bodies.host_control import ClockReport, Conditions, Week
from protocol.bodies.host_link import HOST_LINK, HostLink
from protocol.bodies.host_state import HostState, pack_host_state, unpack_host_state
from protocol.bodies.keys import KEY_STATE, KeyState, KeyStep, pack_key_step, unpack_key_step
from protocol.bodies.losses import Losses, pack_losses, unpack_losses
from protocol.bodies.pfc import PfcPause, PfcReport, PfcSettings
from protocol.bodies.priorities import (
    THRESHOLDS_REQUEST,
    pack_paths,
    pack_size_report,
    pack_thresholds,
    unpack_paths,
    unpack_size_report,
    unpack_thresholds,
)
from protocol.bodies.text import packed_text, unpacked_text
from protocol.bodies.versions import NEWEST, Versions
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
from protocol.wire import BODY, BODY_MAX, ETHERTYPE, Cause, Layout, Prover, Refused, Verifier, seal, unseal

__all__ = [
    "COORDINATOR", "ETHERTYPE", "HEARTBEAT_MAC", "MAX_GRANTS", "UNREGISTERED", "Ack", "Backlog", "Cause", "ClockReport",
    "Coflows", "Conditions", "Directive", "Directory", "DirectoryChange",
    "DirectoryRequest", "Error", "ErrorCode", "FlowReport",
    "Frame", "GateKind", "Grant", "Heartbeat", "IPAddress", "Kind", "Leave", "Message", "Override", "Paths", "PfcPause",
    "PfcReport", "PfcSettings", "Ping", "Pong", "Refused", "Register", "Regulate", "Report", "SizeReport",
    "Thresholds", "ThresholdsRequest", "Week", "Welcome", "Yield", "decode", "encode",
]  # fmt: skip

# -- layouts: the fixed part of each body, in the order of the wire ------------------------------------------

REGISTER = Layout(
    nonce="Q", rate_bps="Q", gates="B", name_bytes="B", version_bytes="B", address_count="B", lowest="B", highest="B",
)  # fmt: skip
WELCOME = Layout(
    nonce="Q", node="I", heartbeat_ns="Q", fail_open_ns="Q", yield_hysteresis_ns="Q", mice_bytes="Q",
    mice_rate_bps="Q", report_ns="Q", version="B", lowest="B", highest="B", place="Q", value_high="Q", value_low="Q",
)  # fmt: skip
REGISTER_2 = Layout(nonce="Q", rate_bps="Q", gates="B", name_bytes="B", version_bytes="B", address_count="B")
WELCOME_2 = Layout(
    nonce="Q", node="I", heartbeat_ns="Q", fail_open_ns="Q", yield_hysteresis_ns="Q", mice_bytes="Q",
    mice_rate_bps="Q", report_ns="Q",
)  # fmt: skip
DIRECTORY_REQUEST = Layout(version="Q")
DIRECTORY = REGULATE = COFLOWS = Layout(version="Q", page="H", pages="H")
DIRECTORY_ENTRY = Layout(node="I", address_count="B")
DIRECTORY_CHANGE = Layout(base="Q", version="Q")
CHANGED_NODE = Layout(node="I", member="B", address_count="B")
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
TEXT_BYTES_MAX = ADDRESS_COUNT_MAX = 255
_ALL_GATES = int(GateKind.TBF | GateKind.PLUG)


# -- pieces --------------------------------------------------------------------------------------------------


def _known(values: type[IntEnum], name: str, value: int) -> None:
    try:
        values(value)
    except ValueError:
        known = ", ".join(f"{v.value} ({v.name})" for v in values)
        raise ValueError(f"{name}: {value!r} must be one of {known}") from None


def _range(name: str, versions: Versions) -> None:
    if versions.lowest > versions.highest:
        raise ValueError(f"{name}: {versions.lowest} must not be above {versions.highest}")


def _paged(name: str, page: int, pages: int) -> None:
    if page >= pages:
        raise ValueError(f"{name}.page: {page} must be less than pages, which is {pages}")


def _addresses(name: str, addresses: Iterable[IPAddress]) -> bytes:
    parts: list[bytes] = []
    for address in addresses:
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            raise ValueError(f"{name}: {address} must not have a scope")
        if not isinstance(address, IPv4Address | IPv6Address):
            raise ValueError(f"{name}: {address!r} must be an IPv4Address or IPv6Address")
        parts += (bytes((address.version,)), address.packed)
    if len(parts) > 2 * ADDRESS_COUNT_MAX:
        raise ValueError(f"{name}: {len(parts) // 2} addresses, at most {ADDRESS_COUNT_MAX}")
    return b"".join(parts)


def _read_addresses(body: bytes, at: int, count: int) -> tuple[tuple[IPAddress, ...], int]:
    """`count` addresses from offset `at`, and the offset of their end; the address classes refuse truncated ones."""
    addresses: list[IPAddress] = []
    for _ in range(count):
        family = body[at : at + 1]
        if family == b"\x04":
            addresses.append(IPv4Address(body[at + 1 : at + 5]))
            at += 5
        elif family == b"\x06":
            addresses.append(IPv6Address(body[at + 1 : at + 17]))
            at += 17
        else:
            raise ValueError("address family")
    return tuple(addresses), at


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
    _paged("Regulate", message.page, message.pages)
    return head + DESTINATION.pack_rows("Regulate.destinations", ((d,) for d in message.destinations))


def _unpack_regulate(body: bytes) -> Regulate:
    version, page, pages = REGULATE.struct.unpack_from(body)
    _paged("", page, pages)
    rows = DESTINATION.struct.iter_unpack(body[REGULATE.size :])
    return Regulate(version, page, pages, tuple([destination for (destination,) in rows]))


def _pages_of_rows(head: Layout, row: Layout, message_type: Callable[..., Message]) -> tuple[Pack, Unpack]:
    """The codec of a message that comes in pages of `entries`, each of them a row."""
    name = getattr(message_type, "__name__", "")

    def pack(message: Any) -> bytes:  # noqa: ANN401 -- a message of that type
        start = head.pack(name, *head.values(message))
        _paged(name, message.page, message.pages)
        return start + row.pack_rows(f"{name}.entries", message.entries)

    def unpack(body: bytes) -> Message:
        number, page, pages = head.struct.unpack_from(body)
        _paged("", page, pages)
        return message_type(number, page, pages, tuple(row.struct.iter_unpack(body[head.size :])))

    return pack, unpack


def _pack_report(message: Report) -> bytes:
    values = (message.report, message.period_ns, message.page, message.pages, len(message.entries))
    head = REPORT.pack("Report", *values)
    _paged("Report", message.page, message.pages)
    entries = REPORT_ENTRY.pack_rows("Report.entries", map(REPORT_ENTRY.values, message.entries))
    return head + entries + REPORT_COUNTER.pack_rows("Report.counters", message.counters)


def _unpack_report(body: bytes) -> Report:
    report, period_ns, page, pages, count = REPORT.struct.unpack_from(body)
    _paged("", page, pages)
    middle = REPORT.size + count * REPORT_ENTRY.size
    if middle > len(body):
        raise ValueError("entries cut short")
    entries = REPORT_ENTRY.struct.iter_unpack(body[REPORT.size : middle])
    counters = REPORT_COUNTER.struct.iter_unpack(body[middle:])
    flows = tuple([FlowReport(*row) for row in entries])
    return Report(period_ns, page, pages, flows, tuple(counters), report)


def _pack_register(message: Register) -> bytes:
    _range("Register.versions", message.versions)
    return _register(message, REGISTER, message.versions)


def _pack_register_2(message: Register) -> bytes:
    return _register(message, REGISTER_2, ())


def _unpack_register(body: bytes) -> Register:
    *head, lowest, highest = REGISTER.struct.unpack_from(body)
    return _registered(body, REGISTER.size, head, Versions(lowest, highest))


def _unpack_register_2(body: bytes) -> Register:
    return _registered(body, REGISTER_2.size, REGISTER_2.struct.unpack_from(body), Versions(2, 2))


def _register(message: Register, layout: Layout, versions: Iterable[int]) -> bytes:
    name = packed_text("Register.name", message.name, TEXT_BYTES_MAX)
    version = packed_text("Register.version", message.version, TEXT_BYTES_MAX)
    addresses = _addresses("Register.addresses", message.addresses)
    if message.gates & _ALL_GATES != message.gates:
        raise ValueError(f"Register.gates: {message.gates!r} must be a union of TBF (1) and PLUG (2)")
    counts = (len(name), len(version), len(message.addresses))
    body = layout.pack("Register", message.nonce, message.rate_bps, int(message.gates), *counts, *versions)
    body += name + version + addresses
    if len(body) > BODY_MAX:
        raise ValueError(f"Register.addresses: {len(message.addresses)} do not fit in a frame")
    return body


def _registered(body: bytes, size: int, head: Iterable[int], versions: Versions) -> Register:
    nonce, rate_bps, gates, name_bytes, version_bytes, count = head
    name_end = size + name_bytes
    version_end = name_end + version_bytes
    addresses, stop = _read_addresses(body, version_end, count)
    if stop != len(body) or gates > _ALL_GATES:
        raise ValueError("register")
    _range("", versions)
    name, version = unpacked_text(body[size:name_end]), unpacked_text(body[name_end:version_end])
    return Register(name, nonce, rate_bps, addresses, GateKind(gates), version, versions)


_WELCOME: Callable[..., Welcome] = Welcome
_VALUE = struct.Struct("!QQ")


def _pack_welcome(message: Welcome) -> bytes:
    _range("Welcome.versions", message.versions)
    if len(message.value) != _VALUE.size:
        raise ValueError(f"Welcome.value: {len(message.value)} bytes, must be {_VALUE.size}")
    more = message.version, *message.versions, message.place, *_VALUE.unpack(message.value)
    return WELCOME.pack("Welcome", *WELCOME_2.values(message), *more)


def _unpack_welcome(body: bytes) -> Welcome:
    *values, lowest, highest, place, high, low = WELCOME.struct.unpack(body)
    versions = Versions(lowest, highest)
    _range("", versions)
    return _WELCOME(*values, versions, place, _VALUE.pack(high, low))


def _pack_welcome_2(message: Welcome) -> bytes:
    return WELCOME_2.pack("Welcome", *WELCOME_2.values(message))


def _unpack_welcome_2(body: bytes) -> Welcome:
    return _WELCOME(*WELCOME_2.struct.unpack(body), 2, Versions(2, 2))


def directory_entry(node: int, addresses: tuple[IPAddress, ...]) -> bytes:
    """One entry of a Directory as bytes. Raises ValueError: a field does not fit; names it."""
    packed = _addresses("Directory.entries", addresses)
    return DIRECTORY_ENTRY.pack("Directory.entries", node, len(addresses)) + packed


def _pack_directory(message: Directory) -> bytes:
    head = DIRECTORY.pack("Directory", *DIRECTORY.values(message))
    _paged("Directory", message.page, message.pages)
    return head + b"".join([directory_entry(node, addresses) for node, addresses in message.entries])


def _unpack_directory(body: bytes) -> Directory:
    version, page, pages = DIRECTORY.struct.unpack_from(body)
    _paged("", page, pages)
    at = DIRECTORY.size
    entries = []
    while at < len(body):
        node, count = DIRECTORY_ENTRY.struct.unpack_from(body, at)
        addresses, at = _read_addresses(body, at + DIRECTORY_ENTRY.size, count)
        entries.append((node, addresses))
    return Directory(version, page, pages, tuple(entries))


def changed_node(node: int, member: bool, addresses: tuple[IPAddress, ...]) -> bytes:
    """One entry of a DirectoryChange as bytes. Raises ValueError: a field does not fit; names it."""
    packed = _addresses("DirectoryChange.entries", addresses)
    return CHANGED_NODE.pack("DirectoryChange.entries", node, int(member), len(addresses)) + packed


def _pack_directory_change(message: DirectoryChange) -> bytes:
    if message.base >= message.version:
        raise ValueError(f"DirectoryChange.base: {message.base} must be less than version, which is {message.version}")
    head = DIRECTORY_CHANGE.pack("DirectoryChange", message.base, message.version)
    return head + b"".join([changed_node(*entry) for entry in message.entries])


def _unpack_directory_change(body: bytes) -> DirectoryChange:
    base, version = DIRECTORY_CHANGE.struct.unpack_from(body)
    at, entries = DIRECTORY_CHANGE.size, []
    while at < len(body):
        node, member, count = CHANGED_NODE.struct.unpack_from(body, at)
        addresses, at = _read_addresses(body, at + CHANGED_NODE.size, count)
        if member > 1 or (addresses and not member):
            raise ValueError("changed node")
        entries.append((node, bool(member), addresses))
    if base >= version:
        raise ValueError("versions")
    return DirectoryChange(base, version, tuple(entries))


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
    Kind.REGISTER: (Register, (_pack_register, _unpack_register)),
    Kind.WELCOME: (Welcome, (_pack_welcome, _unpack_welcome)),
    Kind.DIRECTORY_REQUEST: (DirectoryRequest, _fixed(DIRECTORY_REQUEST, DirectoryRequest)),
    Kind.DIRECTORY: (Directory, (_pack_directory, _unpack_directory)),
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
    Kind.LOSSES: (Losses, (pack_losses, unpack_losses)),
    Kind.DIRECTORY_CHANGE: (DirectoryChange, (_pack_directory_change, _unpack_directory_change)),
}
_CODECS_BY_VERSION = {
    3: _CODECS,
    2: _CODECS
    | {
        Kind.REGISTER: (Register, (_pack_register_2, _unpack_register_2)),
        Kind.WELCOME: (Welcome, (_pack_welcome_2, _unpack_welcome_2)),
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
    kind, pack = _PACK[version][type(message)]
    return seal(
        kind,
        pack(message),
        key=key,
        destination=destination,
        source=source,
        sender=sender,
        epoch=epoch,
        sequence=sequence,
        version=version,
    )


def decode(frame: bytes, key: Verifier) -> Frame:
    """The verified content of a frame as received, padding included.

    Raises only Refused, for any bytes: SHORT, NOT_BATON, VERSION, LENGTH, TAG, UNKNOWN_TYPE or MALFORMED.
    """
    destination, source, version, kind, sender, epoch, sequence, length = unseal(frame, key)
    unpack = _UNPACK[version].get(kind)
    if unpack is None:
        raise Refused(Cause.UNKNOWN_TYPE)
    try:
        message = unpack(frame[BODY : BODY + length])
    except (ValueError, struct.error):
        raise Refused(Cause.MALFORMED) from None
    return Frame(destination, source, sender, epoch, sequence, message, version)
