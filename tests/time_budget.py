"""How long a whole run of tests may take: those that have not begun by then are skipped, and say so.

It began at BATON_TESTS_BEGAN (seconds since 1970), which .ci/run sets, or else the Makefile. Without it there is no bound.
"""

from __future__ import annotations

import os
import time

import pytest

BEGAN_S = int(os.environ.get("BATON_TESTS_BEGAN", 1 << 62))


def skip_after(budget_s: float, remark: str) -> None:
    """Skips the test that is to begin if the run began longer ago."""
    if time.time() - BEGAN_S > budget_s:
        pytest.skip(f"inconclusive: {budget_s / 60:g} minutes are over; {remark}")
