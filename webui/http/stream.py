"""The live stream for the dashboard: server-sent events named fabric, state, schedule, event and audit. An edge: HTTP.

A message's id marks a client's position: a client that sends it as Last-Event-ID gets the events and slots that it missed, if
the store still has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from webui.http.api import poller
from webui.http.errors import RequestRefused
from webui.state.poller import Poller, Subscription

HEARTBEAT_S = 1.0
CLIENTS_MAX = 40
"""Each client occupies one of the server's threads (webui/serve.py)."""

stream = Blueprint("stream", __name__)


@stream.get("/api/stream")
def events() -> ResponseReturnValue:
    """Sends messages without end; a comment each second shows that the server is alive."""
    reader = poller()
    if reader.subscribers >= CLIENTS_MAX:
        raise RequestRefused(f"{CLIENTS_MAX} dashboards are open already", "close one, or poll /api/state instead", 503)
    subscription = reader.subscribe(request.headers.get("Last-Event-ID"))
    answer = Response(_told(reader, subscription), mimetype="text/event-stream")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Accel-Buffering"] = "no"  # nginx would hold messages back
    answer.call_on_close(lambda: reader.unsubscribe(subscription))
    return answer


def _told(reader: Poller, subscription: Subscription) -> Iterator[bytes]:
    yield b": welcome\n\n"
    while True:
        yield subscription.take(HEARTBEAT_S) or b": still here\n\n"
