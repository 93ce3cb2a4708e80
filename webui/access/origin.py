"""The origin of a request: the address whose connections and attempts are counted together. Pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network


def origin_of(address: str | None) -> str:
    """An IPv4 address, or the /64 that one IPv6 host has for itself; empty for what is no address."""
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        mapped = found.ipv4_mapped
        return str(ip_network((found, 64), strict=False)) if mapped is None else str(mapped)
    return str(found)
