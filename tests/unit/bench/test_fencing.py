"""What `baton bench fencing` makes of the agents' counts of refusals."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from bench.coordination.fencing import newly_refused, refused
from controller.store.store import Store


def test_a_store_that_is_away_is_no_count() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        with closing(Store(f"redis://127.0.0.1:{unused.getsockname()[1]}/0")) as store:
            assert refused(store) is None


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ({16: 1, 17: 0}, {16: 21, 17: 20}, 40),
        ({16: 1, 17: 0}, {16: 1, 17: 0}, 0),
        (None, {16: 21, 17: 20}, None),
        ({16: 1, 17: 0}, None, None),
        ({16: 1, 17: 5}, {16: 21}, None),
        ({}, {}, None),
    ],
)
def test_what_was_refused_in_between(before: dict[int, int] | None, after: dict[int, int] | None, count: int | None) -> None:
    """Not known unless every agent's count is in both."""
    assert newly_refused(before, after) == count
