"""What is read of the counters of the rules that drop."""

from __future__ import annotations

import struct
from types import SimpleNamespace

from controller.openflow.codec import MAGIC, NOT_COUNTED, refusals
from controller.openflow.intake.entries import Raw
from controller.openflow.metering import RULES_MAX, DropRule, RefusalMeter
from controller.openflow.tables.flowtable import Cause


def entry(cause: Cause, packets: int, priority: int = 100) -> Raw:
    """A flow entry without match and actions, as a switch tells it."""
    head = struct.pack("!HBxIIHHHH4xQQQ", 56, 0, 1, 0, priority, 0, 0, 0, MAGIC << 48 | cause, packets, 0)
    return Raw(head + bytes.fromhex("0001000400000000"))


def test_a_rule_whose_frames_a_switch_does_not_count_has_dropped_none() -> None:
    body = [entry(Cause.FORGED_COORDINATOR, NOT_COUNTED), entry(Cause.CONTROL_OFF_PATH, 3)]
    assert RefusalMeter().read(1, refusals(SimpleNamespace(body=body))) == {Cause.CONTROL_OFF_PATH: 3}


def test_frames_that_one_rule_dropped_are_not_told_again_when_another_one_of_the_same_cause_is_removed() -> None:
    meter = RefusalMeter()
    ours, standbys = entry(Cause.FORGED_COORDINATOR, 5, priority=200), entry(Cause.FORGED_COORDINATOR, 3, priority=201)
    assert meter.read(1, refusals(SimpleNamespace(body=[ours, standbys]))) == {Cause.FORGED_COORDINATOR: 8}
    assert meter.read(1, refusals(SimpleNamespace(body=[ours]))) == {}
    assert meter.totals[Cause.FORGED_COORDINATOR] == 8


def test_a_switch_that_tells_rules_without_end_fills_no_memory() -> None:
    meter = RefusalMeter()
    for at in range(2 * RULES_MAX):
        meter.read(1, {DropRule(Cause.BLOCKED_PORT, bytes([at % 256, at // 256])): 1}, more=True)
    assert meter.read(1, {}) == {Cause.BLOCKED_PORT: RULES_MAX}


def test_what_a_switch_dropped_before_its_connection_ended_is_not_told_again_when_it_is_back() -> None:
    meter, rule = RefusalMeter(), DropRule(Cause.FORGED_COORDINATOR)
    assert meter.read(1, {rule: 5}) == {Cause.FORGED_COORDINATOR: 5}
    meter.forget(1)
    assert meter.read(1, {rule: 6}) == {Cause.FORGED_COORDINATOR: 1}
    meter.forget(1)
    assert meter.read(1, {rule: 2}) == {Cause.FORGED_COORDINATOR: 2}  # it has lost its table
    assert meter.totals[Cause.FORGED_COORDINATOR] == 8
