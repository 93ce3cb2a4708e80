"""Access control of the web server: logins, sessions, CSRF, tokens, limits, audit. With Flask's own client, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, jsonify
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from controller.store.store import StoreUnavailable
from webui.access.accounts import Accounts
from webui.access.auth import AUTH, audit, auth, bind_error, csrf_token, login_required
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


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users.json"
    Accounts(file).set_user("ann", PASSWORD, now_s=1)
    return file


@pytest.fixture
def site(users: Path) -> Site:
    return Site(users)


def csrf(client: FlaskClient) -> str:
    return str(client.get("/api/session").get_json()["csrf"])


def log_in(client: FlaskClient, password: str = PASSWORD, user: str = "ann", **more: str) -> TestResponse:
    return client.post("/login", data={"user": user, "password": password, "csrf_token": csrf(client), **more})


class TestVisitors:
    """Reading is free, changing is not."""

    def test_a_visitor_may_read_and_not_change(self, site: Site) -> None:
        client = site.client()
        assert client.get("/").status_code == 200
        assert client.post("/change", headers={"X-CSRF-Token": csrf(client)}).status_code == 401
        assert site.changes == 0

    def test_where_reading_needs_a_login_a_visitor_is_sent_to_it(self, users: Path) -> None:
        site = Site(users, login_to_read=True)
        client = site.client()
        answer = client.get("/", headers={"Accept": "text/html"})
        assert answer.status_code == 303 and answer.headers["Location"].startswith("/login")
        assert client.get("/", headers={"Accept": "application/json"}).status_code == 401
        log_in(client)
        assert client.get("/").status_code == 200

    def test_without_a_users_file_nobody_gets_in_and_the_page_says_what_to_do(self, tmp_path: Path) -> None:
        client = Site(tmp_path / "none.json").client()
        assert b"baton user add" in client.get("/login").data
        assert log_in(client).status_code == 401

    def test_a_users_file_open_to_others_closes_the_login_and_not_the_page(self, site: Site, users: Path) -> None:
        users.chmod(0o644)
        assert site.client().get("/").status_code == 200
        assert site.client().get("/login").status_code == 503


class TestSessions:
    """A login lasts for its time, for its browser and for its password."""

    def test_who_logged_in_may_change(self, site: Site) -> None:
        client = site.client()
        assert log_in(client).status_code == 303
        assert client.get("/api/session").get_json()["user"] == "ann"
        assert client.post("/change", headers={"X-CSRF-Token": csrf(client)}).status_code == 200

    def test_the_cookie_is_kept_from_scripts_and_other_sites_and_plain_http(self, users: Path) -> None:
        cookie = Site(users, cert=Path("x.pem")).client().get("/api/session").headers["Set-Cookie"]
        assert cookie.startswith("__Host-baton=") and "Path=/" in cookie and "Domain" not in cookie
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Secure"))

    def test_a_wrong_password_and_an_unknown_user_read_alike(self, site: Site) -> None:
        wrong, unknown = log_in(site.client(), "wrong"), log_in(site.client(), user="bob")
        assert wrong.status_code == unknown.status_code == 401
        assert b"wrong name or password" in wrong.data and b"wrong name or password" in unknown.data

    def test_an_unknown_user_costs_the_same_hash(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        hashed: list[str] = []
        monkeypatch.setattr("webui.access.accounts.check_password_hash", lambda known, _: hashed.append(known) or False)
        log_in(site.client(), "wrong")
        log_in(site.client(), user="bob")
        assert len(hashed) == 2 and all(known.startswith("scrypt:") for known in hashed)

    def test_it_ends_in_the_evening_however_busy(self, site: Site) -> None:
        client = site.client()
        log_in(client)
        site.now_ns += 12 * 3_600 * SECOND
        assert client.get("/api/session").get_json()["user"] is None

    def test_a_new_password_or_removal_ends_it(self, site: Site, users: Path) -> None:
        client = site.client()
        log_in(client)
        Accounts(users).set_user("ann", "another horse battery", now_s=2)
        assert client.get("/api/session").get_json()["user"] is None

    def test_a_cookie_that_was_copied_is_void_after_the_logout(self, site: Site) -> None:
        client = site.client()
        log_in(client)
        cookie = client.get_cookie("baton")
        assert cookie is not None
        assert client.post("/logout", headers={"X-CSRF-Token": csrf(client)}).status_code == 303
        thief = site.client()
        thief.set_cookie("baton", cookie.value)
        assert thief.get("/api/session").get_json()["user"] is None

    def test_a_session_is_not_taken_over_from_before_the_login(self, site: Site) -> None:
        client = site.client()
        before = csrf(client)
        log_in(client)
        assert csrf(client) != before

    def test_a_cookie_signed_by_somebody_else_is_a_visitors(self, site: Site, tmp_path: Path) -> None:
        other_file = tmp_path / "other.json"
        Accounts(other_file).set_user("ann", PASSWORD, now_s=1)
        other = Site(other_file).client()
        log_in(other)
        cookie = other.get_cookie("baton")
        assert cookie is not None
        client = site.client()
        client.set_cookie("baton", cookie.value)
        assert client.get("/api/session").get_json()["user"] is None

    @pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb"])
    def test_the_login_never_leads_elsewhere(self, site: Site, wanted: str) -> None:
        assert log_in(site.client(), next=wanted).headers["Location"] == "/"


class TestForgedRequests:
    """A change must come from a page of ours."""

    def test_a_change_without_the_token_is_refused(self, site: Site) -> None:
        client = site.client()
        log_in(client)
        assert client.post("/change").status_code == 403
        assert client.post("/change", headers={"X-CSRF-Token": "guess"}).status_code == 403
        assert client.post("/change", headers={"X-CSRF-Token": "gu\u00e9ss"}).status_code == 403
        assert site.changes == 0

    def test_the_token_of_another_session_is_refused(self, site: Site) -> None:
        one, other = site.client(), site.client()
        log_in(one)
        log_in(other)
        assert one.post("/change", headers={"X-CSRF-Token": csrf(other)}).status_code == 403

    def test_another_origin_is_refused_even_with_the_token(self, site: Site) -> None:
        client = site.client()
        log_in(client)
        headers = {"X-CSRF-Token": csrf(client), "Origin": "http://evil.example"}
        assert client.post("/change", headers=headers).status_code == 403

    def test_a_login_without_the_token_is_refused(self, site: Site) -> None:
        assert site.client().post("/login", data={"user": "ann", "password": PASSWORD}).status_code == 403

    def test_another_name_for_this_server_is_refused(self, site: Site) -> None:
        assert site.client().get("/", headers={"Host": "rebound.evil.example"}).status_code == 400

    def test_every_answer_forbids_foreign_scripts_and_frames(self, site: Site) -> None:
        headers = site.client().get("/").headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "script-src" not in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"


class TestTokens:
    """Programs need no cookie."""

    def test_a_token_may_change_without_cookie_and_csrf(self, site: Site, users: Path) -> None:
        text = Accounts(users).create_token("ci", now_s=1)
        assert site.client().post("/change", headers={"Authorization": f"Bearer {text}"}).status_code == 200
        assert site.store.events[-1][3]["by"] == "token ci"

    @pytest.mark.parametrize("header", ["Bearer x", "Bearer ", "Basic YW5uOng=", "", "Bearer baton_0_0"])
    def test_a_wrong_token_is_refused_even_beside_a_good_session(self, site: Site, header: str) -> None:
        client = site.client()
        log_in(client)
        answer = client.post("/change", headers={"Authorization": header, "X-CSRF-Token": csrf(client)})
        assert answer.status_code == 401 and "Bearer" in answer.headers["WWW-Authenticate"]


class TestLimits:
    """Guessing is slow, for each user, each address, and all together."""

    def guess(self, site: Site, address: str, user: str = "ann") -> int:
        client = site.client()
        client.environ_base["REMOTE_ADDR"] = address
        return log_in(client, "wrong", user=user).status_code

    def test_a_user_cannot_be_guessed_at_from_many_addresses(self, site: Site) -> None:
        codes = []
        for number in range(90):
            site.now_ns += SECOND
            codes.append(self.guess(site, f"127.0.1.{number + 1}"))
        assert codes[:60] == [401] * 60 and codes.count(401) <= 62

    def test_one_address_has_few_guesses_at_one_user(self, site: Site) -> None:
        codes = [self.guess(site, "10.0.0.9") for _ in range(12)]
        assert codes == [401] * 8 + [429] * 4

    def test_others_guesses_do_not_lock_a_user_out_where_the_user_has_been(self, site: Site) -> None:
        home = site.client()
        home.environ_base["REMOTE_ADDR"] = "10.0.0.1"
        assert log_in(home).status_code == 303
        moved = site.client()
        moved.environ_base["REMOTE_ADDR"] = "10.0.0.99"
        browser = home.get_cookie("baton-browser")
        assert browser is not None
        moved.set_cookie("baton-browser", browser.value)
        for number in range(200):
            self.guess(site, f"10.0.1.{number}")
        again = site.client()
        again.environ_base["REMOTE_ADDR"] = "10.0.0.1"
        assert log_in(again).status_code == 303  # at the known address
        assert log_in(moved).status_code == 303  # elsewhere, with the known browser
        assert home.get("/api/session").get_json()["user"] == "ann"
        stranger = site.client()
        stranger.environ_base["REMOTE_ADDR"] = "10.0.0.98"
        assert log_in(stranger).status_code == 429

    def test_the_cookie_of_a_browser_is_of_one_user_and_can_not_be_forged(self, site: Site, users: Path) -> None:
        Accounts(users).set_user("bob", PASSWORD, now_s=1)
        client = site.client()
        client.environ_base["REMOTE_ADDR"] = "10.0.0.1"
        log_in(client)
        cookie = client.get_cookie("baton-browser")
        assert cookie is not None
        for value, user in ((cookie.value, "bob"), (cookie.value[:-1] + "A", "ann"), ("", "ann"), ("W10.x", "ann")):
            thief = site.client()
            thief.environ_base["REMOTE_ADDR"] = f"10.0.0.{len(value) % 50 + 100}"
            if value:
                thief.set_cookie("baton-browser", value)
            assert [log_in(thief, "wrong", user=user).status_code for _ in range(9)] == [401] * 8 + [429]
            site.now_ns += 600 * SECOND

    def test_an_address_cannot_guess_at_many_users_and_is_told_when_to_come_back(self, site: Site) -> None:
        client = site.client()
        answers = [log_in(client, "wrong", user=f"user{number}") for number in range(21)]
        assert {answer.status_code for answer in answers[:20]} == {401}
        assert answers[20].status_code == 429 and int(answers[20].headers["Retry-After"]) >= 1

    def test_who_waits_gets_in(self, site: Site) -> None:
        client = site.client()
        while log_in(client, "wrong").status_code == 401:
            pass
        assert log_in(client).status_code == 429
        site.now_ns += 120 * SECOND
        assert log_in(client).status_code == 303


class TestAudit:
    """Each change is recorded with its user."""

    def test_logins_good_and_bad_and_changes_are_recorded(self, site: Site) -> None:
        client = site.client()
        log_in(client, "wrong")
        log_in(client)
        token = {"X-CSRF-Token": csrf(client)}
        client.post("/change", headers=token)
        client.post("/told", headers=token)
        client.post("/logout", headers=token)
        assert site.store.refusals == [
            (
                "login refused: wrong name or password, from 127.0.0.1",
                True,
                {"user": "ann", "address": "127.0.0.1"},
            )
        ]
        assert site.store.texts() == [
            "ann: logged in",
            "ann: POST /change: 200",
            "ann: policy set to rate_limit",
            "ann: logged out",
        ]
        assert all(kind == "audit" and fields["address"] == "127.0.0.1" for kind, _, _, fields in site.store.events)

    def test_no_password_is_recorded(self, site: Site) -> None:
        log_in(site.client(), "hunter2hunter2")
        log_in(site.client())
        assert not [text for text in map(str, site.store.events) if "hunter2" in text or PASSWORD in text]


    def test_a_flood_of_refused_logins_adds_a_few_lines_and_their_sum_and_nothing_to_the_audit(
        self, site: Site, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "baton.web.auth")
        log_in(site.client())
        client = site.client()
        client.environ_base["REMOTE_ADDR"] = "10.0.0.9"
        for _ in range(500):
            log_in(client, "wrong", user="ann")
        site.now_ns += 61 * SECOND
        site.app.extensions[AUTH].tell_sum()
        assert site.store.texts() == ["ann: logged in"]
        assert len(site.store.refusals) == 11 and sum(event for _, event, _ in site.store.refusals) == 2
        text = "490 more logins were refused within 60 s, from 1 addresses for 1 users; 490 from 10.0.0.9"
        assert site.store.refusals[-1] == (text, True, {})
        assert len([record for record in caplog.records if "login refused" in record.message]) == 11

    def test_a_name_that_is_no_users_is_not_recorded_and_forges_no_line(
        self, site: Site, caplog: pytest.LogCaptureFixture
    ) -> None:
        log_in(site.client(), "wrong", user="hunter2hunter2")
        log_in(site.client(), "wrong", user="x\n2026-01-01 baton.web.auth INFO audit: ann: all well")
        assert [fields["user"] for _, _, fields in site.store.refusals] == ["an unknown user"] * 2
        assert not [record for record in caplog.records if "hunter2" in record.message or "\n" in record.message]


class TestTheStoresSessions:
    """A session lives as long as the store has it."""

    def test_a_logout_holds_for_another_web_server(self, site: Site, users: Path) -> None:
        client = site.client()
        log_in(client)
        cookie = client.get_cookie("baton")
        client.post("/logout", headers={"X-CSRF-Token": csrf(client)})
        other = Site(users)
        other.store.sessions = site.store.sessions
        thief = other.client()
        assert cookie is not None
        thief.set_cookie("baton", cookie.value)
        assert thief.get("/api/session").get_json()["user"] is None

    def test_while_the_store_is_away_a_user_is_a_visitor_and_is_back_with_it(self, site: Site) -> None:
        client = site.client()
        log_in(client)
        site.store.sessions.lost = True
        assert client.get("/api/session").get_json()["user"] is None
        site.store.sessions.lost = False
        assert client.get("/api/session").get_json()["user"] == "ann"


class TestWhereItListens:
    """Passwords never cross a network in the clear."""

    @pytest.mark.parametrize(("address", "tls", "fine"), [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("localhost", False, True),
        ("0.0.0.0", False, False),
        ("10.0.0.1", False, False),
        ("example.org", False, False),
        ("0.0.0.0", True, True),
    ])  # fmt: skip
    def test_elsewhere_needs_tls(self, address: str, tls: bool, fine: bool) -> None:
        assert (bind_error(address, tls=tls) is None) is fine


def test_the_token_is_there_for_templates(site: Site) -> None:
    with site.app.test_request_context("/"):
        assert csrf_token() == csrf_token() != ""
