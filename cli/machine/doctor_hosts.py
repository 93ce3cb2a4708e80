"""What differs between the hosts of a fabric, and what to do: for `baton doctor --hosts`. Pure; `show` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

OFFSET_US = 50_000
"""How far wall clocks may be apart: what orders two hosts' log lines, and far within a certificate's or a token's validity."""
UNCERTAINTY_US = 2_000
"""An agent that knows the time no better than this opens its slots late or over others'."""
SILENT_MS = 1_000
SAME = (
    ("kernel", "kernel", "install the same kernel: gates and timers differ between releases"),
    ("version", "version", "install the same version of Baton there, and restart its agent"),
    ("gate", "gate", "see `baton doctor` on that host for what its kernel lacks"),
    ("key", "key", "finish the change: `baton key rotate`, or put the fabric's key file there and restart its agent"),
)
"""What should be the same on all hosts: field, its name, the remedy."""

Member = Mapping[str, Any]


class Finding(NamedTuple):
    """Something to mend. `host` is empty when it is the fabric's."""

    host: str
    what: str
    found: str
    remedy: str


def rows(members: Mapping[int, Member]) -> list[dict[str, Any]]:
    """What each host says of itself, by node id."""
    fields = ("name", "kernel", "version", "gate", "key", "offset_us", "uncertainty_us", "put_back", "drift", "heard_ms_ago")
    return [{"node": node} | {name: member.get(name) for name in fields} for node, member in sorted(members.items())]


def findings(
    members: Mapping[int, Member], status: Mapping[str, Any] | None, fabric: Mapping[str, Any] | None
) -> list[Finding]:
    """All that differs or is amiss, the fabric's first, then by host."""
    found = [*_of_fabric(members, status, fabric)]
    for member in sorted(members.values(), key=lambda one: str(one.get("name"))):
        found += _of_host(member)
    for field, what, remedy in SAME:
        found += _odd_ones(members.values(), field, what, remedy)
    return sorted(found, key=lambda one: (bool(one.host), one.host))


def _of_fabric(
    members: Mapping[int, Member], status: Mapping[str, Any] | None, fabric: Mapping[str, Any] | None
) -> Iterator[Finding]:
    if status is None:
        yield Finding("", "coordinator", "does not speak", "see `baton status` and coordinator.log; every gate is open")
        return
    if strangers := status.get("refused", {}).get("tag", 0):
        remedy = "a host below without an agent may have another key: compare its key file, `baton doctor` there"
        yield Finding("", "frames of another key", f"{strangers} refused", remedy)
    for text in status.get("unplaced", ()):
        yield Finding(str(text), "place", "not found in the fabric", "plug it into a switch of the fabric, or add it there")
    known = {str(address) for member in members.values() for address in member.get("addresses", ())}
    names = {str(member.get("name")) for member in members.values()}
    macs = {str(member.get("mac")) for member in members.values()} | {str(status.get("mac"))}
    for host in (fabric or {}).get("fabric", {}).get("hosts", ()):
        if host["name"] in names or host.get("mac") in macs or known.intersection(map(str, host.get("addresses", ()))):
            continue
        remedy = "start its agent (`baton install-units --role agent`); with one that runs: same key? see its log"
        yield Finding(host["name"], "agent", "not a member: it sends freely", remedy)


def _of_host(member: Member) -> Iterator[Finding]:
    name = str(member.get("name"))
    if (ago_ms := member.get("heard_ms_ago", 0)) > SILENT_MS:
        yield Finding(name, "silence", f"last heard {ago_ms / 1000:.1f} s ago", "see that its agent runs and its link is up")
    offset, uncertainty = member.get("offset_us"), member.get("uncertainty_us") or 0
    if offset is not None and abs(offset) - uncertainty > OFFSET_US:
        text = f"{offset / 1000:+.0f} ms from the controller's"
        yield Finding(name, "wall clock", text, "keep it by NTP (chrony) on both; slots are not concerned, logs are")
    if uncertainty > UNCERTAINTY_US:
        remedy = "its control frames are slow: real-time priority, interrupts, a loaded switch"
        yield Finding(name, "clock known to", f"{uncertainty / 1000:.1f} ms", remedy)
    for line in member.get("drift") or ():
        remedy = "find what changes it (a network manager, another tool) and end that; it was put back"
        yield Finding(name, "drift", str(line), remedy)
    for line in member.get("suspect") or ():
        yield Finding(name, "suspect", str(line), "see docs/security.md: what stops it, and what to do")
    if refused := {cause: count for cause, count in (member.get("refused") or {}).items() if count}:
        text = ", ".join(f"{cause}: {count}" for cause, count in refused.items())
        yield Finding(name, "frames it refused", text, "see the causes in protocol/PROTOCOL.md; who else sends control frames?")


def _odd_ones(members: Iterable[Member], field: str, what: str, remedy: str) -> Iterator[Finding]:
    """Those that differ from most of the others."""
    values = {str(member.get("name")): str(member[field]) for member in members if member.get(field)}
    if len(set(values.values())) < 2:
        return
    usual, _ = min(Counter(values.values()).items(), key=lambda item: (-item[1], item[0]))
    for name, value in values.items():
        if value != usual:
            yield Finding(name, what, f"{value}, most have {usual}", remedy)


def show(hosts: list[dict[str, Any]], found: list[Finding]) -> None:
    """Prints both as tables."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table("node", "name", "kernel", "version", "gate", "key", "clock", "put back", title_justify="left")
    for host in hosts:
        offset, unsure = host["offset_us"], host["uncertainty_us"]
        clock = "" if offset is None else f"{offset / 1000:+.1f} ± {unsure / 1000:.1f} ms"
        cells = (host["node"], host["name"], host["kernel"], host["version"], host["gate"], (host["key"] or "")[:8], clock)
        table.add_row(*(Text(str(cell if cell is not None else "")) for cell in (*cells, host["put_back"])))
    console.print(table)
    if not found:
        console.print(f"{len(hosts)} hosts agree", style="green")
        return
    problems = Table("host", "what", "found", "what to do", title_justify="left")
    for one in found:
        problems.add_row(*(Text(cell) for cell in (one.host or "fabric", *one[1:])))
    console.print(problems)
