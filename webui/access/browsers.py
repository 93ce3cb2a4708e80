"""The cookie by which a browser is known again that a user has logged in with. It opens nothing: it only has tries of its own
(webui/access/guard.py), so that others' guesses do not lock the user out. Pure.
"""

from __future__ import annotations

from itsdangerous import BadSignature, URLSafeSerializer

KNOWN_S = 180 * 86_400
"""How long a browser is known after a login."""


def cookie_of(secret: str, user: str, number: str, *, now_s: int) -> str:
    """The cookie's value, signed with the secret of sessions."""
    return str(_signer(secret).dumps([user, number, now_s]))


def number_of(secret: str, cookie: str, user: str, *, now_s: int) -> str | None:
    """The number of the browser with this cookie; None if it is none of ours, another user's, or too old."""
    try:
        known, number, since_s = _signer(secret).loads(cookie)
    except (BadSignature, ValueError, TypeError):
        return None
    return str(number) if known == user and now_s < int(since_s) + KNOWN_S else None


def _signer(secret: str) -> URLSafeSerializer:
    return URLSafeSerializer(secret, salt="baton-browser")
