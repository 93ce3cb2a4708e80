"""The names by which browsers may ask for this server: a page elsewhere must not read it by a name of its own (DNS rebinding).
Pure."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

Host = IPv4Address | IPv6Address | str


def host_of(text: str) -> Host:
    """The host of a Host header or of a setting, without its port and brackets: an address, or a name in lower case."""
    name, _, _ = text.partition(":")
    for written in (text, text.partition("]")[0].removeprefix("["), name):
        with suppress(ValueError):
            return ip_address(written)
    with suppress(UnicodeError):  # a browser writes a name in ASCII
        name = name.encode("idna").decode("ascii")
    return name.lower()


class OwnNames:
    """The hosts that requests may name: the given ones, where ".example.com" stands for every name that ends so. If none is
    given, any address of loopback and `localhost`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._ends = tuple(name.lower() for name in names if name.startswith("."))
        self._hosts = {host_of(name) for name in names if not name.startswith(".")}

    def __contains__(self, header: str) -> bool:
        """Whether a valid Host header names one of them."""
        host = host_of(header)
        if not self._hosts and not self._ends:
            return host == "localhost" if isinstance(host, str) else host.is_loopback
        return host in self._hosts or (isinstance(host, str) and host.endswith(self._ends))
