"""Spares the garbage collector what members are known by: thousands of them take a tenth of a second to look through. An edge:
the collector."""

from __future__ import annotations

import gc
from collections.abc import Callable

from controller.members.part import STATUS_NS, Part
from controller.members.registry import Members

GROWN = 1.25
"""What is known is set aside again when the members are so many times as many: a few times in all, because cycles that are set
aside, as those of a fabric that is replaced, are freed no more."""


class Garbage(Part):
    """Sets aside all objects that there are (gc.freeze) when no member has joined for a while.

    Args:
        freeze: does it.
    """

    def __init__(self, members: Members, freeze: Callable[[], object] = gc.freeze) -> None:
        self.periodic = ((STATUS_NS, self._look),)
        self._members = members
        self._freeze = freeze
        self._joined = False
        self._set_aside = 0
        """How many members there were then."""

    def joined(self, node: int) -> None:
        self._joined = True

    def _look(self, now_ns: int) -> None:
        joined, self._joined = self._joined, False
        if not joined and len(self._members) > GROWN * self._set_aside:
            self._set_aside = len(self._members)
            self._freeze()
