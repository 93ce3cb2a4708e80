"""The sources that report which ports of a switch forward, as a fabric file names them for each switch. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

KINDS = {
    "openflow": "",
    "ovsdb": "the OVSDB server's, such as unix:/run/openvswitch/db.sock",
    "bridge": "NAME or NAMESPACE/NAME of a Linux bridge of this machine",
    "snmp": "the SNMP agent's, such as 10.0.0.11 or 10.0.0.11:161",
}
"""Kinds of sources, and the meaning of their address; OpenFlow switches connect by themselves and need none."""
SNMP_PORT = 161
_FORMS = {"ovsdb": re.compile(r"p?(unix|tcp|ssl):\S+"), "bridge": re.compile(r"([^/\s]+/)?[^/\s]+")}
_SNMP = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]]+)(?::(\d{1,5}))?")
WITH_CREDENTIALS = frozenset({"snmp"})


class SwitchSource(NamedTuple):
    """The source for one switch. `credentials` is the name of a file; its content is never copied."""

    switch: str
    kind: str
    address: str = ""
    credentials: str = ""


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of an SNMP agent's HOST, HOST:PORT or [IPV6]:PORT. Raises ValueError."""
    match = _SNMP.fullmatch(address)
    if match is None or not 0 < (port := int(match[2] or SNMP_PORT)) < 65536:
        raise ValueError(f"{address!r} is not HOST, HOST:PORT or [IPV6]:PORT")
    return match[1].strip("[]"), port


def has_form(kind: str, address: str) -> bool:
    """Whether an address is of the form that the addresses of this kind of source have."""
    if kind != "snmp":
        return _FORMS[kind].fullmatch(address) is not None if kind in _FORMS else not address
    try:
        split_address(address)
    except ValueError:
        return False
    return True


def problems(source: SwitchSource) -> Iterator[tuple[str, str]]:
    """The mistakes in a source: (field, text with the remedy)."""
    if not source.kind:
        for field, value in (("address", source.address), ("credentials", source.credentials)):
            if value:
                yield field, f"needs a source; write source: {', '.join(KINDS)}, or remove it"
        return
    if source.kind not in KINDS:
        yield "source", f"{source.kind!r} is not a source of the tree; write {', '.join(KINDS)}"
        return
    for field, value in (("address", source.address), ("credentials", source.credentials)):
        if "\0" in value:
            yield field, "has a null byte; remove it"
    what = KINDS[source.kind]
    if what and not source.address:
        yield "address", f"is missing; write {what}"
    elif what and "\0" not in source.address and not has_form(source.kind, source.address):
        yield "address", f"{source.address!r} is not of its form; write {what}"
    if source.address and not what:
        yield "address", f"has no meaning with source: {source.kind}; remove it"
    if source.kind in WITH_CREDENTIALS and not source.credentials:
        yield "credentials", "is missing; name a file, mode 0600, with version and community, or user and passwords"
    if source.credentials and source.kind not in WITH_CREDENTIALS:
        yield "credentials", f"has no meaning with source: {source.kind}; remove it"
