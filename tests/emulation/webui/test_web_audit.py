"""What stays of logins: the trail of operators' actions, the log, and a logout, with the real server and store."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.dashboard.hostile import PASSWORD, USER, Operator
from bench.dashboard.page import WebServer
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.webui.web_feed import Feed
from webui.access.accounts import Accounts
from webui.server.front import KNOWN_S

pytestmark = needs.REDIS

FLOOD_S = 30.0


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    Accounts(tmp_path / "users.json").set_user(USER, PASSWORD, now_s=1)
    with PrivateRedis(tmp_path) as running:
        Feed.small(Store(running.url))
        yield running


def flood(port: int, address: str, ended: threading.Event) -> None:
    """Tries wrong passwords, one after the other, over one connection as long as it lasts."""
    guesser = Operator(port, address)
    form = {"user": USER, "password": "wrong password\n2026 forged line", "csrf_token": ""}
    while not ended.is_set():
        try:
            connection = guesser.connect()
            form["csrf_token"] = json.loads(guesser.ask(connection, "GET", "/api/session"))["csrf"]
            while not ended.is_set():
                try:
                    guesser.ask(connection, "POST", "/login", form)
                except OSError as error:
                    if not str(error).startswith("POST /login: 4"):
                        raise
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)


def test_a_flood_of_refused_logins_leaves_the_trail_the_events_and_few_lines(redis: PrivateRedis, tmp_path: Path) -> None:
    store = Store(redis.url)
    with WebServer(redis.url, tmp_path) as server:
        operator = Operator(server.port, "127.0.0.1")
        operator.log_in()
        store.publish_event("tree", "info", "before the flood")
        ended = threading.Event()
        guessers = [threading.Thread(target=flood, args=(server.port, f"127.0.0.{9 + at}", ended)) for at in range(4)]
        for guesser in guessers:
            guesser.start()
        time.sleep(FLOOD_S)
        Operator(server.port, "127.0.0.1").log_in()  # from an address where the user has logged in before
        ended.set()
        for guesser in guessers:
            guesser.join()
    trail = store.feeds.audit(20)
    assert [entry["text"] for entry in trail] == ["ann: logged in"] * 2
    assert "before the flood" in [entry["text"] for entry in store.events(1_000)]
    refused = store.feeds.refused(1_000)
    assert 1 <= len(refused) < 20 and refused[0]["user"] == USER and refused[0]["address"].startswith("127.0.0.")
    lines = [line for line in (tmp_path / "web.log").read_text().splitlines() if "login" in line and "refused" in line]
    assert 1 <= len(lines) < 20 and all(line.startswith("20") for line in lines)
    assert "logged in" in (tmp_path / "web.log").read_text()
    assert not any("wrong password" in str(entry) for entry in refused)


def test_a_logout_survives_a_restart_of_the_web_server_and_so_does_a_session(redis: PrivateRedis, tmp_path: Path) -> None:
    stays, leaves = [], []
    with WebServer(redis.url, tmp_path) as server:
        for one in (stays, leaves):
            one.append(Operator(server.port, "127.0.0.1"))
            one[0].log_in()
        copied = dict(leaves[0].cookies)
        connection = leaves[0].connect()
        csrf = json.loads(leaves[0].ask(connection, "GET", "/api/session"))["csrf"]
        leaves[0].ask(connection, "POST", "/logout", {"csrf_token": csrf})
        connection.close()
    with WebServer(redis.url, tmp_path) as server:
        for cookies, user in ((copied, None), (stays[0].cookies, USER)):
            again = Operator(server.port, "127.0.0.1")
            again.cookies = dict(cookies)
            connection = again.connect()
            assert json.loads(again.ask(connection, "GET", "/api/session"))["user"] == user
            connection.close()


def test_an_event_stream_ends_when_its_user_is_removed(redis: PrivateRedis, tmp_path: Path) -> None:
    with WebServer(redis.url, tmp_path) as server:
        operator, visitor = Operator(server.port, "127.0.0.1"), Operator(server.port, "127.0.0.2")
        operator.log_in()
        streams = []
        for one in (operator, visitor):
            connection = one.connect()
            cookies = "; ".join(f"{name}={value}" for name, value in one.cookies.items())
            connection.request("GET", "/api/stream", headers={"Cookie": cookies})
            streams.append((connection, connection.getresponse()))
        Accounts(tmp_path / "users.json").remove_user(USER)
        until_s = time.monotonic() + 4 * KNOWN_S
        while streams[0][1].readline():
            assert time.monotonic() < until_s, "it goes on"
        assert streams[1][1].readline(), "a visitor's goes on"
        for connection, _ in streams:
            connection.close()
