"""The log format of all processes of Baton. An edge: the standard error stream."""

from __future__ import annotations

import logging

LOG_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"


def log_to_stderr() -> None:
    """Logs to the standard error stream, from INFO on; the supervisor writes that stream to the process's log file."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
