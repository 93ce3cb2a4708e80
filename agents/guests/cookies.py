"""Cookies: who sends one back has received it, so the address that it speaks from is its own. Pure but for the secret.

As in DTLS (RFC 9147, section 5.1) and QUIC (RFC 9000, section 8.1): nothing is kept for a sender until it has shown this, and
it is answered with at most `ANSWER_TIMES` the bytes that came, so that nobody uses the agent to flood others.
"""

from __future__ import annotations

import hashlib
import hmac

from agents.queues.classifier import Address
from protocol.units import SECOND_NS

PERIOD_NS = 60 * SECOND_NS
"""A cookie is good in the period that it was made in, and in the next."""
COOKIE_BYTES = 8
ANSWER_TIMES = 3
"""As RFC 9000, section 8.1."""


class Cookies:
    """Makes and checks cookies by a secret of its own (at least 16 random bytes)."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, address: Address, now_ns: int) -> str:
        """The cookie of an address."""
        return self._of(address, now_ns // PERIOD_NS)

    def valid(self, cookie: str, address: Address, now_ns: int) -> bool:
        """Whether it is a cookie of this address that is still good."""
        period, given = now_ns // PERIOD_NS, cookie.encode(errors="replace")
        return any(hmac.compare_digest(given, self._of(address, made).encode()) for made in (period, period - 1))

    def _of(self, address: Address, period: int) -> str:
        whole = hmac.digest(self._secret, period.to_bytes(8, "big", signed=True) + address.packed, hashlib.sha256)
        return whole[:COOKIE_BYTES].hex()
