"""What the dashboard shows, as it changes: server-sent events named fabric, state, schedule, event and audit. An edge: HTTP.

A message's id tells where a client was: with Last-Event-ID it gets the events and slots that it missed, if they are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from webui.http.api import poller
from webui.http.errors import Refused
from webui.state.poller import Poller, Subscription

HEARTBEAT_S = 1.0
CLIENTS_MAX = 40
"""Each holds one of the server's threads (webui/serve.py)."""

stream = Blueprint("stream", __name__)


@stream.get("/api/stream")
def events() -> ResponseReturnValue:
    """An endless answer; a comment each second says that the server lives."""
    reader = poller()
    if reader.subscribers >= CLIENTS_MAX:
        raise Refused(f"{CLIENTS_MAX} dashboards are open already", "close one, or read /api/state now and then", 503)
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
