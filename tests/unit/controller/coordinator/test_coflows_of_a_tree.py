"""A coordinator that knows its fabric promises coflows no more than the links between its switches carry."""

from __future__ import annotations

from tests.unit.controller.coordinator.test_status_document import MS, Lines, coordinator
from topology import shapes
from topology.fabric import Fabric


def verdicts(fabric: Fabric) -> list[str]:
    """Of two deadlines that together need more than one link of 100 Mb/s, from two hosts to two others."""
    lines = Lines()
    made = coordinator(lines)
    made.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], 0)
    for part in made.parts:
        for _, call in part.periodic:
            call(0)
    shared = {"expires_ns": 10**12, "deadline_ns": 200 * MS, "size_bytes": None}
    first, second = ({**shared, "opened_ns": at, "flows": [[f"h{at}", f"h{at + 2}", 2_000_000]]} for at in (1, 2))
    made.take([{"coflows": {"open": {"1": first, "2": second}, "ahead_ns": 0}}], 0)
    return [line["coflow_verdict"][1]["deadline"] for line in lines.lines if "coflow_verdict" in line]


def test_two_deadlines_over_one_link_between_switches() -> None:
    assert verdicts(shapes.build("star", hosts=4, rate_bps=10**8)) == ["admitted", "admitted"]
    assert verdicts(shapes.build("dumbbell", left=2, right=2)) == ["admitted", "refused"]
