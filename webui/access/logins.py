"""Logins and refused ones: counted, and recorded in the store. An edge: the clock, the audit stream, a timer.

It knows nothing of requests; webui/access/auth.py does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from controller.store.store import StoreUnavailable
from protocol.units import SECOND_NS
from webui.access.accounts import Accounts
from webui.access.guard import Attempt, Guard
from webui.access.refusals import PERIOD_NS, Refusals

log = logging.getLogger("baton.web.auth")


class SessionStore(Protocol):
    """The part of `controller.store.sessions.Sessions` that this module uses."""

    def begin(self, identifier: str, user: str, lifetime_s: int) -> None:
        """Adds a session."""

    def lives(self, identifier: str) -> bool:
        """Whether there is such a session."""

    def end(self, identifier: str) -> None:
        """Ends a session."""


class AuditStore(Protocol):
    """The part of `controller.store.store.Store` that this module uses."""

    @property
    def sessions(self) -> SessionStore:
        """The sessions."""

    def publish_event(self, kind: str, severity: str, text: str, **fields: Any) -> None:  # noqa: ANN401 -- as Store
        """Adds an event to the store's stream of events."""

    def publish_refusal(self, text: str, *, event: bool, **fields: Any) -> None:  # noqa: ANN401 -- as Store
        """Adds to the store's stream of refused logins, and with `event` to the events."""


class Logins:
    """Who logged in, who tried to, and where that is recorded: the state of one application."""

    def __init__(self, store: AuditStore, accounts: Accounts, *, login_to_read: bool) -> None:
        self.store = store
        self.accounts = accounts
        self.login_to_read = login_to_read
        self.clock: Callable[[], int] = time.time_ns
        self.guard = Guard()
        self.refusals = Refusals()
        self.lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def now_s(self) -> int:
        """Wall clock, seconds since 1970."""
        return self.clock() // SECOND_NS

    def wait_ns(self, attempt: Attempt) -> int:
        """Counts an attempt to log in; returns how long to wait (ns) if there were too many, else 0."""
        with self.lock:
            return self.guard.wait_ns(attempt, now_ns=self.clock())

    def refused(self, cause: str, attempt: Attempt, address: str) -> None:
        """Records a refused login, in the store and in the log; in a flood only some, and the sum of the others."""
        # A name that is no user's may be a password that was typed into the wrong field.
        user = attempt.user if self.accounts.generation(attempt.user) is not None else "an unknown user"
        self.tell_sum()
        with self.lock:
            number = self.refusals.note(user, attempt.origin, now_ns=self.clock())
            if self._timer is None:
                self._wait_for_the_sum()
        if number:
            log.warning("login refused: %s: %s from %s", cause, user, address)
            self._publish(f"login refused: {cause}, from {address}", event=number == 1, user=user, address=address)

    def tell_sum(self) -> None:
        """Records the sum of the refused logins that were not told one by one, when their period is over."""
        with self.lock:
            text = self.refusals.sum(now_ns=self.clock())
        if text:
            log.warning("login refused: %s", text)
            self._publish(text, event=True)

    def _wait_for_the_sum(self) -> None:
        self._timer = threading.Timer(PERIOD_NS / SECOND_NS + 1, self._period_over)
        self._timer.daemon = True
        self._timer.start()

    def _period_over(self) -> None:
        self.tell_sum()
        with self.lock:
            self._timer = None
            if self.refusals.end_ns() is not None:  # a refused login began another period meanwhile
                self._wait_for_the_sum()

    def _publish(self, text: str, *, event: bool, **fields: str) -> None:
        try:
            self.store.publish_refusal(text, event=event, **fields)
        except StoreUnavailable as error:
            log.warning("not in the store's stream of refused logins: %s", error)
