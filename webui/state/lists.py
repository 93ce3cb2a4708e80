"""Searches, sorts and pages the lists of members, flows and nodes that are too long for one document. Pure.

Every page says how many entries there are, how many match, and which of them it holds, so that nothing is hidden silently.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from topology.fabric import natural

T = TypeVar("T")
_SIZE = re.compile(r">(=?)(\d+(?:\.\d+)?)([kmgt]?)")
_ARROW = re.compile(r"\s*(?:->|→|>)\s*(?![\s>=]|\d+(?:\.\d+)?[kmgt]?(?:\s|$))")
"""An arrow to a name, which may begin with a digit: what follows is no size."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class Wanted(NamedTuple):
    """Which part of a list a client asks for: words that must all match, a column, and the page (from 1) of `most` entries."""

    search: str = ""
    sort: str = ""
    down: bool = False
    page: int = 1
    most: int = 50


class Flow(NamedTuple):
    """All V2V flows from one host to another."""

    source: str
    destination: str
    rate_bps: int
    backlog_bytes: int
    regulated: bool
    waiting_ms: float
    weight: float


class Page(NamedTuple):
    """A page of a list: the entries, and where they are in it."""

    rows: list[Any]
    total: int
    matching: int
    page: int
    pages: int
    first: int
    """The number of the first entry, from 1; 0 if there is none."""

    def document(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
        """As /api serves it."""
        places = {name: getattr(self, name) for name in ("total", "matching", "page", "pages", "first")}
        return {**places, **more, "rows": self.rows}


def paged(found: Sequence[T], total: int, wanted: Wanted) -> Page:
    """The wanted page of the entries that match; the last one if there are fewer."""
    pages = max(1, -(-len(found) // wanted.most))
    number = min(wanted.page, pages)
    begin = (number - 1) * wanted.most
    rows = list(found[begin : begin + wanted.most])
    return Page(rows, total, len(found), number, pages, begin + 1 if rows else 0)


_keys: dict[str, Any] = {}


def by_name(name: str) -> Any:  # noqa: ANN401 -- any key that sorts
    """The natural order of a name, remembered."""
    key = _keys.get(name)
    if key is None:
        if len(_keys) > 100_000:
            _keys.clear()
        key = _keys[name] = natural(name)
    return key


# -- flows --------------------------------------------------------------------------------------------------------------------

FLOW_SORTS: Mapping[str, Callable[[Flow], Any]] = {
    "source": lambda flow: by_name(flow.source),
    "destination": lambda flow: by_name(flow.destination),
    "rate": lambda flow: flow.rate_bps,
    "backlog": lambda flow: flow.backlog_bytes,
    "waiting": lambda flow: flow.waiting_ms,
    "weight": lambda flow: flow.weight,
    "gate": lambda flow: flow.regulated,
    "busy": lambda flow: flow.rate_bps + 8 * flow.backlog_bytes,
}


def flow_test(search: str) -> Callable[[Flow], bool]:
    """A test of words that must all hold: regulated, free, waiting, >10M (bit/s), h1, h1>h6 (or h1 > h6), >h6."""
    tests: list[Callable[[Flow], bool]] = []
    for term in _ARROW.sub(">", search.lower()).split():
        if term == "regulated":
            tests.append(lambda flow: flow.regulated)
        elif term == "free":
            tests.append(lambda flow: not flow.regulated)
        elif term == "waiting":
            tests.append(lambda flow: flow.backlog_bytes > 0)
        elif match := _SIZE.fullmatch(term):
            least = float(match[2]) * UNITS[match[3]]
            above = operator.ge if match[1] else operator.gt
            tests.append(lambda flow, above=above, least=least: above(flow.rate_bps, least))  # type: ignore[misc]
        elif ">" in term:
            one, _, other = term.partition(">")
            tests.append(
                lambda flow, one=one, other=other: (  # type: ignore[misc]
                    (not one or flow.source.lower() == one) and (not other or flow.destination.lower() == other)
                )
            )
        else:
            tests.append(lambda flow, term=term: term in flow.source.lower() or term in flow.destination.lower())  # type: ignore[misc]
    return lambda flow: all(test(flow) for test in tests)


def flows(all_flows: Sequence[Flow], wanted: Wanted) -> Page:
    """A page of flows, as `schema.Flow`."""
    found: Sequence[Flow] = all_flows
    if wanted.search.strip():
        test = flow_test(wanted.search)
        found = [flow for flow in all_flows if test(flow)]
    key = FLOW_SORTS[wanted.sort or "rate"]
    page = paged(sorted(found, key=key, reverse=wanted.down), len(all_flows), wanted)
    return page._replace(rows=[flow._asdict() for flow in page.rows])


# -- members ------------------------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A member's document, with its node id and its name in the fabric."""

    node: int
    name: str
    told: Mapping[str, Any]


MEMBER_SORTS: Mapping[str, Callable[[Member], Any]] = {
    "name": lambda one: by_name(one.name),
    "node": lambda one: one.node,
    "version": lambda one: by_name(str(one.told.get("version", ""))),
    "gate": lambda one: str(one.told.get("gate", "")),
    "offset": lambda one: abs(one.told.get("offset_us") or 0),
    "heard": lambda one: one.told.get("heard_ms_ago", 0),
    "late": lambda one: one.told.get("late_slots", 0),
    "refused": lambda one: sum(one.told.get("refused", {}).values()),
    "backlog": lambda one: sum(one.told.get("backlog_bytes", {}).values()),
    "odd": lambda one: len(odd(one.told)),
}


def odd(told: Mapping[str, Any]) -> list[str]:
    """What is wrong with a member, in words."""
    return [*told.get("suspect", ()), *told.get("warnings", ()), *told.get("drift", ())]


def member_text(one: Member) -> str:
    """What a search for members looks through: names, addresses, gate, version, and what is wrong."""
    told = one.told
    words = [one.name, str(told.get("name", "")), str(told.get("mac", "")), *told.get("addresses", ())]
    words += [str(told.get("gate", "")), str(told.get("version", "")), *odd(told)]
    words += ["refused"] if any(told.get("refused", {}).values()) else []
    words += [word for word in ("suspect", "drift") if told.get(word)]
    return " ".join(words).lower()


def members(all_members: Iterable[Member], wanted: Wanted) -> Page:
    """A page of `Member`s."""
    found = known = list(all_members)
    if terms := wanted.search.lower().split():
        found = [one for one in known if all(term in text for text in (member_text(one),) for term in terms)]
    return paged(sorted(found, key=MEMBER_SORTS[wanted.sort or "name"], reverse=wanted.down), len(known), wanted)


# -- nodes --------------------------------------------------------------------------------------------------------------------


def nodes(names: Iterable[tuple[str, str, Sequence[str]]], wanted: Wanted) -> Page:
    """A page of the nodes that match, by name: each a name, its kind and its addresses. Names that are, or begin with, what is
    sought come first, up or down. Rows are {"id", "kind", "addresses"}."""
    sought = wanted.search.strip().lower()
    found, total = [], 0
    for name, kind, addresses in names:
        total += 1
        low = name.lower()
        if sought in low or any(sought in address for address in addresses):
            exact = low == sought or sought in addresses
            found.append((0 if exact else 1 if low.startswith(sought) else 2, by_name(name), name, kind, addresses))
    found.sort(key=lambda one: one[1:3], reverse=wanted.down)
    found.sort(key=lambda one: one[0])
    page = paged(found, total, wanted)
    rows = [
        {"id": name, "kind": kind, "addresses": sorted(addresses, key=lambda one: sought not in one)[:4]}
        for _, _, name, kind, addresses in page.rows
    ]
    return page._replace(rows=rows)
