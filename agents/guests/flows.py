"""Flows of guests, by address and port: how people write them, and how the kernel's table names them. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from agents.queues.classifier import Address, packed

ANY_BRIDGE_PORT, ANY_SOURCE_PORT, ANY_TARGET_PORT = 1, 2, 4
"""What a mark leaves open, in bits: a shape of agents/bpf/guest_marks.h."""
KEY = struct.Struct("=16s16s4sI")
_PORTS = struct.Struct("!HH")
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class Flows:
    """Flows of TCP and UDP from an address to an address; port 0 is any.

    `bridge_port` is the index of the interface at which their packets come to the bridge; 0: any.
    """

    source: Address
    target: Address
    source_port: int = 0
    target_port: int = 0
    bridge_port: int = 0

    @property
    def shape(self) -> int:
        """What is left open."""
        return (
            (0 if self.bridge_port else ANY_BRIDGE_PORT)
            | (0 if self.source_port else ANY_SOURCE_PORT)
            | (0 if self.target_port else ANY_TARGET_PORT)
        )

    def key(self) -> bytes:
        """As a `struct guest_key` of agents/bpf/tagger.h."""
        ports = _PORTS.pack(self.source_port, self.target_port)
        return KEY.pack(packed(self.source), packed(self.target), ports, self.bridge_port)


def parse_end(name: str, text: object) -> tuple[Address, int]:
    """An end of a flow as people write it: `10.0.0.5`, `10.0.0.5:80`, `fd00::5`, `[fd00::5]:80`; port 0 if there is none.

    Raises:
        ValueError: it is not one; begins with `name`.
    """
    if not isinstance(text, str):
        raise ValueError(f"{name}: {text!r} is not a text; write one such as 10.0.0.9:5432")
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        if port and not port.startswith(":"):
            raise ValueError(f"{name}: {text[:80]!r} goes on after the bracket; write one such as [fd00::9]:5432")
        port = port[1:] if port else ""
        empty = text.endswith("]:")
    else:
        if text.count(":") == 1:
            host, _, port = text.partition(":")
        empty = text.count(":") == 1 and not port
    try:
        # A zone (%eth0) means nothing to the kernel's table: with one, others' marks would seem to be other flows'.
        address = unmapped(ip_address(host if "%" not in host else ""))
    except ValueError:
        raise ValueError(f"{name}: {host[:80]!r} is no IP address; write one such as 10.0.0.9:5432 or [fd00::9]:5432") from None
    if address.is_multicast or address.is_unspecified or address.is_loopback:
        raise ValueError(f"{name}: {address} is not the address of one host; marks are for flows between two hosts")
    if empty or (port and not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= PORT_MAX)):
        raise ValueError(f"{name}: port {port[:80]!r} is not from 1 to {PORT_MAX}; leave it out for any port")
    return address, int(port or 0)


def format_end(address: Address, port: int) -> str:
    """What `parse_end` reads."""
    if not port:
        return str(address)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def unmapped(address: IPv4Address | IPv6Address) -> Address:
    """IPv4 where it is mapped into IPv6, as the addresses of a socket for both are."""
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return inner if inner is not None else address
