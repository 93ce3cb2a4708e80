"""Makes the Flask application: its blueprints, its store, its settings."""

from __future__ import annotations

from importlib import import_module

from flask import Flask

from controller.store.store import Store
from webui.settings import POLLER, SETTINGS, STORE, WebSettings
from webui.state.poller import Poller

BLUEPRINTS = {
    "webui.http.errors": "errors",
    "webui.http.api": "api",
    "webui.http.stream": "stream",
    "webui.http.control": "control",
    "webui.http.rest": "rest",
    "webui.http.metrics": "metrics",
    "webui.http.pages": "pages",
    "webui.access.auth": "auth",
}
"""Modules and the name of each one's blueprint."""


def create_app(store: Store, *, settings: WebSettings) -> Flask:
    """The application over this store; it starts nothing that runs until somebody asks."""
    app = Flask(__name__)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # of Flask's own provider
    app.extensions[STORE] = store
    app.extensions[SETTINGS] = settings
    app.extensions[POLLER] = Poller(store)
    for module, name in BLUEPRINTS.items():
        app.register_blueprint(getattr(import_module(module), name))  # late: they import this package
    return app
