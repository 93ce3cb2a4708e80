"""A coflow as its application describes it: its document in the store, checked. Pure.

The document: {"name", "opened_ns", "expires_ns", "deadline_ns" or null, "size_bytes" or null, "flows": [[source, destination,
bytes]]}. Instants (ns) are by the store's clock. `flows` is empty where the application does not know them; hosts are named as
in the fabric. A document of an older Baton has no `flows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from protocol.flowmark import CoflowMark

MOST_FLOWS = 4096
"""Of one coflow: pairs of hosts, in a document that the controller reads at each change."""
MOST_BYTES = 1 << 62


class Flow(NamedTuple):
    """The bytes that a coflow sends from one host to another, all connections together."""

    source: str
    destination: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Coflow:
    """A coflow that is open; instants (ns) are all by one clock. `size_bytes`: of all its flows, if known."""

    coflow: int
    opened_ns: int
    expires_ns: int
    deadline_ns: int | None = None
    size_bytes: int | None = None
    flows: tuple[Flow, ...] = ()
    verdict: str | None = None
    """What an earlier leader decided about its deadline (`controller.coflows.deadlines`)."""

    @property
    def declared_bytes(self) -> int | None:
        """What it sends in all; None: unknown."""
        return sum(flow.size_bytes for flow in self.flows) if self.flows else self.size_bytes


def checked_flows(flows: Iterable[tuple[str, str, int]]) -> tuple[Flow, ...]:
    """The flows, those of one pair of hosts together.

    Raises:
        ValueError: a flow that there cannot be; the text names its field.
    """
    found: dict[tuple[str, str], int] = {}
    for at, flow in enumerate(flows):
        if not isinstance(flow, tuple | list) or len(flow) != 3:
            raise ValueError(f"flows[{at}]: {flow!r} is not a source, a destination and bytes; write h1:h2:5MB")
        source, destination, size = flow
        for name, host in (("source", source), ("destination", destination)):
            if not isinstance(host, str) or not host:
                raise ValueError(f"flows[{at}].{name}: {host!r} is no host; write its name in the fabric, such as h1")
        if source == destination:
            raise ValueError(f"flows[{at}].destination: {destination!r} is the source, too; leave out what stays on a host")
        check_size(f"flows[{at}].size_bytes", size)
        found[source, destination] = found.get((source, destination), 0) + size
        if found[source, destination] > MOST_BYTES:
            raise ValueError(f"flows[{at}].size_bytes: with those before, {source} sends {destination} more than 2^62 bytes")
    if len(found) > MOST_FLOWS:
        raise ValueError(f"flows: {len(found)} pairs of hosts, at most {MOST_FLOWS}; give the sum of their bytes alone")
    return tuple(Flow(*pair, size) for pair, size in found.items())


def check_size(field: str, size: object) -> None:
    """Raises ValueError, naming the field: there cannot be so many bytes."""
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MOST_BYTES:
        raise ValueError(f"{field}: {size!r} must be a whole number of bytes, above 0 and at most 2^62")


def read(number: int, document: Mapping[str, Any], ahead_ns: int) -> Coflow:
    """A coflow from its document; the store's clock is `ahead_ns` ahead of ours.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: not such a document, or no id that a coflow can have.
    """
    CoflowMark(number)
    deadline_ns, size = document["deadline_ns"], document["size_bytes"]
    if size is not None:
        check_size("size_bytes", size)
    return Coflow(
        coflow=number,
        opened_ns=document["opened_ns"] - ahead_ns,
        expires_ns=document["expires_ns"] - ahead_ns,
        deadline_ns=None if deadline_ns is None else deadline_ns - ahead_ns,
        size_bytes=size,
        flows=checked_flows(document.get("flows", ())),
        verdict=document.get("verdict", {}).get("deadline"),
    )
