"""Unexpected errors of what is tried again and again, logged so that one that lasts fills no log. An edge: the log."""

from __future__ import annotations

import logging

from protocol.units import MILLISECOND_NS

TELL_AGAIN_NS = 600_000 * MILLISECOND_NS
KINDS_MAX = 16
"""Errors of different types or places whose tracebacks are logged, as long as all attempts fail; further ones are counted."""


class Failures:
    """The errors of one thing since it last went well. Times are monotonic nanoseconds."""

    def __init__(self, what: str, log: logging.Logger) -> None:
        self._what = what
        self._log = log
        self._kinds: set[tuple[str, int]] = set()
        self._count = 0
        self._told_ns = 0

    def failed(self, error: Exception, now_ns: int) -> None:
        """An attempt has ended with this error: its traceback is logged when it is new, its number each TELL_AGAIN_NS."""
        self._count += 1
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        kind = type(error).__name__, at.tb_lineno if at is not None else 0
        if kind not in self._kinds and len(self._kinds) < KINDS_MAX:
            self._kinds.add(kind)
            self._log.error("%s", self._what, exc_info=error)
        elif now_ns - self._told_ns >= TELL_AGAIN_NS:
            self._log.error("%s: has failed %d times in succession, now with %s", self._what, self._count, kind[0])
        else:
            return
        self._told_ns = now_ns

    def went_well(self) -> None:
        """An attempt has not failed: the end of errors is logged."""
        if self._count:
            self._log.info("%s: goes well again, after %d failures", self._what, self._count)
        self._kinds.clear()
        self._count = 0
