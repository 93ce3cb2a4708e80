"""The data that the dashboard shows, by GET: the documents of `webui.state.model`. An edge: HTTP."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from flask import Blueprint, current_app, jsonify, request
from flask.typing import ResponseReturnValue

from controller.store.feeds import SLOTS_KEPT
from webui.access.auth import login_required
from webui.http.errors import RequestRefused
from webui.settings import POLLER
from webui.state import lists, model
from webui.state.ledger import node_document
from webui.state.lists import Wanted
from webui.state.poller import Poller
from webui.state.window import SORTS

COUNT_MAX = 1_000
PAGES_MAX = 1_000_000
SEARCH_MAX = 200
WORDS_MAX = 10
"""Of a search: each is looked for in up to a hundred thousand flows, while nobody else reads the store."""
FLOWS_NAMED = 20
"""How many flows the details of a host name."""
BATCHES_MAX = SLOTS_KEPT
SEVERITIES = ("debug", "info", "warning", "error")

api = Blueprint("api", __name__, url_prefix="/api")


def poller() -> Poller:
    """The application's reader of the store."""
    found: Poller = current_app.extensions[POLLER]
    return found


def number(name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most` in the query string. Raises RequestRefused: it is another value."""
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise RequestRefused(f"{name}: {text[:40]!r} is not a number from 1 to {most}", f"write {name}={default}")
    return int(text)


@api.get("/fabric")
def fabric() -> ResponseReturnValue:
    """The fabric's nodes with their positions, and its links; of a large fabric its groups."""
    return jsonify(poller().fabric())


@api.get("/state")
def state() -> ResponseReturnValue:
    """The current state of everything but the fabric and the schedule."""
    return jsonify(poller().read().state)


def wanted(sorts: Collection[str], sort: str, *, down: bool = False, count: int = 50, most: int = COUNT_MAX) -> Wanted:
    """The part of a list that the query string asks for: `search`, `sort`, `order`, `page`, `count`. Raises RequestRefused."""
    search, by = request.args.get("search", ""), request.args.get("sort", sort)
    order = request.args.get("order", "" if by != sort else "down" if down else "up")
    if len(search) > SEARCH_MAX:
        raise RequestRefused(f"search: has {len(search)} characters", f"write {SEARCH_MAX} at most")
    if (words := len(search.split())) > WORDS_MAX:
        raise RequestRefused(f"search: has {words} words", f"write {WORDS_MAX} at most")
    if by not in sorts:
        raise RequestRefused(f"sort: {by[:40]!r} is not one of {', '.join(sorts)}", f"write sort={sort}")
    if order not in ("up", "down", ""):
        raise RequestRefused(f"order: {order[:40]!r} is not up or down", "write order=down")
    return Wanted(search, by, order == "down", number("page", 1, PAGES_MAX), number("count", count, most))


@api.get("/members")
def members() -> ResponseReturnValue:
    """A page of the members that match."""
    part = wanted(lists.MEMBER_SORTS, "name")
    with poller().listing() as (_, ledger):
        page = lists.members(ledger.listed(), part)
        return jsonify(page.document() | {"rows": [model.member(*one) for one in page.rows]})


@api.get("/flows")
def flows() -> ResponseReturnValue:
    """A page of the flows that match, with their rate in total."""
    part = wanted(lists.FLOW_SORTS, "rate", down=True)
    with poller().listing() as (_, ledger):
        return jsonify(lists.flows(ledger.flows(), part).document())


@api.get("/search")
def search() -> ResponseReturnValue:
    """A page of the hosts and switches whose name or address contains `search`, and for each the groups to open."""
    part = wanted(("name",), "name", count=8)
    fabric = poller().read().picture.fabric
    switches = ((name, "switch", ()) for name in fabric.switches)
    hosts = ((name, "host", (*map(str, fabric.addresses(name)), *filter(None, (fabric.mac(name),)))) for name in fabric.hosts)
    return jsonify(lists.nodes(chain(switches, hosts), part).document())


@api.get("/node/<name>")
def node(name: str) -> ResponseReturnValue:
    """Everything about one host or switch."""
    with poller().listing() as (_, ledger):
        found = node_document(ledger, name, FLOWS_NAMED)
    if found is None:
        raise RequestRefused(f"no host or switch is named {name[:64]!r}", "look it up by /api/search?search=", 404)
    return jsonify(found)


@api.get("/timeline")
def timeline() -> ResponseReturnValue:
    """A page of the hosts that had slots in the last ten seconds, with their slots of the last `batches` times 24 ms."""
    part = wanted(("name", *SORTS), "name", most=200)
    return jsonify(poller().timeline(part, number("batches", 80, BATCHES_MAX)))


@api.get("/schedule")
def schedule() -> ResponseReturnValue:
    """The outcome of the slots of the last two seconds, or of the last `batches` times 24 ms: rows as in the event stream."""
    return jsonify(poller().schedule(number("batches", 80, BATCHES_MAX)))


@api.get("/events")
def events() -> ResponseReturnValue:
    """Those of the last `count` events that have `severity` or a higher one."""
    least = request.args.get("severity", "debug")
    if least not in SEVERITIES:
        raise RequestRefused(f"severity: {least[:40]!r} is not one of {', '.join(SEVERITIES)}", "write severity=warning")
    wanted = SEVERITIES[SEVERITIES.index(least) :]
    return jsonify([event for event in poller().events(number("count", 100, COUNT_MAX)) if event["severity"] in wanted])


@api.get("/audit")
def audit() -> ResponseReturnValue:
    """The last `count` actions, each with its user."""
    return jsonify(poller().audit(number("count", 100, COUNT_MAX)))


@api.get("/refused")
@login_required
def refused() -> ResponseReturnValue:
    """The last `count` refused logins, and sums of others. Only users see them: they tell which users there are."""
    return jsonify(poller().refused(number("count", 100, COUNT_MAX)))
