"""Prints what `baton status` found, as lines and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.hosts import pfc_view
from protocol.bodies.text import printable
from webui.state import lists
from webui.state.lists import Member, Page, Wanted

EVENTS = 8
PAGE = 50
"""Members of one page."""
NAMED = 10
"""Lines of one kind in the summary; it says how many more there are."""
LONGEST_LINE = 10_000
ALL = "add --json"
"""How the same command shows all; it keeps --store and --run-dir."""
Row = tuple[str, Callable[[Mapping[str, Any]], Iterable[str]], str | Callable[[str], str]]
"""Of the summary: its name, the lines that it has for what was found, and their colour."""
LACKING = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What is raised by whoever reads a document that is not as any Baton writes it."""
COLOURS = {"error": "red", "warning": "yellow", "info": "default", "debug": "dim"}


def show(found: Mapping[str, Any], *, wide: bool = False, search: str = "", page: int = 1) -> None:
    """Prints a summary, then the members, then the newest events. `wide`: with all columns, whatever the terminal's width."""
    console = Console(highlight=False, markup=False)
    for line in _summary(found):
        console.print(line)
    show_members(found["members"], wide=wide, search=search, page=page)
    events = [event for event in found["events"] if event["severity"] != "debug"][-EVENTS:]
    if events:
        console.print(_events(events))


def is_coordinated(found: Mapping[str, Any]) -> bool:
    """Whether there is to be a coordinator: this machine's configuration has one, or else its policy is in the store, where the
    supervisor of a machine with a coordinator puts it."""
    return "coordinator" in found["processes"] if found["processes"] else found["policy"] is not None


def show_members(members: Mapping[str, Mapping[str, Any]], *, wide: bool = False, search: str = "", page: int = 1) -> bool:
    """Prints a page of the members that match `search`, and says how to get the others; returns whether there are members."""
    if not members:
        return False
    console = Console(highlight=False, markup=False)
    part = page_of(members, search=search, page=page)
    shown = {str(one.node): one.told for one in part.rows}
    says = title(part, "members", "" if wide else "; more with --wide")
    table = _all_of_members(shown, says) if wide else _members(shown, says)
    if wide:
        unbounded = console.options.update(max_width=LONGEST_LINE)
        console.width = max(console.width, console.measure(table, options=unbounded).maximum)
    console.print(table)
    if line := no_such(page, part):
        console.print(Text(line, "yellow"))
    if part.page < part.pages:
        console.print(f"page {part.page} of {part.pages}; add --page {part.page + 1} for the next")
    return True


def page_of(members: Mapping[str, Mapping[str, Any]], *, search: str, page: int, most: int = PAGE) -> Page:
    """A page of `Member`s that match `search`, by node."""
    listed = [Member(int(node), str(told.get("name", "")), told) for node, told in members.items()]
    return lists.members(listed, Wanted(search, "node", False, page, most))


def no_such(page: int, part: Page) -> str:
    """That a list has no such page, and which one is shown; empty if it has."""
    if page <= part.pages:
        return ""
    there = "there is 1 page" if part.pages == 1 else f"there are {part.pages} pages"
    return f"--page {page}: {there}, so this is page {part.page}"


def title(page: Page, what: str, more: str = "") -> str:
    """What a list shows of how much."""
    if page.matching == page.total == len(page.rows):
        return f"{page.total} {what}{more}"
    match = f"{page.matching} that match, of {page.total}" if page.matching != page.total else str(page.total)
    if not page.rows:
        return f"none of {page.total} {what} match"
    return f"showing {page.first} to {page.first + len(page.rows) - 1} of {match} {what}{more}"


def some(lines: Sequence[str], hint: str) -> list[str]:
    """The first of many lines, and how many more there are and where."""
    more = len(lines) - NAMED
    return [*lines[:NAMED], f"and {more} more: {hint}"] if more > 0 else list(lines)


def lacks(error: Exception) -> str:
    """That a document in the store lacks something, and where to look."""
    return printable(f"what the store holds lacks something ({type(error).__name__}: {error}); --json alone shows it")


def _choice(one: Mapping[str, Any]) -> str:
    """What `auto` chose for some links, and why: one row of the status."""
    names = [" -> ".join(map(str, link)) for link in one["links"]]
    if one["count"] > len(names):
        names = [*names[:2], f"{one['count'] - len(names[:2])} more links" if names else f"{one['count']} links"]
    return f"{', '.join(names)}: {one['mode'] or 'turns or rates'}: {one['why']}"


def _summary(found: Mapping[str, Any]) -> Iterator[Text]:
    yield from _lines(found, ROWS)
    if found["coordinator"] is not None:
        yield from _lines(found, COORDINATOR_ROWS)
        return
    why = "no coordinator answers: every gate is open" if is_coordinated(found) else "no coordinator is configured"
    yield _line("coordinator", why, "red")


def _lines(found: Mapping[str, Any], rows: Iterable[Row]) -> Iterator[Text]:
    for name, texts, colour in rows:
        try:
            lines = list(texts(found))
        except LACKING as error:
            yield _line(name, f"can't be shown: {lacks(error)}", "red")
            continue
        for text in lines:
            yield _line(name, text, colour if isinstance(colour, str) else colour(text))


def _given(text: str) -> list[str]:
    """A line, unless there is nothing to say."""
    return [text] if text else []


def _processes(found: Mapping[str, Any]) -> list[str]:
    processes = [
        f"{name} {process['pid'] or 'not running'}" + (f" (restarted {process['restarts']}x)" if process["restarts"] else "")
        for name, process in found["processes"].items()
    ]
    return _given(", ".join(processes))


def _policy(found: Mapping[str, Any]) -> list[str]:
    coordinator = found["coordinator"]
    slice_ms, slices = coordinator["slice_ns"] / 1e6, coordinator.get("slot_slices", 1)
    longer = f" (slots last {slices * slice_ms:g} ms)" if slices > 1 else ""
    return [f"{coordinator['policy']}, slices of {slice_ms:g} ms{longer}, epoch {coordinator['epoch']}"]


def _contended(found: Mapping[str, Any]) -> list[str]:
    links = [" -> ".join(map(str, link)) for link in found["coordinator"].get("contended", ())]
    return [", ".join(some(links, "add --links --search contended")) or "no link: no host waits"]


def _slots(found: Mapping[str, Any]) -> list[str]:
    counts = (("slots", "granted,"), ("late_slots", "late,"), ("lost", "lost,"), ("yields", "yielded"))
    told = found["coordinator"]
    return [" ".join(f"{told[name]} {word}" for name, word in counts if name in told)]


def _of_members(found: Mapping[str, Any], what: str, between: str = ": ") -> list[str]:
    """The lines that members have under this name, each with its host's name."""
    return [f"{one.get('name', '')}{between}{line}" for one in found["members"].values() for line in one.get(what, ())]


def _bypass(found: Mapping[str, Any]) -> Iterator[str]:
    for link in found["coordinator"].get("bypass", ()):
        if link["alarm"]:
            ends = f"{link['source']} -> {link['target']}"
            yield f"{ends}: {link['uncoordinated_bytes']:,} bytes crossed it without permission"


def _drift(found: Mapping[str, Any]) -> list[str]:
    drift = _of_members(found, "drift")
    store = "" if found["processes"] else f" --store {found.get('store', '')}"  # without processes --store was given
    return ["; ".join(drift[:3]) + f"; `baton doctor --hosts{store}` says more"] if drift else []


def _unplaced(found: Mapping[str, Any]) -> list[str]:
    unplaced = found["coordinator"].get("unplaced")
    named = ", ".join(some(unplaced or (), ALL))
    return [f"{named}: not found in the fabric, so not coordinated"] if unplaced else []


def _refused(found: Mapping[str, Any]) -> list[str]:
    return _given(", ".join(f"{n} {cause}" for cause, n in found["coordinator"].get("refused", {}).items() if n))


def _guests(members: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What became of the marks of guests' flows, by host."""
    for member in members:
        if marks := member.get("guest_marks"):
            counts = f"{marks['held']} marks held, {marks['expired']} expired, {marks['removed']} removed"
            yield f"{member.get('name', '')}: {counts}, {marks['refused']} requests refused"


def _controllers(controllers: Mapping[str, Mapping[str, Any]]) -> str:
    """Which controller leads and which stand by; empty if there is only one, and it leads."""
    told = [f"{name} leads, epoch {one['epoch']}" for name, one in controllers.items() if one["leads"]]
    standing = [f"{name} stands by" for name, one in controllers.items() if not one["leads"]]
    return ", ".join(told + standing) if len(controllers) > 1 or standing else ""


def _thresholds(found: Mapping[str, Any]) -> list[str]:
    """The version in force, how many members have it, and the thresholds; nothing while there is none."""
    if not (version := found["coordinator"].get("thresholds_version")):
        return []
    members = found["members"].values()
    known = [member["thresholds_version"] for member in members if member.get("thresholds_version") is not None]
    text = f"version {version}, in force at {known.count(version)} of {len(known)} members with priorities"
    cuts = (found.get("thresholds") or {}).get("thresholds")
    if cuts is None:
        return [f"{text}; none yet: too few flows ended"]
    return ["; ".join((text, *(f"{name} " + " ".join(f"{cut:,}" for cut in cuts[name]) for name in ("beta", "alpha"))))]


def _wire(wire: Mapping[str, Any]) -> str:
    """How many members speak which version of the wire; empty if all speak the newest."""
    counts = wire.get("members", {})
    if all(version == str(wire["highest"]) for version in counts):
        return ""
    told = ", ".join(f"{count} members in version {version}" for version, count in counts.items())
    return f"{told}; the leader speaks {wire['lowest']} to {wire['highest']}: finish the upgrade of the hosts"


def _key(key: Mapping[str, Any]) -> str:
    """How far a change of the key has come; empty if none has begun, or the last one is complete."""
    step, waiting = key.get("step"), key.get("waiting_for", ())
    if step is None or (step in ("drop", "cancel") and not waiting and not key["problem"]):
        return ""
    does = {"accept": "take both keys", "send": "send with the new", "drop": "take the new one only", "cancel": "give it up"}
    text = f"being changed to {key['new']}: members are to {does[step]}"
    return f"{text}; {key['problem'] or ('waits for ' + ', '.join(waiting) if waiting else 'all do')}"


def _yellow_if(word: str) -> Callable[[str], str]:
    """The colour of a line that asks for attention if it has this word."""
    return lambda text: "yellow" if word in text else "default"


def _line(name: str, text: str, colour: str = "default") -> Text:
    return Text.assemble((f"{name:<14}", "bold"), (text, colour))


def _fabric(published: Mapping[str, Any] | None) -> str:
    if published is None:
        return "not known yet"
    fabric = published.get("fabric", {})
    counts = [f"{len(fabric.get(kind, ()))} {kind}" for kind in ("switches", "hosts", "links")]
    return f"{', '.join(counts)}, {len(published.get('blocked', ()))} blocked"


def _members(members: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """What fits into 80 columns: long addresses and names go on in the next line."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("name", overflow="fold", max_width=12)
    table.add_column("addresses", overflow="fold", max_width=19)
    for name in ("heard", "slots", "late", "yields", "gated", "backlog"):
        table.add_column(name, justify="right", no_wrap=True)
    for member in members.values():
        cells = (
            member.get("name", ""),
            _shortened(member.get("addresses", ())),
            f"{member.get('heard_ms_ago', 0)} ms",
            _count(member.get("slots", 0)),
            _count(member.get("late_slots", 0)),
            _count(member.get("yields", 0)),
            f"to {len(member['regulated'])}" if "regulated" in member else "",
            _size(_backlog(member)),
        )
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def _all_of_members(members: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    columns = (
        "node", "name", "addresses", "gate", "wire", "heard", "clock", "slots", "late", "yields", "regulated to", "backlog",
        "refused",
    )  # fmt: skip
    for name in columns:
        table.add_column(name, justify="left" if name in ("name", "addresses", "gate") else "right", no_wrap=True)
    for node, member in members.items():
        cells = (
            node,
            member.get("name", ""),
            ", ".join(member.get("addresses", ())),
            member.get("gate", ""),
            member.get("wire", ""),
            f"{member.get('heard_ms_ago', 0)} ms ago",
            _clock(member),
            member.get("slots", 0),
            member.get("late_slots", 0),
            member.get("yields", 0),
            len(member["regulated"]) if "regulated" in member else "",
            f"{_backlog(member):,}",
            sum(member.get("refused", {}).values()),
        )
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def _backlog(member: Mapping[str, Any]) -> int:
    return sum(member.get("backlog_bytes", {}).values())


def _shortened(addresses: Sequence[str]) -> str:
    """The first address, and how many more there are."""
    more = f" +{len(addresses) - 1}" if len(addresses) > 1 else ""
    return f"{addresses[0]}{more}" if addresses else "none"


def _count(number: int) -> str:
    """A count in at most five characters."""
    for limit, unit in ((100_000, ""), (100_000_000, "k"), (100_000_000_000, "M")):
        if number < limit:
            return f"{number * 100_000 // limit}{unit}"
    return f"{number // 10**9}G"


def _size(size: int) -> str:
    """A number of bytes in at most seven characters."""
    number = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB" if number < 999.5 else f"{number:.0f} TB"


def _clock(member: Mapping[str, Any]) -> str:
    """The offset of the host's clock from the leader's, and its uncertainty."""
    offset_us, uncertainty_us = member.get("schedule_offset_us"), member.get("schedule_uncertainty_us")
    return "" if offset_us is None or uncertainty_us is None else f"{offset_us:,.0f} ±{uncertainty_us:,.0f} us"


def _events(events: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("when", "what", "", title="latest events", title_justify="left")
    for event in events:
        table.add_row(_when(event["at_ms"] / 1000), Text(event["kind"]), Text(event["text"], style=COLOURS[event["severity"]]))
    return table


def _when(at_s: float) -> str:
    """The time of an event of today, the day and the time of an older one."""
    at = time.localtime(at_s)
    return time.strftime("%H:%M:%S" if at[:3] == time.localtime()[:3] else "%m-%d %H:%M", at)

FREE = "FREE: every gate is open; `baton coordinate` ends it"
ROWS: tuple[Row, ...] = (
    ("processes", _processes, "default"),
    ("configuration", lambda found: _given(found["config_error"]), "red"),
    ("controllers", lambda found: _given(_controllers(found.get("controllers", {}))), "default"),
    ("warning", lambda found: some(found.get("unreadable", ()), ALL), "yellow"),
    ("fabric", lambda found: [_fabric(found["fabric"])], "default"),
)
COORDINATOR_ROWS: tuple[Row, ...] = (
    ("override", lambda found: [FREE] if found["override"] == "free" else [], "yellow"),
    ("policy", _policy, "default"),
    ("contended", _contended, "default"),
    ("choice", lambda found: some([_choice(one) for one in found["coordinator"].get("choices", ())], ALL), "default"),
    ("slots", _slots, "default"),
    ("thresholds", _thresholds, "default"),
    ("wire", lambda found: _given(_wire(found["coordinator"].get("wire", {}))), "yellow"),
    ("key", lambda found: _given(_key(found["coordinator"].get("key", {}))), _yellow_if("waits")),
    ("pauses", lambda found: _given(pfc_view.line(found["members"])), _yellow_if("storm now")),
    ("guests", lambda found: some(list(_guests(found["members"].values())), ALL), "default"),
    ("suspect", lambda found: some(_of_members(found, "suspect", " "), "add --members --search suspect"), "red"),
    ("warning", lambda found: found["coordinator"].get("warnings", ()), "yellow"),
    ("warning", lambda found: some(_of_members(found, "warnings"), ALL), "yellow"),
    ("bypass", _bypass, "red"),
    ("drift", _drift, "yellow"),
    ("no place", _unplaced, "yellow"),
    ("refused", _refused, "yellow"),
)
"""While a coordinator answers."""
