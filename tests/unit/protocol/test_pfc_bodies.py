"""PFC_SETTINGS, PFC_PAUSE and PFC_REPORT: what does not fit is named, and the longest fits a frame."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.bodies import pfc as bodies
from protocol.bodies.pfc import Action, Mode, PauseResult, PfcClass, PfcReport, PfcSettings
from protocol.wire import BODY_MAX

TIMES = (1,) * 8
SETTINGS = PfcSettings(Action.DROP, TIMES, TIMES, ())
REPORT = PfcReport(1, PauseResult.DONE, Mode.SOFTWARE, 0, 0, 0, 0, (PfcClass(0, 0, 0, 0, 0),) * 8)


def test_the_longest_settings_fit_a_frame() -> None:
    partners, nodes = (bytes(6),) * bodies.PARTNERS_MAX, ((1 << 32) - 1, 7)
    full = replace(SETTINGS, accept_from=partners, nodes=(nodes,) * bodies.NODES_MAX)
    assert len(bodies.pack_settings(full)) <= BODY_MAX


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"accept_from": (bytes(6),) * (bodies.PARTNERS_MAX + 1)}, "accept_from"),
        ({"accept_from": (bytes(5),)}, "accept_from"),
        ({"nodes": ((16, 0),) * (bodies.NODES_MAX + 1)}, "nodes"),
        ({"nodes": ((16, 8),)}, "class 8"),
        ({"detection_ns": (1,) * 7}, "detection_ns"),
        ({"restoration_ns": (1,) * 7 + (0,)}, "restoration_ns"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_their_field(changes: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        bodies.pack_settings(replace(SETTINGS, **changes))  # type: ignore[arg-type] -- of whatever type the case is


def test_a_report_is_of_eight_classes() -> None:
    with pytest.raises(ValueError, match="classes"):
        bodies.pack_report(replace(REPORT, classes=REPORT.classes[:7]))
    with pytest.raises(ValueError, match="report"):
        bodies.unpack_report(bodies.pack_report(REPORT)[:-1])


@given(st.frozensets(st.integers(0, 7)))
def test_a_mask_names_its_classes(classes: frozenset[int]) -> None:
    assert bodies.classes_of(bodies.class_mask(classes)) == sorted(classes)


@pytest.mark.parametrize("priority", [-1, 8])
def test_a_mask_has_no_other_class(priority: int) -> None:
    with pytest.raises(ValueError, match="write classes from 0 to 7"):
        bodies.class_mask([3, priority])
