"""Who may do what in the store: a login for each process, as Redis' access control lists have it. Pure.

The supervisor gives the private store these users with passwords of its own making. docs/store.md has the same rules for a
store that several controllers share.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping

OPERATOR, COORDINATOR, OPENFLOW, WEB = "operator", "coordinator", "openflow", "web"
WORK = "+@read +@write +@connection +@transaction +@pubsub +time +eval_ro -@dangerous"
"""What processes do with keys; nothing of the server itself."""
RULES: Mapping[str, str] = {
    OPERATOR: "~* &* +@all",
    COORDINATOR: f"~baton:* &baton:* {WORK} +eval +info",
    OPENFLOW: f"%R~baton:* ~baton:schema ~baton:fabric ~baton:ports ~baton:events &baton:* {WORK}",
    WEB: "%R~baton:* ~baton:schema ~baton:policy ~baton:override ~baton:events ~baton:audit ~baton:refused ~baton:session:* "
    f"&baton:* {WORK}",
}
"""By login: the keys that it reads (R) and writes, its channels, its commands."""


def user(login: str) -> str:
    """The user's name in Redis."""
    return f"baton-{login}"


def passwords() -> dict[str, str]:
    """A new random password for each login."""
    return {login: secrets.token_urlsafe(24) for login in RULES}


def lines(known: Mapping[str, str]) -> Iterator[str]:
    """The lines of redis.conf that make these logins, and no other."""
    yield "user default off"
    for login, password in known.items():
        yield f"user {user(login)} on >{password} {RULES[login]}"
