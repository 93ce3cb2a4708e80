"""REST: Ryu's /v1.0/topology and Baton's own /v1.0, described by /openapi.json. An edge: HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, abort, jsonify, request
from flask.typing import ResponseReturnValue

from controller.store.feeds import slot_batches
from webui.access.auth import login_required
from webui.http.api import number, poller, wanted
from webui.http.commands import in_force
from webui.http.control import body, changed
from webui.http.errors import RequestRefused
from webui.http.openapi import PARAMETERS, document
from webui.http.ryu_topology import Topology, topology
from webui.http.schema import PolicyChange
from webui.state import lists, model

MEMBERS_MAX, FLOWS_MAX = 5_000, 2_000
"""Entries of one page, which is also what a request without parameters gets."""

rest = Blueprint("rest", __name__)


@rest.before_request
def _only_known_parameters() -> None:
    """Refuses a query with a parameter that the path has not: what a misspelt one asks for would be left out silently."""
    there = PARAMETERS.get(str(request.url_rule), ())
    if unknown := [name for name in request.args if name not in there]:
        takes = f"takes {', '.join(there)}" if there else "takes no parameters"
        raise RequestRefused(f"{unknown[0][:40]!r} is no parameter: {request.path} {takes}", "correct it, or leave it out", 400)


# -- as in Ryu ----------------------------------------------------------------------------------------------------------


def _ryu(chosen: Callable[[Topology, str | None], list[dict[str, Any]]], dpid: str | None) -> Response:
    """Answers as Ryu does, byte for byte: json.dumps with its defaults."""
    if dpid is not None and not re.fullmatch("[0-9a-f]{16}", dpid):
        abort(404, f"dpid: {dpid[:40]!r} is not 16 hexadecimal digits in lower case")
    picture = poller().read().picture
    found = chosen(topology(picture.fabric, picture.document), dpid)
    return Response(json.dumps(found), content_type="application/json")


@rest.get("/v1.0/topology/switches", defaults={"dpid": None})
@rest.get("/v1.0/topology/switches/<dpid>")
def switches(dpid: str | None) -> ResponseReturnValue:
    """The switches with their ports; with a dpid, a list with that switch, or an empty one."""
    return _ryu(lambda all_, one: [switch for switch in all_.switches if one in (None, switch["dpid"])], dpid)


@rest.get("/v1.0/topology/links", defaults={"dpid": None})
@rest.get("/v1.0/topology/links/<dpid>")
def links(dpid: str | None) -> ResponseReturnValue:
    """The links between switches, one entry for each direction; with a dpid, those that leave this switch."""
    return _ryu(lambda all_, one: [link for link in all_.links if one in (None, link["src"]["dpid"])], dpid)


@rest.get("/v1.0/topology/hosts", defaults={"dpid": None})
@rest.get("/v1.0/topology/hosts/<dpid>")
def hosts(dpid: str | None) -> ResponseReturnValue:
    """The hosts; with a dpid, those that are attached to this switch."""
    return _ryu(lambda all_, one: [host for host in all_.hosts if one in (None, host["port"]["dpid"])], dpid)


# -- Baton's own --------------------------------------------------------------------------------------------------------


@rest.get("/v1.0/tree")
def tree() -> ResponseReturnValue:
    """The active spanning tree."""
    picture = poller().read().picture
    halves: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for link in picture.shape["links"]:
        halves[not link["tree"]].append({name: link[name] for name in ("a", "b", "rate_bps")})
    return jsonify(
        version=picture.version,
        switches=picture.fabric.switches,
        hosts=picture.fabric.hosts,
        forwarding=halves[0],
        blocked=halves[1],
    )


@rest.get("/v1.0/schedule")
def schedule() -> ResponseReturnValue:
    """The outcome of the slots of the last `seconds`, 1 to 20."""
    told = poller().schedule(slot_batches(number("seconds", 2, 20)))
    return jsonify({"now_us": told["now_us"], "slots": model.slots(told["rows"])})


@rest.get("/v1.0/members")
def members() -> ResponseReturnValue:
    """A page of the hosts with an agent; without parameters the first 5,000."""
    part = wanted(lists.MEMBER_SORTS, "node", count=MEMBERS_MAX, most=MEMBERS_MAX)
    with poller().listing() as (_, ledger):
        page = lists.members(ledger.listed(), part)
        return _page(page, [model.member(*one) for one in page.rows])


@rest.get("/v1.0/flows")
def flows() -> ResponseReturnValue:
    """A page of the traffic between hosts; without parameters the 2,000 busiest flows."""
    part = wanted(lists.FLOW_SORTS, "busy", down=True, count=FLOWS_MAX, most=FLOWS_MAX)
    with poller().listing() as (_, ledger):
        page = lists.flows(ledger.flows(), part)
        return _page(page, page.rows)


def _page(page: lists.Page, rows: list[dict[str, Any]]) -> Response:
    """Rows, with headers that say how many there are in all, how many match, and where the next ones are (RFC 8288)."""
    answer = jsonify(rows)
    answer.headers["X-Total-Count"] = str(page.total)
    answer.headers["X-Matching-Count"] = str(page.matching)
    if page.page < page.pages:
        query = urlencode({**request.args.to_dict(), "page": page.page + 1})
        answer.headers["Link"] = f'<{request.path}?{query}>; rel="next"'
    return answer


@rest.get("/v1.0/thresholds")
def thresholds() -> ResponseReturnValue:
    """The sieving thresholds in force."""
    return jsonify(poller().read().state["thresholds"])


@rest.get("/v1.0/coflows")
def coflows() -> ResponseReturnValue:
    """The first open coflows in the order in which the leader has them."""
    return jsonify((poller().read().snapshot.documents["status"] or {}).get("coflow_order", []))


@rest.get("/v1.0/policy")
def policy() -> ResponseReturnValue:
    """The policy in force."""
    return jsonify(in_force(poller().read()))


@rest.put("/v1.0/policy")
@login_required
def set_policy() -> ResponseReturnValue:
    """Changes the policy; 200 when the coordinator has taken it over, 202 when it has not yet."""
    change = body(PolicyChange)
    return changed(lambda _: change)


@rest.get("/openapi.json")
def openapi() -> ResponseReturnValue:
    """This interface's description, OpenAPI 3.1."""
    return jsonify(document())
