"""XCo's Figure 27 on the swarm: how sure its loss is."""

from __future__ import annotations

import numpy as np
import pytest

from bench.swarm import figure27
from bench.swarm.library import LinkModel

STEP_BYTES = 12_500.0
"""What a link of 1 Gb/s carries in 100 us."""


def lost(steps: int) -> float:
    """Of two senders that overlap for 5 of 10 ms at a link of 1 Gb/s, with so many steps of the model in that time."""
    length = 100 // steps
    model = LinkModel(np.array([STEP_BYTES * length]), np.array([250_000.0]), np.array([[0], [0]], dtype=np.int32))
    for at in range(steps):
        model.step(np.full(2, STEP_BYTES * max(0, min(50 - at * length, length))))
    return model.sums()["lost"]


def test_a_step_of_10_ms_loses_nothing_of_what_overlaps() -> None:
    assert lost(100) == pytest.approx(375_000) == lost(10) and lost(1) == 0


@pytest.mark.parametrize(
    ("behind_us", "step_us", "level"),
    [(0.0, 100.0, "good"), (0.0, 1_000.0, "good"), (0.0, 10_000.0, "indicative"), (30_000.0, 100.0, "indicative")],
)
def test_a_run_whose_model_could_not_see_losses_is_no_good_one(behind_us: float, step_us: float, level: str) -> None:
    found = {"members": 4800, "swarm_behind_max_us": behind_us, "model_step_max_us": step_us, "case": {"seconds": 10}}
    assert figure27._confidence(found)["level"] == level
