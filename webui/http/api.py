"""What the dashboard shows, by GET: the shapes of `webui.state.model`. An edge: HTTP."""

from __future__ import annotations

from flask import Blueprint, current_app, jsonify, request
from flask.typing import ResponseReturnValue

from controller.store.feeds import SLOTS_KEPT
from webui.http.errors import Refused
from webui.settings import POLLER
from webui.state.poller import Poller

COUNT_MAX = 1_000
BATCHES_MAX = SLOTS_KEPT
SEVERITIES = ("debug", "info", "warning", "error")

api = Blueprint("api", __name__, url_prefix="/api")


def poller() -> Poller:
    """The application's reader of the store."""
    found: Poller = current_app.extensions[POLLER]
    return found


def number(name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most` in the query. Raises Refused."""
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise Refused(f"{name}: {text[:40]!r} is not a number from 1 to {most}", f"write {name}={default}")
    return int(text)


@api.get("/fabric")
def fabric() -> ResponseReturnValue:
    """Nodes with their places, and links."""
    return jsonify(poller().read().picture.shape)


@api.get("/state")
def state() -> ResponseReturnValue:
    """Everything that changes all the time but the schedule."""
    return jsonify(poller().read().state)


@api.get("/schedule")
def schedule() -> ResponseReturnValue:
    """What became of slots in the last two seconds, or in the last `batches` times 24 ms: rows, as the stream has them."""
    return jsonify(poller().schedule(number("batches", 80, BATCHES_MAX)))


@api.get("/events")
def events() -> ResponseReturnValue:
    """The last `count` events; of these the ones with `severity` or a higher one."""
    least = request.args.get("severity", "debug")
    if least not in SEVERITIES:
        raise Refused(f"severity: {least[:40]!r} is not one of {', '.join(SEVERITIES)}", "write severity=warning")
    wanted = SEVERITIES[SEVERITIES.index(least) :]
    return jsonify([event for event in poller().events(number("count", 100, COUNT_MAX)) if event["severity"] in wanted])


@api.get("/audit")
def audit() -> ResponseReturnValue:
    """Who did what: the last `count` actions."""
    return jsonify(poller().audit(number("count", 100, COUNT_MAX)))
