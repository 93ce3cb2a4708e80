"""Who may try a password now: limits that slow guessing, and do not lock a user out for what others do. Pure.

A try is counted where it comes from:

* A *known browser* (one with the cookie of an earlier login of this user) has tries of its own, whatever others do.
* A *home* (an address at which this user has logged in) has tries for this user, whatever happens elsewhere.
* All others are strangers. Their tries are limited for each address with each user, for each address, for each user from all
  addresses together (distributed guessing), and in total. The last one bounds the server's work: a hash takes 50 ms and 32 MiB.

The method is that of OWASP's "Slow Down Online Guessing Attacks with Device Cookies".
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.units import SECOND_NS
from webui.access.limiter import Limiter

HOMES_KEPT = 1_024


class Attempt(NamedTuple):
    """A try to log in: as whom, from which origin, and the number of the known browser (None: it is not known)."""

    user: str
    origin: str
    browser: str | None


class Guard:
    """The tries that are left."""

    def __init__(self) -> None:
        self._by_browser = Limiter(burst=8, refill_ns=60 * SECOND_NS)
        self._by_pair = Limiter(burst=8, refill_ns=60 * SECOND_NS)
        self._by_origin = Limiter(burst=20, refill_ns=15 * SECOND_NS)
        self._by_user = Limiter(burst=60, refill_ns=60 * SECOND_NS)
        self._known = Limiter(burst=20, refill_ns=SECOND_NS)
        self._strangers = Limiter(burst=30, refill_ns=SECOND_NS // 2)
        self._homes: dict[tuple[str, str], None] = {}

    def wait_ns(self, attempt: Attempt, *, now_ns: int) -> int:
        """Counts a try; returns how long to wait (ns) if there were too many, else 0."""
        pair = f"{attempt.origin} {attempt.user}"
        if attempt.browser is not None:
            tried = [(self._by_browser, attempt.browser), (self._known, "")]
        elif (attempt.user, attempt.origin) in self._homes:
            tried = [(self._by_pair, pair), (self._known, "")]
        else:
            tried = [
                (self._by_pair, pair),
                (self._by_origin, attempt.origin),
                (self._by_user, attempt.user),
                (self._strangers, ""),
            ]
        return next((wait for limiter, name in tried if (wait := limiter.wait_ns(name, now_ns=now_ns))), 0)

    def succeeded(self, attempt: Attempt) -> None:
        """The password was right: the try does not count, and the address is a home from now on."""
        self._by_pair.forgive(f"{attempt.origin} {attempt.user}")
        if attempt.browser is not None:
            self._by_browser.forgive(attempt.browser)
        self._homes.pop((attempt.user, attempt.origin), None)
        self._homes[attempt.user, attempt.origin] = None
        while len(self._homes) > HOMES_KEPT:
            del self._homes[next(iter(self._homes))]
