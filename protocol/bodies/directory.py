"""The bodies of DIRECTORY, DIRECTORY_CHANGE and DIRECTORY_REQUEST, with their layouts, and addresses as bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from protocol.bodies.vocabulary import Directory, DirectoryChange, IPAddress
from protocol.wire import Layout, check_page

DIRECTORY_REQUEST = Layout(version="Q")
DIRECTORY = Layout(version="Q", page="H", pages="H")
DIRECTORY_ENTRY = Layout(node="I", address_count="B")
DIRECTORY_CHANGE = Layout(base="Q", version="Q")
CHANGED_NODE = Layout(node="I", member="B", address_count="B")

ADDRESS_COUNT_MAX = 255
ENTRIES_KEPT = 16_384
"""Packed entries of directories: a leader sends the same ones again and again while thousands of hosts join."""


def packed_addresses(name: str, addresses: Iterable[IPAddress]) -> bytes:
    """Addresses as bytes. Raises ValueError naming the field: one has a scope, or there are too many."""
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


def read_addresses(body: bytes, at: int, count: int) -> tuple[tuple[IPAddress, ...], int]:
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


@lru_cache(ENTRIES_KEPT)
def directory_entry(node: int, addresses: tuple[IPAddress, ...]) -> bytes:
    """One entry of a Directory as bytes. Raises ValueError: a field does not fit; names it."""
    packed = packed_addresses("Directory.entries", addresses)
    return DIRECTORY_ENTRY.pack("Directory.entries", node, len(addresses)) + packed


def pack_directory(message: Directory) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    head = DIRECTORY.pack("Directory", *DIRECTORY.values(message))
    check_page("Directory", message.page, message.pages)
    return head + b"".join([directory_entry(node, addresses) for node, addresses in message.entries])


def unpack_directory(body: bytes) -> Directory:
    """Raises ValueError or struct.error: not such a body."""
    version, page, pages = DIRECTORY.struct.unpack_from(body)
    check_page("", page, pages)
    at = DIRECTORY.size
    entries = []
    while at < len(body):
        node, count = DIRECTORY_ENTRY.struct.unpack_from(body, at)
        addresses, at = read_addresses(body, at + DIRECTORY_ENTRY.size, count)
        entries.append((node, addresses))
    return Directory(version, page, pages, tuple(entries))


@lru_cache(ENTRIES_KEPT)
def changed_node(node: int, member: bool, addresses: tuple[IPAddress, ...]) -> bytes:
    """One entry of a DirectoryChange as bytes. Raises ValueError: a field does not fit; names it."""
    packed = packed_addresses("DirectoryChange.entries", addresses)
    return CHANGED_NODE.pack("DirectoryChange.entries", node, int(member), len(addresses)) + packed


def pack_directory_change(message: DirectoryChange) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if message.base >= message.version:
        raise ValueError(f"DirectoryChange.base: {message.base} must be less than version, which is {message.version}")
    head = DIRECTORY_CHANGE.pack("DirectoryChange", message.base, message.version)
    return head + b"".join([changed_node(*entry) for entry in message.entries])


def unpack_directory_change(body: bytes) -> DirectoryChange:
    """Raises ValueError or struct.error: not such a body."""
    base, version = DIRECTORY_CHANGE.struct.unpack_from(body)
    at, entries = DIRECTORY_CHANGE.size, []
    while at < len(body):
        node, member, count = CHANGED_NODE.struct.unpack_from(body, at)
        addresses, at = read_addresses(body, at + CHANGED_NODE.size, count)
        if member > 1 or (addresses and not member):
            raise ValueError("changed node")
        entries.append((node, bool(member), addresses))
    if base >= version:
        raise ValueError("versions")
    return DirectoryChange(base, version, tuple(entries))
