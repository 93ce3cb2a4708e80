"""A login of the store's is what it was, whatever is in its password."""

from __future__ import annotations

import pytest

from controller.store.url import SentinelUrl, with_login


@pytest.mark.parametrize("word", ["plain", "a/b", "a?b", "a@b", "a:b", "a%2Fb", "100%"])
@pytest.mark.parametrize("scheme", ["redis+sentinel", "rediss+sentinel"])
def test_a_login_at_sentinels_has_the_password_that_it_was_given(scheme: str, word: str) -> None:
    found = SentinelUrl.parse(with_login(f"{scheme}://:old@h1:1,h2/baton/2?sentinel_password=x", "u", word))
    assert (found.user, found.password, found.service, found.database) == ("u", word, "baton", 2)
    assert found.sentinels == (("h1", 1), ("h2", 26379)) and found.sentinel_password == "x"
