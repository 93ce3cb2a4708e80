"""What is read of the frames that switches pass on, with and without VLAN tags."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from ryu.lib import packet
from ryu.lib.packet import arp, ethernet, ipv4  # noqa: F401 -- as the application has them loaded

from controller.openflow.codec import Codec, FrameReceived
from controller.openflow.intake.lldp import KEY_BYTES, Lldp
from controller.openflow.tables.forwarding import LEARN_COPY_BYTES

SOURCE = "02:00:00:00:00:01"
ENDS = bytes.fromhex("ffffffffffff" + SOURCE.replace(":", ""))
TAGS = {
    "untagged": b"",
    "a VLAN": bytes.fromhex("81000064"),
    "a priority": bytes.fromhex("8100e000"),
    "a VLAN in a VLAN": bytes.fromhex("88a80064810000c8"),
    "the same, as it was before 802.1ad": bytes.fromhex("91000064810000c8"),
}
ARP = bytes.fromhex("0806" "0001080006040001" + SOURCE.replace(":", "") + "0a000001" + "00" * 6 + "0a000002")
IPV4 = bytes.fromhex("0800" "4500001c00000000401100000a0000010a000002")
CODEC = Codec(SimpleNamespace(packet=packet), 1, Lldp(bytes(KEY_BYTES)))  # type: ignore[arg-type]


def read(frame: bytes) -> object:
    return CODEC.frame(SimpleNamespace(match={"in_port": 7}, data=frame.ljust(60, b"\0")[:LEARN_COPY_BYTES]), 0)


@pytest.mark.parametrize("tags", TAGS.values(), ids=TAGS)
def test_the_senders_address_is_read_behind_tags(tags: bytes) -> None:
    assert read(ENDS + tags + ARP) == FrameReceived(7, SOURCE, "10.0.0.1", control=False, claims=not tags)
    assert read(ENDS + tags + IPV4) == FrameReceived(7, SOURCE, "10.0.0.1", control=False, claims=False)
    assert read(ENDS + tags + b"\x88\xb5") == FrameReceived(7, SOURCE, None, control=True, claims=False)


def test_lldp_of_a_vlan_is_nobodys() -> None:
    assert read(ENDS + TAGS["a VLAN"] + b"\x88\xcc" + bytes(40)) is None


@pytest.mark.parametrize("size", range(LEARN_COPY_BYTES))
def test_what_is_cut_short_or_nothing_but_tags_is_no_more_than_a_source(size: int) -> None:
    for frame in (ENDS + struct.pack("!HH", 0x8100, 1) * 20, ENDS + TAGS["a VLAN"] + ARP):
        message = SimpleNamespace(match={"in_port": 7}, data=frame[:size])
        assert CODEC.frame(message, 0) in (None, FrameReceived(7, SOURCE, None), FrameReceived(7, SOURCE, "10.0.0.1"))
