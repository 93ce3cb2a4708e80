"""Guesses at the web server's login: how many it answers, and what it records of them and of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.webui.access.auth_site import PASSWORD, SECOND, Site, csrf, log_in
from webui.access.accounts import Accounts
from webui.access.auth import AUTH


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

    def test_after_too_many_wrong_passwords_the_right_one_works_two_minutes_later(self, site: Site) -> None:
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
