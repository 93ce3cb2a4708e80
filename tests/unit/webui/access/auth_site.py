"""An application behind the web server's access control, with a store that records. Flask's own client, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from controller.store.store import StoreUnavailable
from webui.access.auth import AUTH, audit, auth, login_required
from webui.settings import SETTINGS, STORE, WebSettings

PASSWORD = "correct horse battery"
SECOND = 1_000_000_000


class Sessions:
    """The store's sessions."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.lost = False

    def begin(self, identifier: str, user: str, lifetime_s: int) -> None:
        assert lifetime_s == 12 * 3_600
        self.known[identifier] = user

    def lives(self, identifier: str) -> bool:
        if self.lost:
            raise StoreUnavailable("store: gone: start it")
        return identifier in self.known

    def end(self, identifier: str) -> None:
        self.known.pop(identifier, None)


class Recorded:
    """An audit stream."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, dict[str, Any]]] = []
        self.refusals: list[tuple[str, bool, dict[str, Any]]] = []
        self.sessions = Sessions()

    def publish_event(self, kind: str, severity: str, text: str, **fields: Any) -> None:  # noqa: ANN401 -- as Store
        self.events.append((kind, severity, text, fields))

    def publish_refusal(self, text: str, *, event: bool, **fields: Any) -> None:  # noqa: ANN401 -- as Store
        self.refusals.append((text, event, fields))

    def texts(self) -> list[str]:
        return [text for _, _, text, _ in self.events]


class Site:
    """An application with one page to read and one thing to change."""

    def __init__(self, users: Path, **settings: Any) -> None:  # noqa: ANN401 -- fields of WebSettings
        self.store = Recorded()
        self.changes = 0
        self.app = Flask("webui")
        self.app.extensions[STORE] = self.store
        self.app.extensions[SETTINGS] = WebSettings(users=users, **settings)
        self.app.register_blueprint(auth)
        self.now_ns = 1_700_000_000 * SECOND
        self.app.extensions[AUTH].clock = lambda: self.now_ns

        @self.app.get("/")
        def index() -> str:
            return "look"

        @self.app.post("/change")
        @login_required
        def change() -> Response:
            self.changes += 1
            return jsonify(done=True)

        @self.app.post("/told")
        @login_required
        def told() -> Response:
            audit("policy set to rate_limit", policy="rate_limit")
            return jsonify(done=True)

    def client(self) -> FlaskClient:
        # The client's own cookie jar drops Secure cookies over http; what the browser does is seen in the header.
        return self.app.test_client()


def csrf(client: FlaskClient) -> str:
    return str(client.get("/api/session").get_json()["csrf"])


def log_in(client: FlaskClient, password: str = PASSWORD, user: str = "ann", **more: str) -> TestResponse:
    return client.post("/login", data={"user": user, "password": password, "csrf_token": csrf(client), **more})
