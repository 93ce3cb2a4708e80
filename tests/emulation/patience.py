"""Retries for tests of timing: a machine with other work to do may spoil one try, but not each of three."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from emulation.measuring.wakeful import wakeful

TRIES = 3


def timed(test: Callable[..., None]) -> Callable[..., None]:
    """Runs the test up to `TRIES` times until it passes, each in a directory of its own; keeps the processors awake."""

    @wraps(test)
    def patient(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- a test's fixtures
        directory: Path | None = kwargs.get("tmp_path")
        for number in range(TRIES):
            if directory is not None:
                kwargs["tmp_path"] = directory / str(number)
                kwargs["tmp_path"].mkdir()
            try:
                with wakeful():
                    return test(*args, **kwargs)
            except AssertionError:
                if number == TRIES - 1:
                    raise

    return patient
