"""The live stream for the dashboard: server-sent events named fabric, state, schedule, event and audit. An edge: HTTP.

A message's id marks a client's position: a client that sends it as Last-Event-ID gets the events and slots that it missed, if
the store still has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flask import Blueprint, Response, current_app, request
from flask.typing import ResponseReturnValue

from webui.access.auth import current_user, still
from webui.access.origin import origin_of
from webui.http.api import poller
from webui.http.errors import RequestRefused
from webui.settings import PLACES, STILL, SUBSCRIPTION
from webui.state.subscription import Subscription

HEARTBEAT_S = 1.0

stream = Blueprint("stream", __name__)


@stream.get("/api/stream")
def events() -> ResponseReturnValue:
    """Sends messages as long as the user has access; a comment each second shows that the server is alive.

    Visitors have few places, users many of their own (webui/access/places.py).
    """
    user, places, reader = current_user(), current_app.extensions[PLACES], poller()
    place = places.take(user, origin_of(request.remote_addr))
    if place is None:
        remedy = "close one, or poll /api/state instead" if user else "log in, or poll /api/state instead"
        raise RequestRefused("too many dashboards are open already", remedy, 503)
    subscription = reader.subscribe(request.headers.get("Last-Event-ID"))
    request.environ[SUBSCRIPTION] = subscription  # the server writes it without a thread of its own (webui/server/front.py)
    request.environ[STILL] = known = still()
    answer = Response(_told(subscription, known), mimetype="text/event-stream")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Accel-Buffering"] = "no"  # nginx would hold messages back
    answer.call_on_close(lambda: reader.unsubscribe(subscription))
    answer.call_on_close(lambda: places.leave(place))
    return answer


def _told(subscription: Subscription, known: Callable[[], bool]) -> Iterator[bytes]:
    """The same for another WSGI server."""
    yield b": welcome\n\n"
    while known():
        yield subscription.take(HEARTBEAT_S) or b": still here\n\n"
