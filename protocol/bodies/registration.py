"""The bodies of REGISTER and WELCOME, in each version that we speak, with their layouts. Pure.

A name that ends in 2 is of version 2; the others are of the newest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from protocol.bodies.directory import packed_addresses, read_addresses
from protocol.bodies.text import packed_text, unpacked_text
from protocol.bodies.versions import Versions
from protocol.bodies.vocabulary import GateKind, Register, Welcome
from protocol.wire import BODY_MAX, Layout

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

TEXT_BYTES_MAX = 255
_ALL_GATES = int(GateKind.TBF | GateKind.PLUG)
_WELCOME: Callable[..., Welcome] = Welcome
_VALUE = struct.Struct("!QQ")


def pack_register(message: Register) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    _range("Register.versions", message.versions)
    return _register(message, REGISTER, message.versions)


def pack_register_2(message: Register) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    return _register(message, REGISTER_2, ())


def unpack_register(body: bytes) -> Register:
    """Raises ValueError or struct.error: not such a body."""
    *head, lowest, highest = REGISTER.struct.unpack_from(body)
    return _registered(body, REGISTER.size, head, Versions(lowest, highest))


def unpack_register_2(body: bytes) -> Register:
    """Raises ValueError or struct.error: not such a body."""
    return _registered(body, REGISTER_2.size, REGISTER_2.struct.unpack_from(body), Versions(2, 2))


def _register(message: Register, layout: Layout, versions: Iterable[int]) -> bytes:
    name = packed_text("Register.name", message.name, TEXT_BYTES_MAX)
    version = packed_text("Register.version", message.version, TEXT_BYTES_MAX)
    addresses = packed_addresses("Register.addresses", message.addresses)
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
    addresses, stop = read_addresses(body, version_end, count)
    if stop != len(body) or gates > _ALL_GATES:
        raise ValueError("register")
    _range("", versions)
    name, version = unpacked_text(body[size:name_end]), unpacked_text(body[name_end:version_end])
    return Register(name, nonce, rate_bps, addresses, GateKind(gates), version, versions)


def pack_welcome(message: Welcome) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    _range("Welcome.versions", message.versions)
    if len(message.value) != _VALUE.size:
        raise ValueError(f"Welcome.value: {len(message.value)} bytes, must be {_VALUE.size}")
    more = message.version, *message.versions, message.place, *_VALUE.unpack(message.value)
    return WELCOME.pack("Welcome", *WELCOME_2.values(message), *more)


def unpack_welcome(body: bytes) -> Welcome:
    """Raises ValueError or struct.error: not such a body."""
    *values, lowest, highest, place, high, low = WELCOME.struct.unpack(body)
    versions = Versions(lowest, highest)
    _range("", versions)
    return _WELCOME(*values, versions, place, _VALUE.pack(high, low))


def pack_welcome_2(message: Welcome) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    return WELCOME_2.pack("Welcome", *WELCOME_2.values(message))


def unpack_welcome_2(body: bytes) -> Welcome:
    """Raises ValueError or struct.error: not such a body."""
    return _WELCOME(*WELCOME_2.struct.unpack(body), 2, Versions(2, 2))


def _range(name: str, versions: Versions) -> None:
    if versions.lowest > versions.highest:
        raise ValueError(f"{name}: {versions.lowest} must not be above {versions.highest}")
