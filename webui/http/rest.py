"""REST: Ryu's /v1.0/topology and Baton's own /v1.0, described by /openapi.json. An edge: HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort, jsonify, request
from flask.typing import ResponseReturnValue

from controller.store.feeds import slot_batches
from webui.access.auth import login_required
from webui.http.api import number, poller
from webui.http.commands import in_force
from webui.http.control import body, changed
from webui.http.errors import RequestRefused
from webui.http.openapi import document
from webui.http.ryu_topology import Topology, topology
from webui.http.schema import PolicyChange
from webui.state import model

rest = Blueprint("rest", __name__)


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
    """The hosts with an agent."""
    return jsonify(poller().read().state["members"])


@rest.get("/v1.0/flows")
def flows() -> ResponseReturnValue:
    """The traffic between hosts."""
    return jsonify(poller().read().state["flows"])


@rest.get("/v1.0/thresholds")
def thresholds() -> ResponseReturnValue:
    """The sieving thresholds in force."""
    return jsonify(poller().read().state["thresholds"])


@rest.get("/v1.0/policy")
def policy() -> ResponseReturnValue:
    """The policy in force."""
    return jsonify(in_force(poller().read()))


@rest.put("/v1.0/policy")
@login_required
def set_policy() -> ResponseReturnValue:
    """Changes the policy; 200 when the coordinator has taken it over, 202 when it has not yet."""
    return changed(body(PolicyChange))


@rest.get("/openapi.json")
def openapi() -> ResponseReturnValue:
    """This interface's description, OpenAPI 3.1."""
    if request.args:
        raise RequestRefused("openapi.json takes no parameters", "leave out the query", 400)
    return jsonify(document())
