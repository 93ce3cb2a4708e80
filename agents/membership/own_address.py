"""Follows the interface to another MAC address: a host's keys, and what the leader knows of it, are for one address.

A bridge takes the address of another port, a bond that of another link, and an operator sets one. An edge: the clock, and
the socket's address, which it reads once a second, or as often as the agent reports where that is less often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from agents.loop.pace import Pace
from agents.loop.part import Part
from protocol.link import ControlSocket
from protocol.messages import Welcome

log = logging.getLogger("baton.agent")

LOOK_NS = 1_000_000_000


class OwnAddress(Part):
    """Looks whether the interface has another MAC address."""

    def __init__(self, link: ControlSocket, moved: Callable[[int], None]) -> None:
        """`moved` is called with the time (ns) once `link.address` is another one."""
        self._link = link
        self._moved = moved
        self._pace = Pace(LOOK_NS)
        self._due_ns = time.monotonic_ns() + LOOK_NS
        self.handlers = {Welcome: self._pace.welcomed}

    def next_due_ns(self) -> int:
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        if now_ns < self._due_ns:
            return
        self._due_ns = self._pace.after(now_ns)
        before = self._link.address
        if self._link.renew_address():
            said = self._link.interface, before.hex(":"), self._link.address.hex(":")
            log.warning("%s: the MAC address was %s and is %s now: registering anew with it", *said)
            self._moved(now_ns)
