"""What is wrong with switches is told, but not again and again."""

from __future__ import annotations

from typing import Any

import pytest
from ryu.ofproto import ofproto_v1_3
from ryu.ofproto.ofproto_protocol import ProtocolDesc
from ryu.ofproto.ofproto_v1_3_parser import OFPErrorMsg

from controller.openflow.codec import refuses_table
from controller.openflow.intake.complaints import KINDS_MAX, Complaints, Drops
from controller.openflow.intake.complaints import TELL_AGAIN_NS as AGAIN

FULL = "OFPET_FLOW_MOD_FAILED(5), OFPFMFC_TABLE_FULL(1)"


def test_the_same_is_told_once_a_minute_with_its_number() -> None:
    complaints = Complaints()
    assert complaints.heard(1, FULL, 0) == FULL
    assert [complaints.heard(1, FULL, at) for at in (1, 2, AGAIN - 1)] == [None] * 3
    assert complaints.heard(1, FULL, AGAIN) == f"{FULL} (4 times)"
    assert complaints.heard(1, FULL, AGAIN + 1) is None
    assert complaints.heard(1, FULL, 2 * AGAIN) == f"{FULL} (2 times)"


def test_another_reason_another_switch_and_a_switch_that_connects_anew_are_told_at_once() -> None:
    complaints = Complaints()
    assert complaints.heard(1, FULL, 0)
    assert complaints.heard(1, "another", 1) and complaints.heard(2, FULL, 1)
    complaints.forget(1)
    assert complaints.heard(1, FULL, 2) == FULL and complaints.heard(2, FULL, 2) is None


def test_a_switch_that_makes_up_reasons_fills_no_memory_and_no_log() -> None:
    complaints = Complaints()
    told = [complaints.heard(1, str(kind), 0) for kind in range(10 * KINDS_MAX)]
    assert sum(text is not None for text in told) == KINDS_MAX
    assert complaints.heard(2, FULL, 0) == FULL


def test_dropped_frames_are_told_at_once_and_then_once_a_minute_all_of_them() -> None:
    drops = Drops()
    assert [drops.dropped(1, "off path", 3, at) for at in (0, 1, AGAIN - 1, AGAIN, AGAIN + 1)] == [3, 0, 0, 9, 0]
    assert drops.dropped(2, "off path", 5, 1) == drops.dropped(1, "forged", 5, 1) == 5
    drops.forget(1)
    assert drops.dropped(1, "off path", 4, AGAIN + 2) == 4


@pytest.mark.parametrize(
    ("kind", "code", "asked", "refused"),
    [
        (ofproto_v1_3.OFPET_FLOW_MOD_FAILED, ofproto_v1_3.OFPFMFC_TABLE_FULL, ofproto_v1_3.OFPT_FLOW_MOD, True),
        (ofproto_v1_3.OFPET_BAD_ACTION, ofproto_v1_3.OFPBAC_BAD_OUT_PORT, ofproto_v1_3.OFPT_FLOW_MOD, True),
        (ofproto_v1_3.OFPET_BAD_ACTION, ofproto_v1_3.OFPBAC_BAD_OUT_PORT, ofproto_v1_3.OFPT_PACKET_OUT, False),
    ],
)
def test_what_a_switch_refuses_is_seen_by_the_message_that_it_returns(kind: int, code: int, asked: int, refused: bool) -> None:
    datapath: Any = ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)
    error = OFPErrorMsg(datapath, type_=kind, code=code, data=bytes([4, asked, 0, 64, 0, 0, 0, 1]) + bytes(56))
    assert refuses_table(error) is refused
