"""The counters of the rules that drop, from a switch whose answer comes in parts."""

from __future__ import annotations

from controller.openflow.metering import DropRule, RefusalMeter
from controller.openflow.tables.flowtable import Cause

OFF_PATH, OTHER_GROUP, BLOCKED = (
    DropRule(Cause.CONTROL_OFF_PATH, b"1"), DropRule(Cause.CONTROL_OFF_PATH, b"2"), DropRule(Cause.BLOCKED_PORT)
)  # fmt: skip
PARTS = ({OFF_PATH: 100}, {BLOCKED: 7}, {OTHER_GROUP: 40})


def told(meter: RefusalMeter, *parts: dict[DropRule, int]) -> list[dict[Cause, int]]:
    return [meter.read(1, part, more=at + 1 < len(parts)) for at, part in enumerate(parts)]


def test_the_parts_of_an_answer_count_together() -> None:
    meter = RefusalMeter()
    assert told(meter, *PARTS) == [{}, {}, {Cause.CONTROL_OFF_PATH: 140, Cause.BLOCKED_PORT: 7}]
    assert told(meter, *PARTS) == [{}, {}, {}]
    assert told(meter, {OFF_PATH: 105, OTHER_GROUP: 40, BLOCKED: 7}) == [{Cause.CONTROL_OFF_PATH: 5}]
    assert meter.totals[Cause.CONTROL_OFF_PATH] == 145


def test_what_is_left_of_an_answer_goes_with_its_switch() -> None:
    meter = RefusalMeter()
    meter.read(1, PARTS[0], more=True)
    meter.forget(1)
    assert meter.read(1, PARTS[2]) == {Cause.CONTROL_OFF_PATH: 40}
