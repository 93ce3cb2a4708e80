"""Access control of the web server: who may read and change, CSRF, tokens, and where it listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.webui.access.auth_site import PASSWORD, Site, csrf, log_in
from webui.access.accounts import Accounts
from webui.access.auth import bind_error, csrf_token


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

    @pytest.mark.parametrize("accepted", ["*/*", "text/event-stream", "application/json, text/html;q=0.5"])
    def test_where_reading_needs_a_login_a_program_gets_401_and_no_form(self, users: Path, accepted: str) -> None:
        """curl and a page's fetch() accept everything: they followed the redirect, and took the form for the answer."""
        answer = Site(users, login_to_read=True).client().get("/", headers={"Accept": accepted})
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")

    @pytest.mark.parametrize("signed", ["", ",application/signed-exchange;v=b3;q=0.7"])
    def test_where_reading_needs_a_login_a_browser_is_sent_to_the_form(self, users: Path, signed: str) -> None:
        accepted = f"text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8{signed}"
        assert Site(users, login_to_read=True).client().get("/", headers={"Accept": accepted}).status_code == 303

    def test_without_a_users_file_nobody_gets_in_and_the_page_says_what_to_do(self, tmp_path: Path) -> None:
        client = Site(tmp_path / "none.json").client()
        assert b"baton user add" in client.get("/login").data
        assert log_in(client).status_code == 401

    def test_a_users_file_open_to_others_closes_the_login_and_not_the_page(self, site: Site, users: Path) -> None:
        users.chmod(0o644)
        assert site.client().get("/").status_code == 200
        assert site.client().get("/login").status_code == 503


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

    @pytest.mark.parametrize("origin", ["http://evil.example", "http://[x", "null", ""])
    def test_another_origin_is_refused_even_with_the_token(self, site: Site, origin: str) -> None:
        client = site.client()
        log_in(client)
        headers = {"X-CSRF-Token": csrf(client), "Origin": origin}
        assert client.post("/change", headers=headers).status_code == 403

    def test_a_login_without_the_token_is_refused(self, site: Site) -> None:
        assert site.client().post("/login", data={"user": "ann", "password": PASSWORD}).status_code == 403

    @pytest.mark.parametrize("name", ["rebound.evil.example", "127.0.0.1.evil.eu", "10.0.0.1", "[fd00::2]:8080", "a b"])
    def test_another_name_for_this_server_is_refused(self, site: Site, name: str) -> None:
        assert site.client().get("/", headers={"Host": name}).status_code == 400
        assert site.client().get("/nothing", headers={"Host": name}).status_code == 400

    @pytest.mark.parametrize("name", ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "[0:0::1]"])
    def test_every_name_of_loopback_is_this_servers(self, site: Site, name: str) -> None:
        assert site.client().get("/", headers={"Host": name}).status_code == 200

    @pytest.mark.parametrize(
        ("names", "host"),
        [
            ("fd00::2", "[fd00::2]:8080"),
            ("[FD00::2]", "[fd00:0::2]"),
            ("10.0.0.1:443", "10.0.0.1"),
            ("Baton.example", "baton.EXAMPLE:8443"),
            ("bücher.example", "xn--bcher-kva.example"),
            (".example", "baton.example"),
        ],
    )
    def test_a_server_with_names_answers_to_these_alone(self, users: Path, names: str, host: str) -> None:
        client = Site(users, names=(names,)).client()
        assert client.get("/", headers={"Host": host}).status_code == 200
        for other in ("localhost", "evil.com", "[fd00::3]"):
            assert client.get("/", headers={"Host": other}).status_code == 400

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
