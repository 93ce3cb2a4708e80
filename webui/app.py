"""Makes the Flask application: its blueprints, its store, its settings."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask.json.provider import DefaultJSONProvider

from controller.store.store import Store
from webui.access.auth import auth
from webui.access.places import Places
from webui.http.api import api
from webui.http.control import control
from webui.http.errors import errors
from webui.http.metrics import metrics
from webui.http.pages import pages
from webui.http.rest import rest
from webui.http.stream import stream
from webui.settings import PLACES, POLLER, SETTINGS, STORE, WebSettings
from webui.state.encoded import encoded
from webui.state.poller import Poller

BLUEPRINTS = (errors, api, stream, control, rest, metrics, pages, auth)


class FastJson(DefaultJSONProvider):
    """Writes answers as webui/state/encoded.py does."""

    def dumps(self, obj: Any, **_: Any) -> str:  # noqa: ANN401 -- as Flask's own
        """The value as JSON, in the order of its keys."""
        return encoded(obj).decode()


def create_app(store: Store, *, settings: WebSettings) -> Flask:
    """The application over this store; nothing reads the store before the first request."""
    app = Flask(__name__)
    app.json = FastJson(app)
    app.extensions[STORE] = store
    app.extensions[SETTINGS] = settings
    app.extensions[POLLER] = Poller(store)
    app.extensions[PLACES] = Places()
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    return app
