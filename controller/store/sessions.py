"""The sessions of users who are logged in to the dashboard, so that a logout holds for every web server, also after a restart.
An edge: Redis, by a `Connection`.

A session that is not in the store has ended: a store that has lost its data ends them all. Which keys there are:
`controller.store.layout`.
"""

from __future__ import annotations

from controller.store.connection import Connection
from controller.store.layout import PREFIX


class Sessions:
    """The sessions by their identifiers. Every method raises StoreUnavailable."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self, identifier: str, user: str, lifetime_s: int) -> None:
        """Adds a session, which ends by itself after `lifetime_s`."""
        self._connection.call(lambda client: client.set(f"{PREFIX}session:{identifier}", user, ex=lifetime_s))

    def lives(self, identifier: str) -> bool:
        """Whether there is such a session."""
        return bool(self._connection.call(lambda client: client.exists(f"{PREFIX}session:{identifier}")))

    def end(self, identifier: str) -> None:
        """Ends a session."""
        self._connection.call(lambda client: client.delete(f"{PREFIX}session:{identifier}"))
