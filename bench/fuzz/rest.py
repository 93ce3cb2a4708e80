"""Forged requests, and requests that make no sense, sent to the web application over a real Redis.

Method: each run is one request by Flask's own client: any method, a path of the application (or nearly one), and bodies,
headers, query strings and cookies from a seeded generator. The client is one of

* a *stranger*: without credentials, or with forged ones (a session signed by another key or with bits flipped, a known token
  with another secret);
* a *victim's browser*: a real session, without its CSRF token or with another session's, as a page elsewhere would send it;
* a *friend* with a valid token, whose requests may be granted, and may not fail.

A forgery is accepted if the application answers one of the first two with a status below 400 to a method that changes something
(except 308, by which the router redirects to another path, and the way to the page for a stranger who logs out), or if the
store's override or policy has changed afterwards. A crash is an exception that leaves the application, or an answer of 500.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from topology import shapes
from webui.access.accounts import Accounts
from webui.app import create_app
from webui.settings import WebSettings

HEADERS = (
    "Accept", "Content-Type", "X-Forwarded-For", "Range", "If-None-Match", "Last-Event-ID", "Content-Encoding",
    "X-HTTP-Method-Override",
)  # fmt: skip
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
ELSEWHERE = 308
"""The router's answer to a path with doubled slashes: it has done nothing, and redirects the client to the right path."""
TO_THE_PAGE = 303
"""The answer to a stranger who logs out: there is no session to end."""
CRASHES_KEPT = 5
PASSWORD = "a password for the fuzzer"
BODIES: tuple[Any, ...] = (
    {"action": "policy", "policy": "rate_limit"},
    {"action": "slice", "slice_ns": 2_000_000},
    {"action": "override", "override": "free"},
    {"action": "weight", "source": "h1", "destination": "h2", "weight": 2},
    {"policy": "timeslice", "slice_ns": 10_000_000, "weights": []},
)
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, 10**40, "", "\0", "\ud800", "free", "é" * 300, [], {}, [[[]]] * 3, {"$": {}}, "../../etc/passwd",
)  # fmt: skip


def fuzz(seconds: float, seed: int) -> dict[str, Any]:
    """{"runs", "forgeries", "crashes", "accepted_forgeries", "answers": {status: count}, "first_crashes"}."""
    with tempfile.TemporaryDirectory(prefix="baton-fuzz-") as directory, PrivateRedis(Path(directory)) as redis:
        store = Store(redis.url)
        fabric = shapes.build("star", hosts=4, rate_bps=10**8)
        store.publish_fabric({"fabric": fabric.to_dict(), "blocked": [], "hosts": [], "version": 1})
        store.set_override("coordinate")
        try:
            return _Site(Path(directory), store).fuzz(seconds, seed)
        finally:
            store.close()


class _Site:
    """The application, with a session and a token for its clients."""

    def __init__(self, directory: Path, store: Store) -> None:
        self._store = store
        accounts = Accounts(directory / "users.json")
        accounts.set_user("ann", PASSWORD, now_s=int(time.time()))
        self._token = accounts.create_token("friend", now_s=int(time.time()))
        self._app = create_app(store, settings=WebSettings(users=accounts.path))
        self._app.testing = True  # so that exceptions leave the application
        foreign = create_app(store, settings=WebSettings(users=_other_users(directory)))
        self._session, self._csrf = _log_in(self._app)
        self._foreign_session, self._foreign_csrf = _log_in(foreign)
        endless = "/api/stream"
        self._rules = sorted((rule for rule in self._app.url_map.iter_rules() if rule.rule != endless), key=str)
        self._changing = [rule for rule in self._rules if (rule.methods or set()) - SAFE]
        self._granted = (store.override(), store.policy())

    def fuzz(self, seconds: float, seed: int) -> dict[str, Any]:
        """Sends requests for so many seconds; the record."""
        generator = random.Random(seed)
        counts: Counter[str] = Counter()
        answers: Counter[int] = Counter()
        crashes: list[str] = []
        forgeries: list[str] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            who = generator.choice(("stranger", "victim", "friend"))
            request = self._request(generator, who)
            counts["runs"] += 1
            counts["forgeries"] += who != "friend"
            try:
                answer = self._app.test_client(use_cookies=False).open(**request)
                answers[answer.status_code] += 1
                crash = "answered 500" if answer.status_code == 500 else ""
                answer.close()
            except Exception:  # any exception is a finding
                crash = traceback.format_exc()
            if crash:
                counts["crashes"] += 1
                line = f"seed {seed}, run {counts['runs']}, {who} {request!r:.600}: {crash}"
                crashes += [line][: CRASHES_KEPT - len(crashes)]
            elif self._is_accepted(who, request, answer.status_code):
                counts["accepted_forgeries"] += 1
                forgeries += [f"seed {seed}, run {counts['runs']}, {who} {request!r:.600}"][: CRASHES_KEPT - len(forgeries)]
        return {
            "runs": counts["runs"],
            "forgeries": counts["forgeries"],
            "crashes": counts["crashes"],
            "accepted_forgeries": counts["accepted_forgeries"],
            "paths": len(self._rules),
            "changing": sorted({str(rule) for rule in self._changing}),
            "answers": dict(sorted(answers.items())),
            "first_crashes": crashes,
            "first_forgeries": forgeries,
        }

    def _is_accepted(self, who: str, request: dict[str, Any], status: int) -> bool:
        state = self._store.override(), self._store.policy()
        changed, self._granted = state != self._granted, state
        ended = who == "stranger" and request["path"] == "/logout" and status == TO_THE_PAGE  # no session: nothing to end
        taken = request["method"] not in SAFE and status < 400 and status != ELSEWHERE and not ended
        return who != "friend" and (changed or taken)

    def _request(self, generator: random.Random, who: str) -> dict[str, Any]:
        headers: list[tuple[str, str]] = []
        if who == "friend":
            headers.append(("Authorization", f"Bearer {self._token}"))
        elif who == "victim":
            headers.append(("Cookie", f"baton={self._session}"))
            if generator.random() < 0.5:
                wrong = (self._foreign_csrf, self._csrf[:-1], self._csrf.swapcase(), "x")
                headers.append(("X-CSRF-Token", generator.choice(wrong)))
            if generator.random() < 0.3:  # not even a page elsewhere that has read the token may use it
                headers = [headers[0], ("X-CSRF-Token", self._csrf), ("Origin", "https://evil.example")]
        else:
            headers += self._forged(generator)
        for _ in range(generator.randrange(3)):
            headers.append((generator.choice(HEADERS), _text(generator)))
        rule = generator.choice(self._changing if generator.random() < 0.4 else self._rules)
        method = generator.choice(sorted(rule.methods or METHODS) if generator.random() < 0.7 else METHODS)
        request: dict[str, Any] = {"method": method, "path": self._path(rule.rule, generator), "headers": headers}
        if generator.random() < 0.3:
            request["query_string"] = _text(generator)
        return request | self._body(generator)

    def _forged(self, generator: random.Random) -> list[tuple[str, str]]:
        flipped = list(self._session)
        at = generator.randrange(len(flipped) - 1)  # some bits of the last character are unused
        flipped[at] = "A" if flipped[at] != "A" else "B"
        identifier = self._token.split("_")[1]
        return generator.choice((
            [],
            [("Cookie", f"baton={''.join(flipped)}"), ("X-CSRF-Token", self._csrf)],
            [("Cookie", f"baton={self._foreign_session}"), ("X-CSRF-Token", self._foreign_csrf)],
            [("Cookie", f"baton={_text(generator)}; baton={_text(generator)}")],
            [("Authorization", f"Bearer baton_{identifier}_{_text(generator)}")],
            [("Authorization", f"Bearer {self._token[:-1]}")],
            [("Authorization", f"Basic {self._token}")],
            [("Authorization", _text(generator)), ("Cookie", f"baton={self._session}"), ("X-CSRF-Token", self._csrf)],
        ))  # fmt: skip

    def _path(self, path: str, generator: random.Random) -> str:
        while "<" in path:
            head, _, rest = path.partition("<")
            path = head + generator.choice(("1", "0" * 16, "h1", "..", "%00", "é", _text(generator))) + rest.partition(">")[2]
        if generator.random() < 0.1:
            at = generator.randrange(len(path) + 1)
            path = path[:at] + generator.choice(("/", "//", ".", "%2e%2e/", "\\", "?", _text(generator))) + path[at:]
        return "/" + path.lstrip("/").replace("?", "%3F")

    def _body(self, generator: random.Random) -> dict[str, Any]:
        way = generator.random()
        if way < 0.2:
            return {}
        if way < 0.3:
            return {"data": generator.randbytes(generator.choice((1, 100, 2_000_000)) if way < 0.21 else 50)}
        if way < 0.4:
            form = {"user": "ann", "password": _text(generator), "csrf_token": _text(generator), "next": _text(generator)}
            return {"data": {name: value.encode(errors="replace") for name, value in form.items()}}
        value = json.loads(json.dumps(generator.choice(BODIES)))
        for _ in range(generator.randrange(3)):
            value = _mutated(value, generator)
        text = json.dumps(value)
        if generator.random() < 0.1:
            text = text[: generator.randrange(len(text) + 1)] + generator.choice(("", "[" * 5_000, "\0", "}"))
        return {"data": text.encode(errors="replace"), "content_type": "application/json"}


def _mutated(value: Any, generator: random.Random) -> Any:  # noqa: ANN401 -- JSON
    if not isinstance(value, dict) or not value or generator.random() < 0.1:
        return generator.choice(ODD)
    key = generator.choice(list(value))
    way = generator.randrange(3)
    if way == 0:
        return {name: generator.choice(ODD) if name == key else inner for name, inner in value.items()}
    if way == 1:
        return {name: inner for name, inner in value.items() if name != key}
    return {**value, _text(generator): generator.choice(ODD)}


def _text(generator: random.Random) -> str:
    """A short text with unusual characters; without line ends, which no client sends in a header."""
    letters = "aZ09_-.~%/\\'\"<>{}[];:,=&+ *éß€\U0001f980\x7f\t"
    return "".join(generator.choice(letters) for _ in range(generator.randrange(24)))


def _other_users(directory: Path) -> Path:
    accounts = Accounts(directory / "other.json")
    accounts.set_user("ann", PASSWORD, now_s=int(time.time()))
    return accounts.path


def _log_in(app: Flask) -> tuple[str, str]:
    """A session's cookie and its CSRF token."""
    client: FlaskClient = app.test_client()
    token = client.get("/api/session").get_json()["csrf"]
    answer = client.post("/login", data={"user": "ann", "password": PASSWORD, "csrf_token": token})
    cookie = client.get_cookie("baton")
    if answer.status_code != 303 or cookie is None:
        raise RuntimeError(f"the fuzzer cannot log in: {answer.status_code}")
    return cookie.value, str(client.get("/api/session").get_json()["csrf"])
