"""Whether an address is this machine's alone. Pure; without pydantic, which the processes do not import."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there; an empty host stands for every address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
