"""Finds what differs between the hosts of a fabric, with remedies, for `baton doctor --hosts`. Pure, but for `show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from protocol.wire import Cause

OFFSET_US = 50_000
"""How far wall clocks may be apart: close enough to order two hosts' log lines and to judge certificates and tokens."""
UNCERTAINTY_US = 2_000
"""An agent that is less certain of the leader's clock opens its gates late, or during other hosts' slots."""
SILENT_MS = 1_000
SAME = (
    ("kernel", "kernel", "install the same kernel: gates and timers differ between releases"),
    ("version", "version", "install the same version of Baton there, and restart its agent"),
    ("wire", "version of the wire", "finish the upgrade: install the newer version of Baton there, and restart its agent"),
    ("gate", "gate", "see `baton doctor` on that host for what its kernel lacks"),
    ("key", "key", "finish the change: `baton key rotate`, or put the host's new file there and restart its agent"),
)
"""What should be the same on all hosts: the field, its name for people, the remedy."""

Member = Mapping[str, Any]


class HostProblem(NamedTuple):
    """A problem of one host, or of the whole fabric if `host` is empty, and its remedy."""

    host: str
    what: str
    found: str
    remedy: str


def rows(members: Mapping[int, Member]) -> list[dict[str, Any]]:
    """The state that each host reports, by node id."""
    fields = (
        "name", "kernel", "version", "wire", "gate", "key", "offset_us", "uncertainty_us", "put_back", "drift", "heard_ms_ago",
    )  # fmt: skip
    return [{"node": node} | {name: member.get(name) for name in fields} for node, member in sorted(members.items())]


def findings(
    members: Mapping[int, Member],
    status: Mapping[str, Any] | None,
    fabric: Mapping[str, Any] | None,
    *,
    before: Mapping[int, Member] | None = None,
) -> list[HostProblem]:
    """All problems and differences: those of the fabric first, then those of each host. `before`: the members some time ago,
    since when refused frames count."""
    found = [*_of_fabric(members, status, fabric)]
    if not members and not found:
        remedy = "start agents (`baton install-units --role agent`); if they run, compare their keys and see their logs"
        found.append(HostProblem("", "agents", "no host is a member: there is nothing to compare", remedy))
    for node, member in sorted(members.items(), key=lambda one: str(one[1].get("name"))):
        found += _of_host(member, (before or {}).get(node, {}))
    for field, what, remedy in SAME:
        found += _odd_ones(members.values(), field, what, remedy)
    return sorted(found, key=lambda one: (bool(one.host), one.host))


def _of_fabric(
    members: Mapping[int, Member], status: Mapping[str, Any] | None, fabric: Mapping[str, Any] | None
) -> Iterator[HostProblem]:
    if status is None:
        yield HostProblem("", "coordinator", "does not answer", "see `baton status` and coordinator.log; every gate is open")
        return
    if strangers := status.get("refused", {}).get("tag", 0):
        remedy = "a host without an agent in the rows below may have another key: compare its key file, `baton doctor` there"
        yield HostProblem("", "frames of another key", f"{strangers} refused", remedy)
    for line in status.get("warnings", ()):
        yield _warning("", str(line))
    for text in status.get("unplaced", ()):
        yield HostProblem(str(text), "place", "not found in the fabric", "plug it into a switch of the fabric, or add it there")
    known = {str(address) for member in members.values() for address in member.get("addresses", ())}
    names = {str(member.get("name")) for member in members.values()}
    macs = {str(member.get("mac")) for member in members.values()} | {str(status.get("mac"))}
    for host in (fabric or {}).get("fabric", {}).get("hosts", ()):
        if host["name"] in names or host.get("mac") in macs or known.intersection(map(str, host.get("addresses", ()))):
            continue
        remedy = "start its agent (`baton install-units --role agent`); if it runs, compare its key and see its log"
        yield HostProblem(host["name"], "agent", "not a member: it sends freely", remedy)


def _of_host(member: Member, before: Member) -> Iterator[HostProblem]:
    name = str(member.get("name"))
    if (ago_ms := member.get("heard_ms_ago", 0)) > SILENT_MS:
        text = f"last heard {ago_ms / 1000:.1f} s ago"
        yield HostProblem(name, "silence", text, "see that its agent runs and its link is up")
    offset, uncertainty = member.get("offset_us"), member.get("uncertainty_us") or 0
    if offset is not None and abs(offset) - uncertainty > OFFSET_US:
        text = f"{offset / 1000:+.0f} ms from the controller's"
        yield HostProblem(name, "wall clock", text, "synchronize both by NTP (chrony); this affects log times, not slots")
    if uncertainty > UNCERTAINTY_US:
        remedy = "its control frames are delayed: check real-time priority, interrupts, the load of the switch"
        yield HostProblem(name, "clock uncertainty", f"{uncertainty / 1000:.1f} ms", remedy)
    for line in member.get("drift") or ():
        remedy = "the agent restored it; find the program that changes it (such as a network manager) and stop it"
        yield HostProblem(name, "drift", str(line), remedy)
    for line in member.get("warnings") or ():
        yield _warning(name, str(line))
    for line in member.get("suspect") or ():
        yield HostProblem(name, "suspect", str(line), "see docs/security.md for the cause and the remedy")
    if refused := {_cause(cause): count for cause, count in grown(member, before).items()}:
        text = ", ".join(f"{cause}: {count}" for cause, count in refused.items())
        remedy = "see the causes in protocol/PROTOCOL.md, and find out which machine sends these frames"
        yield HostProblem(name, "frames it refused", text, remedy)


def grown(member: Member, before: Member) -> dict[str, int]:
    """By cause, how many frames a member has refused since; all, where it counts from nothing since then."""
    were: Mapping[str, int] = before.get("refused") or {}
    found = {cause: count - (were.get(cause, 0) if count >= were.get(cause, 0) else 0) for cause, count in refused_by(member)}
    return {cause: count for cause, count in found.items() if count}


def refused_by(member: Member) -> list[tuple[str, int]]:
    """The causes for which a member has refused frames since its start, and how many."""
    return [(cause, count) for cause, count in (member.get("refused") or {}).items() if count]


def _cause(number: str) -> str:
    """The name of a cause that an agent counted; its number where this version knows none."""
    try:
        return Cause(int(number)).name.lower()
    except ValueError:
        return str(number)


def _warning(host: str, line: str) -> HostProblem:
    """A line of the coordinator's (controller/members/part.py), which says after a semicolon what to do."""
    found, _, remedy = line.rpartition("; ")
    return HostProblem(host, "warning", found or line, remedy if found else "see docs/operating.md")


def _odd_ones(members: Iterable[Member], field: str, what: str, remedy: str) -> Iterator[HostProblem]:
    """The hosts whose value differs from that of most hosts."""
    values = {str(member.get("name")): str(member[field]) for member in members if member.get(field)}
    if len(set(values.values())) < 2:
        return
    usual, _ = min(Counter(values.values()).items(), key=lambda item: (-item[1], item[0]))
    for name, value in values.items():
        if value != usual:
            yield HostProblem(name, what, f"{value}, most have {usual}", remedy)


def show(hosts: list[dict[str, Any]], found: list[HostProblem]) -> None:
    """Prints the hosts and their problems as tables."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
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
