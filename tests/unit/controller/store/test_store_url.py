"""URLs of the store: which are good, what is wrong with the others, and that a password is never shown."""

from __future__ import annotations

import pytest

from controller.store.connection import Connection, StoreUnavailable
from controller.store.url import SentinelUrl, check, redacted


class TestSentinelUrl:
    """Hosts, the service, a database and a password."""

    def test_hosts_with_and_without_a_port(self) -> None:
        found = SentinelUrl.parse("redis+sentinel://a:1,b,[::1]:3/baton")
        assert found == SentinelUrl((("a", 1), ("b", 26379), ("::1", 3)), "baton")

    def test_a_password_and_a_database(self) -> None:
        found = SentinelUrl.parse("redis+sentinel://:se@cret@a/baton/2")
        assert (found.password, found.database, found.service) == ("se@cret", 2, "baton")

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("redis://a", "begin"),
            ("redis+sentinel://a", "service"),
            ("redis+sentinel://a/", "service"),
            ("redis+sentinel:///baton", "host"),
            ("redis+sentinel://a:0/baton", "port"),
            ("redis+sentinel://a:99999/baton", "port"),
            ("redis+sentinel://a,/baton", "host"),
            ("redis+sentinel://a/baton/x", "database"),
        ],
    )
    def test_what_is_wrong_is_said(self, text: str, word: str) -> None:
        with pytest.raises(ValueError, match=word):
            SentinelUrl.parse(text)


class TestCheck:
    """As the configuration uses it."""

    @pytest.mark.parametrize("url", ["unix:///run/r.sock", "redis://h:1/0", "rediss://h", "redis+sentinel://h/s", None])
    def test_a_good_one_comes_back(self, url: str | None) -> None:
        assert check(url) == url

    @pytest.mark.parametrize("url", ["http://x", "nonsense", "", "redis:///", "unix://", "redis+sentinel://x"])
    def test_a_url_that_is_of_no_redis_is_refused(self, url: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            check(url)

    @pytest.mark.parametrize("url", ["redis://:topsecret@h/0", "redis+sentinel://u:topsecret@a,b/s"])
    def test_a_password_is_never_shown(self, url: str) -> None:
        assert "topsecret" not in redacted(url) and "***" in redacted(url)

    @pytest.mark.parametrize("url", ["redis://:topsecret@h\u2100st:6379/0", "redis://:topsecret@[h/0"])
    def test_a_password_is_not_shown_with_what_is_wrong(self, url: str) -> None:
        with pytest.raises(ValueError, match=r"\*\*\*") as caught:
            check(url)
        with pytest.raises(StoreUnavailable, match=r"\*\*\*") as unavailable:
            Connection(url)
        assert "topsecret" not in f"{caught.value} {unavailable.value}"

    @pytest.mark.parametrize("host", ["a..b", "a" * 64, "h\udcff"])
    @pytest.mark.parametrize("url", ["redis://{}:6379/0", "rediss://{}:6379/0", "redis+sentinel://{}/baton"])
    def test_a_name_that_no_host_can_have_is_told_at_once(self, url: str, host: str) -> None:
        with pytest.raises(ValueError, match="can't be the name of a host"):
            check(url.format(host))
        with pytest.raises(StoreUnavailable, match="can't be the name of a host"):
            Connection(url.format(host))

    @pytest.mark.parametrize("url", ["redis://h:1/0?speed=9", "unix:///run/r.sock?speed=9"])
    def test_an_option_that_redis_has_not_is_told_at_once(self, url: str) -> None:
        with pytest.raises(StoreUnavailable, match="the option 'speed' is unknown"):
            Connection(url)
