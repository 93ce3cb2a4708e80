"""What `baton bench coflow` makes of coflows of which some did not complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bench.karuna import coflow
from emulation.measuring.fidelity import Fidelity
from emulation.traffic.coflow_load import CoflowResult, ScheduledCoflow

MS = 1_000_000


def ratio(monkeypatch: pytest.MonkeyPatch, ordered: Sequence[int | None], none: Sequence[int | None]) -> float | None:
    """`mean_over_none` of an order, from the completion times (ms) of the same coflows with it and without."""

    def measured(coflows: Sequence[ScheduledCoflow]) -> Iterator[tuple[str, tuple[list[CoflowResult], Fidelity]]]:
        for told, times in (("none", none), ("sizes", ordered)):
            results = [
                CoflowResult(one, 0, None if time is None else time * MS) for one, time in zip(coflows, times, strict=False)
            ]
            yield told, (results, Fidelity(1, 0))

    for way in ("_in_process", "_through_controller"):
        monkeypatch.setattr(coflow, way, measured)
    found: float | None = coflow.run(names=("alike",))["alike"]["process"]["sizes"]["mean_over_none"]
    return found


def test_the_mean_is_compared_with_that_of_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ratio(monkeypatch, [100, 200], [200, 400]) == 0.5


def test_a_coflow_that_one_of_both_did_not_complete_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time would count on one side alone: here no order would seem faster, since it left the long one behind."""
    assert ratio(monkeypatch, [100, 2_000], [200, None]) == 0.5


def test_nothing_that_completed_is_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ratio(monkeypatch, [100, 200], [None, None]) is None


def test_with_an_order_the_first_queue_has_room_of_its_own_so_that_no_handshake_is_lost() -> None:
    port = coflow.deep_port(ordered=True)
    full = [0, *[coflow.BUFFER_PACKETS] * 7]
    assert port.admits(0, full) and not port.admits(1, full)
    assert coflow.deep_port(ordered=False) == port.alike()
