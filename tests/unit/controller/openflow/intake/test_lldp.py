"""Which LLDP is believed: what we made ourselves, a short while ago."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.lldp import FRESH_NS, KEY_BYTES, Doubt, Lldp

OURS, THEIRS = Lldp(bytes(range(KEY_BYTES))), Lldp(bytes(KEY_BYTES))
AT, MAC, NOW_NS = PortRef(0xFEDCBA9876543210, 7), "02:00:00:00:00:07", 5 * FRESH_NS
FRAME = OURS.frame(AT, MAC, NOW_NS)


def tlvs(frame: bytes) -> list[tuple[int, bytes]]:
    """Type and content of each TLV (IEEE Std 802.1AB, 8.4)."""
    found, at = [], 14
    while True:
        head = int.from_bytes(frame[at : at + 2])
        kind, length = head >> 9, head & 0x1FF
        found.append((kind, frame[at + 2 : at + 2 + length]))
        at += 2 + length
        if kind == 0:
            assert at == len(frame)
            return found


def test_it_is_lldp_as_the_standard_says() -> None:
    assert FRAME[:14] == bytes.fromhex("0180c200000e 020000000007 88cc")
    chassis, port, ttl, ours, end = tlvs(FRAME)
    assert chassis == (1, b"\x07dpid:fedcba9876543210")
    assert port == (2, b"\x07\x00\x00\x00\x07")
    assert ttl == (3, b"\x00\x78")
    assert ours[0] == 127 and ours[1][:4] == bytes.fromhex("42415401")
    assert end == (0, b"")
    assert len(FRAME) >= 60


def test_what_we_sent_names_its_port_even_with_padding() -> None:
    assert OURS.read(FRAME, NOW_NS) == OURS.read(FRAME + bytes(9), NOW_NS + FRESH_NS) == AT


def test_what_is_kept_for_later_is_old() -> None:
    assert OURS.read(FRAME, NOW_NS + FRESH_NS + 1) is Doubt.OLD
    assert OURS.read(FRAME, NOW_NS - 1) is Doubt.OLD, "of a clock that is not this one"


def test_another_key_is_forged() -> None:
    assert OURS.read(THEIRS.frame(AT, MAC, NOW_NS), NOW_NS) is Doubt.FORGED


@pytest.mark.parametrize("at", range(16, len(FRAME) - 2))
def test_no_byte_that_counts_can_be_changed(at: int) -> None:
    """Lengths and the time to live are not read; nothing else may differ."""
    changed = FRAME[:at] + bytes([FRAME[at] ^ 1]) + FRAME[at + 1 :]
    heard = OURS.read(changed, NOW_NS)
    assert heard in (Doubt.FORGED, Doubt.FOREIGN) or heard == AT


def test_lldp_of_the_kind_that_other_controllers_send_is_forged() -> None:
    """As Ryu and ONOS write it, without a tag; so did every frame that closed somebody's port."""
    chassis, port = b"\x07dpid:0000000000000001", b"\x02" + struct.pack("!I", 10)
    frame = FRAME[:14] + b"".join(
        (1 + number << 9 | len(text)).to_bytes(2) + text for number, text in enumerate((chassis, port, b"\x00\x78"))
    )
    assert OURS.read(frame + bytes(2), NOW_NS) is Doubt.FORGED


def test_lldp_of_other_vendors_is_foreign() -> None:
    by_mac = b"\x02\x07\x04\x02\x00\x00\x00\x00\x01\x04\x05\x05eth0\x06\x02\x00\x78\x00\x00"
    assert OURS.read(FRAME[:14] + by_mac, NOW_NS) is Doubt.FOREIGN


@given(st.binary(max_size=120))
def test_no_bytes_are_believed(body: bytes) -> None:
    assert isinstance(OURS.read(FRAME[:14] + body, NOW_NS), Doubt)


def test_a_key_is_of_its_length() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 3"):
        Lldp(b"key")


def test_what_seeks_loops_is_read_as_lldp_and_told_from_it() -> None:
    lldp = Lldp(bytes(KEY_BYTES))
    seeking, plain = (lldp.frame(PortRef(1, 2), "02:00:00:00:00:01", 5, seeks_loop=seeks) for seeks in (True, False))
    assert seeking[0] & 1 and seeking[:5] != plain[:5], "a group address, but none of those that bridges keep"
    assert (lldp.seeks_loop(seeking), lldp.seeks_loop(plain)) == (True, False)
    assert lldp.read(seeking, 6) == lldp.read(plain, 6) == PortRef(1, 2)
