"""Sessions of the web server: how long a login lasts, where it leads, and what a copied or forged cookie is worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.unit.webui.access.auth_site import PASSWORD, SECOND, Site, csrf, log_in
from webui.access import accounts
from webui.access.accounts import Accounts
from webui.access.auth import still


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

    @pytest.mark.parametrize("removed", [True, False])
    def test_so_does_one_that_comes_while_the_password_is_being_checked(
        self, site: Site, users: Path, monkeypatch: pytest.MonkeyPatch, removed: bool
    ) -> None:
        check = accounts.check_password_hash

        def checked(known: str, password: str) -> bool:
            right = check(known, password)
            if removed:
                Accounts(users).remove_user("ann")
            else:
                Accounts(users).set_user("ann", "another horse battery", now_s=2)
            return right

        monkeypatch.setattr(accounts, "check_password_hash", checked)
        client = site.client()
        log_in(client)
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

    def test_a_tab_of_an_ended_session_may_log_out_again(self, site: Site) -> None:
        client = site.client()
        log_in(client)
        token = {"X-CSRF-Token": csrf(client)}
        assert client.post("/logout", headers={"X-CSRF-Token": "of another site"}).status_code == 403
        for _ in range(2):
            answer = client.post("/logout", headers=token)
            assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        assert site.store.texts().count("ann: logged out") == 1

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


def cookie_of(client: FlaskClient) -> str:
    """The header of a client's session."""
    cookie = client.get_cookie("baton")
    assert cookie is not None
    return f"baton={cookie.value}"


class TestStill:
    """An event stream asks later whether its user still has access."""

    def asked(self, site: Site, **headers: str) -> Callable[[], bool]:
        with site.app.test_request_context("/", headers=headers):
            return still()

    def test_of_a_token_until_it_is_revoked(self, site: Site, users: Path) -> None:
        token = Accounts(users).create_token("prog", now_s=1)
        known = self.asked(site, Authorization=f"Bearer {token}")
        assert known()
        Accounts(users).revoke_token("prog")
        assert not known()

    def test_of_a_session_until_logout_and_not_while_the_store_is_away(self, site: Site, users: Path) -> None:
        client = site.client()
        log_in(client)
        known = self.asked(site, Cookie=cookie_of(client))
        assert known()
        site.store.sessions.lost = True
        assert known()
        site.store.sessions.lost = False
        client.post("/logout", headers={"X-CSRF-Token": csrf(client)})
        assert not known()

    def test_of_a_user_until_removal_and_of_a_visitor_always(self, site: Site, users: Path) -> None:
        client = site.client()
        log_in(client)
        known, visitor = self.asked(site, Cookie=cookie_of(client)), self.asked(site)
        assert known()
        Accounts(users).remove_user("ann")
        assert not known() and visitor()
