"""Starts the dashboard, as soon as its address is free. An edge: processes, the clock."""

from __future__ import annotations

import time

from controller.config.web import WebSection
from controller.processes.services import Backoff, Services
from controller.supervision import preflight
from controller.supervision.children import WEB, Children
from controller.supervision.outbox import Outbox
from controller.supervision.users import NoUsers, Users, check_ports


class Dashboard:
    """The dashboard of one supervisor. Nothing waits for it: Baton coordinates without one, too."""

    def __init__(self, services: Services, children: Children, outbox: Outbox, users: Users | None) -> None:
        self._services, self._children, self._outbox, self._users = services, children, outbox, users
        self._wanted: WebSection | None = None
        self._address = ""
        """Its numeric address: no look-up may delay the other processes again and again."""
        self._told = ""
        """Why there is none, though there should be one."""
        self._backoff = Backoff()
        self._due_ns: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it is to be tried again: call `tend`."""
        return self._due_ns is not None

    def follow(self, web: WebSection | None) -> None:
        """Starts it as this section says, in place of the one that runs; None: there is to be none."""
        self._services.stop(WEB)
        self._wanted, self._told, self._backoff, self._due_ns = web, "", Backoff(), 0
        self._address = "" if web is None else preflight.numeric(*web.listen)
        self.tend()

    def tend(self) -> bool:
        """Starts it if that is due and its address is free; else says once what is in its way. Returns whether it did."""
        if self._due_ns is None or time.monotonic_ns() < self._due_ns:
            return False
        self._due_ns = None
        if self._wanted is None:
            return False
        if reason := self._obstacle(self._wanted):
            if reason != self._told:
                hope = "it comes once that is over" if self._address else "reload once that is over"
                told = f"no dashboard: {reason}; {hope}, or write another web.listen, or web: none"
                self._outbox.tell(WEB, "warning", told)
            self._told = reason
            if self._address:
                self._due_ns = time.monotonic_ns() + self._backoff.ended(0)
            return False
        if self._told:
            self._outbox.tell(WEB, "info", "the dashboard is started: its address is free now")
        self._services.run(self._children.web(self._wanted))
        return True

    def _obstacle(self, web: WebSection) -> str:
        try:
            check_ports(self._users, [("web.listen", web.listen[1])])
        except NoUsers as error:
            return str(error)
        host, port = web.listen
        return preflight.cannot_listen(self._address or host, port)
