"""The log format of all processes of Baton. An edge: the standard error stream."""

from __future__ import annotations

import logging

from protocol.units import SECOND_NS

LOG_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"
TELL_AGAIN_NS = 60 * SECOND_NS


def log_to_stderr() -> None:
    """Logs to the standard error stream, from INFO on; the supervisor writes that stream to the process's log file."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)


class Seldom:
    """What was told last, so that what goes on is not told again and again. Pure."""

    def __init__(self) -> None:
        self._told, self._told_ns = "", 0

    def is_news(self, text: str, now_ns: int) -> bool:
        """Whether to tell this: it is not what was told last, or that was TELL_AGAIN_NS ago."""
        if text == self._told and now_ns - self._told_ns < TELL_AGAIN_NS:
            return False
        self._told, self._told_ns = text, now_ns
        return True
