"""The data that the dashboard shows, by GET: the documents of `webui.state.model`. An edge: HTTP."""

from __future__ import annotations

from flask import Blueprint, current_app, jsonify, request
from flask.typing import ResponseReturnValue

from controller.store.feeds import SLOTS_KEPT
from webui.access.auth import login_required
from webui.http.errors import RequestRefused
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
    """A whole number from 1 to `most` in the query string. Raises RequestRefused: it is another value."""
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise RequestRefused(f"{name}: {text[:40]!r} is not a number from 1 to {most}", f"write {name}={default}")
    return int(text)


@api.get("/fabric")
def fabric() -> ResponseReturnValue:
    """The fabric's nodes with their positions, and its links."""
    return jsonify(poller().read().picture.shape)


@api.get("/state")
def state() -> ResponseReturnValue:
    """The current state of everything but the fabric and the schedule."""
    return jsonify(poller().read().state)


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
