"""How every process of Baton logs. An edge: the standard error stream."""

from __future__ import annotations

import logging

LOG_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"


def log_to_stderr() -> None:
    """Sends what is logged, from INFO on, to the standard error stream; the process's supervisor keeps it."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
