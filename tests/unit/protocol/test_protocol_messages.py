"""Messages on the wire: `decode` accepts what `encode` makes, and nothing else."""

from __future__ import annotations

import dataclasses
import shutil
import struct
import subprocess
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import messages as m
from protocol.bodies.versions import NEWEST, SPOKEN
from protocol.wire import BODY, BODY_MAX, FRAME_MIN, seal
from tests.unit.protocol.protocol_strategies import (
    BY_KIND,
    HOST,
    KEY,
    LEADER,
    OTHER_KEY,
    PROPERTY,
    frame_of,
    messages,
    u8,
    u32,
    u64,
)

GRANT = m.Grant(17, 1, 1_000, 2_000, 24_224, 0)


def refusal(frame: bytes) -> m.Cause:
    with pytest.raises(m.Refused) as refused:
        m.decode(frame, KEY)
    return refused.value.cause


def sealed(kind: int, body: bytes, version: int = NEWEST) -> bytes:
    return seal(kind, body, key=KEY, destination=HOST, source=LEADER, sender=1, epoch=1, sequence=1, version=version)


class TestRoundTrip:
    """A frame carries its message and the header's numbers unchanged."""

    @pytest.mark.parametrize("kind", m.Kind)
    @given(data=st.data())
    @PROPERTY
    def test_every_message_comes_back_as_it_was_sent(self, kind: m.Kind, data: st.DataObject) -> None:
        message = data.draw(BY_KIND[kind])
        frame = frame_of(message)
        assert m.decode(frame, KEY).message == message
        assert frame[17] == kind

    @given(messages, u32, u32, u64, st.binary(min_size=6, max_size=6), st.binary(min_size=6, max_size=6))
    @PROPERTY
    def test_the_header_comes_back_as_it_was_sent(
        self, message: m.Message, sender: int, epoch: int, sequence: int, destination: bytes, source: bytes
    ) -> None:
        frame = frame_of(
            message, destination=destination, source=source, sender=sender, epoch=epoch, sequence=sequence
        )
        assert m.decode(frame, KEY) == (destination, source, sender, epoch, sequence, message, NEWEST)

    def test_enumerations_come_back_as_their_members(self) -> None:
        heartbeat = m.decode(frame_of(m.Heartbeat(m.Override.FREE, 1, 2)), KEY).message
        assert isinstance(heartbeat, m.Heartbeat) and heartbeat.override is m.Override.FREE
        error = m.decode(frame_of(m.Error(m.ErrorCode.BUSY, 1, "later")), KEY).message
        assert isinstance(error, m.Error) and error.code is m.ErrorCode.BUSY

    @given(messages)
    @PROPERTY
    def test_frames_are_within_what_ethernet_carries(self, message: m.Message) -> None:
        assert FRAME_MIN <= len(frame_of(message)) <= 1514

    def test_hundreds_of_bytes_of_directive_are_not_needed_for_one_grant(self) -> None:
        assert len(frame_of(m.Directive((GRANT,)))) == 94

    def test_messages_cannot_be_changed(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            GRANT.bytes = 1  # type: ignore[misc]  # what is tested


class TestRefusal:
    """Whatever the bytes, decode gives a frame or a cause; and only untouched frames are given."""

    @given(st.binary(max_size=1600))
    @PROPERTY
    def test_no_byte_string_crashes_it(self, data: bytes) -> None:
        with pytest.raises(m.Refused):
            m.decode(data, KEY)

    @given(u8, st.binary(max_size=BODY_MAX), st.integers(*SPOKEN))
    @PROPERTY
    def test_no_authentic_body_crashes_it_and_each_has_one_encoding(self, kind: int, body: bytes, version: int) -> None:
        frame = sealed(kind, body, version)
        try:
            message = m.decode(frame, KEY).message
        except m.Refused as refused:
            assert refused.cause in (m.Cause.MALFORMED, m.Cause.UNKNOWN_TYPE)
        else:
            assert frame_of(message, version=version) == frame

    @given(messages, st.data())
    @PROPERTY
    def test_an_authentic_body_cut_or_lengthened_is_not_taken_for_the_same(
        self, message: m.Message, data: st.DataObject
    ) -> None:
        frame = frame_of(message)
        length = struct.unpack_from("!H", frame, 20)[0]
        body = frame[BODY : BODY + length]
        changed = data.draw(st.one_of(st.integers(0, length).map(lambda n: body[:n]), st.just(body + b"\0")))
        try:
            other = m.decode(sealed(frame[17], changed[:BODY_MAX]), KEY).message
        except m.Refused as refused:
            assert refused.cause is m.Cause.MALFORMED
        else:
            assert (other == message) == (changed[:BODY_MAX] == body)

    @given(messages, st.data())
    @PROPERTY
    def test_one_flipped_bit_is_never_accepted(self, message: m.Message, data: st.DataObject) -> None:
        frame = bytearray(frame_of(message))
        bit = data.draw(st.integers(0, 8 * len(frame) - 1))
        frame[bit // 8] ^= 1 << bit % 8
        with pytest.raises(m.Refused):
            m.decode(bytes(frame), KEY)

    @pytest.mark.parametrize("message", [m.Leave(""), m.DirectoryRequest(3), m.Directive((GRANT,))])
    def test_no_bit_of_short_and_of_padded_frames_can_be_flipped(self, message: m.Message) -> None:
        frame = frame_of(message)
        for bit in range(8 * len(frame)):
            flipped = bytearray(frame)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(m.Refused):
                m.decode(bytes(flipped), KEY)

    @given(messages, st.data())
    @PROPERTY
    def test_every_truncation_is_refused(self, message: m.Message, data: st.DataObject) -> None:
        frame = frame_of(message)
        with pytest.raises(m.Refused):
            m.decode(frame[: data.draw(st.integers(0, len(frame) - 1))], KEY)

    @pytest.mark.parametrize("message", [m.Leave(""), m.DirectoryRequest(3), m.Directive((GRANT,))])
    def test_no_size_of_short_and_of_padded_frames_will_do_but_their_own(self, message: m.Message) -> None:
        frame = frame_of(message)
        for size in range(len(frame)):
            with pytest.raises(m.Refused):
                m.decode(frame[:size], KEY)

    @given(messages, st.binary(min_size=1, max_size=8))
    @PROPERTY
    def test_bytes_after_the_frame_are_refused(self, message: m.Message, tail: bytes) -> None:
        assert refusal(frame_of(message) + tail) is m.Cause.LENGTH

    @given(messages)
    @PROPERTY
    def test_another_key_is_refused(self, message: m.Message) -> None:
        assert refusal(frame_of(message, key=OTHER_KEY)) is m.Cause.TAG

    @pytest.mark.parametrize(
        ("offset", "value", "cause"),
        [
            (12, 0x08, m.Cause.NOT_BATON),
            (14, 0x00, m.Cause.NOT_BATON),
            (16, 1, m.Cause.VERSION),
            (16, 4, m.Cause.VERSION),
            (16, 2, m.Cause.TAG),
            (18, 0x80, m.Cause.VERSION),
            (20, 0x01, m.Cause.LENGTH),
            (0, 0xFF, m.Cause.TAG),
            (6, 0xFF, m.Cause.TAG),
            (17, m.Kind.PONG, m.Cause.TAG),
            (25, 0xFF, m.Cause.TAG),
            (29, 0xFF, m.Cause.TAG),
            (37, 0xFF, m.Cause.TAG),
            (38, 0xFF, m.Cause.TAG),
            (-1, 0x01, m.Cause.LENGTH),
        ],
    )
    def test_the_cause_says_what_is_wrong(self, offset: int, value: int, cause: m.Cause) -> None:
        frame = bytearray(frame_of(m.Leave("")))
        frame[offset] = value
        assert refusal(bytes(frame)) is cause

    def test_frames_below_60_bytes_are_refused_as_short(self) -> None:
        assert refusal(b"") is refusal(frame_of(m.Ping(1))[:59]) is m.Cause.SHORT

    def test_an_authentic_frame_of_an_unknown_type_is_told_from_a_forged_one(self) -> None:
        assert refusal(sealed(0, b"")) is refusal(sealed(200, b"")) is m.Cause.UNKNOWN_TYPE

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            (m.Kind.HEARTBEAT, bytes((2,)) + bytes(20)),
            (m.Kind.ERROR, bytes(10)),
            (m.Kind.LEAVE, b"\xff"),
            (m.Kind.BACKLOG, bytes(8) + b"\0\1\0\1"),
            (m.Kind.REGULATE, bytes(12)),
            (m.Kind.REPORT, bytes(16) + b"\0\0\0\1\0\2"),
            (m.Kind.REGISTER, bytes(16) + b"\4\0\0\0"),
            (m.Kind.REGISTER, bytes(16) + b"\1\0\0\1" + b"\5" + bytes(4)),
            (m.Kind.DIRECTIVE, struct.pack("!IQQQIQ", 1, 1, 2, 1, 1, 0)),
            (m.Kind.DIRECTIVE, struct.pack("!IQQQIQ", 1, 1, 1, 2, 1, 1)),
            (m.Kind.SIZE_REPORT, bytes(12) + b"\4" + bytes(13)),
            (m.Kind.SIZE_REPORT, bytes(12) + b"\1\xfc" + bytes(12)),
            (m.Kind.SIZE_REPORT, bytes(12) + b"\1" + bytes(12)),
            (m.Kind.THRESHOLDS, bytes(12) + b"\3\1" + struct.pack("!4Q", 2, 1, 1, 1)),
            (m.Kind.THRESHOLDS, bytes(12) + b"\3\1" + struct.pack("!2Q", 1, 1)),
            (m.Kind.THRESHOLDS, bytes(12) + b"\3\0"),
        ],
        ids=[
            "override", "code", "text", "page", "no pages", "entries", "gates", "family",
            "ends before it starts", "bytes and rate", "flow type", "bin", "cut row", "falling", "too few", "termination",
        ],
    )  # fmt: skip
    def test_authentic_nonsense_is_malformed(self, kind: m.Kind, body: bytes) -> None:
        assert refusal(sealed(kind, body)) is m.Cause.MALFORMED


SCOPED = IPv6Address("fe80::1%eth0")
MANY = tuple(IPv6Address(n) for n in range(100))


class TestEncodeErrors:
    """A value that does not fit is an error that names its field, and nothing is sent."""

    @pytest.mark.parametrize(
        ("message", "field"),
        [
            (m.Ack(-1, 1, 1, 1), "Ack.slot"),
            (m.Ack(1, 1 << 32, 1, 1), "Ack.destination"),
            (m.Ack(1, 1, 1.5, 1), "Ack.received_ns"),
            (m.Ping(1 << 64), "Ping.sent_ns"),
            (m.Welcome(1, 1, 1, -5, 1, 1, 1, 1), "Welcome.fail_open_ns"),
            (m.Yield(1, 1, 1 << 32, 0), "Yield.unspent_bytes"),
            (m.Directive((GRANT, dataclasses.replace(GRANT, bytes=1 << 32))), r"Directive.grants\[1\].bytes"),
            (m.Directive((dataclasses.replace(GRANT, rate_bps=1),)), "Grant.bytes"),
            (m.Directive((dataclasses.replace(GRANT, end_ns=999),)), "Grant.end_ns"),
            (m.Directive((GRANT,) * (m.MAX_GRANTS + 1)), "Directive.grants"),
            (m.Backlog(1, 0, 1, ((1, 2, 0), (1, -2, 0))), r"Backlog.entries\[1\].bytes"),
            (m.Backlog(1, 0, 1, ((1, 2),)), r"Backlog.entries\[0\]: 2 values"),
            (m.Backlog(1, 1, 1, ()), "Backlog.page"),
            (m.Regulate(1, 0, 0, ()), "Regulate.page"),
            (m.Regulate(1, 0, 1 << 16, ()), "Regulate.pages"),
            (m.Regulate(1, 0, 1, (1, "2")), r"Regulate.destinations\[1\].destination"),
            (m.Regulate(1, 0, 1, tuple(range(400))), "body: 1612 bytes"),
            (m.Report(1, 0, 1, (m.FlowReport(1, 2, -3),), ()), r"Report.entries\[0\].backlog_bytes"),
            (m.Report(1, 0, 1, (), ((1 << 16, 1),)), r"Report.counters\[0\].cause"),
            (m.Report(1, 0, 1, (), (), -1), "Report.report"),
            (m.Directory(1, 0, 1, ((-1, ()),)), "Directory.entries.node"),
            (m.Directory(1, 0, 1, ((1, (SCOPED,)),)), "Directory.entries: .* scope"),
            (m.Directory(1, 0, 1, ((1, MANY * 3),)), "Directory.entries: 300 addresses"),
            (m.Directory(-1, 0, 1, ()), "Directory.version"),
            (m.Register("h" * 256, 1, 1, (), m.GateKind.TBF, "1"), "Register.name"),
            (m.Register("\ud800", 1, 1, (), m.GateKind.TBF, "1"), "Register.name"),
            (m.Register("h", 1, 1, (), m.GateKind.TBF, "1" * 256), "Register.version"),
            (m.Register("h", -1, 1, (), m.GateKind.TBF, "1"), "Register.nonce"),
            (m.Register("h", 1, 1, ("10.0.0.1",), m.GateKind.TBF, "1"), "Register.addresses"),
            (m.Register("h", 1, 1, MANY, m.GateKind.TBF, "1"), "Register.addresses"),
            (m.Register("h", 1, 1, (), m.GateKind(8), "1"), "Register.gates"),
            (m.Heartbeat(2, 1, 1), "Heartbeat.override"),
            (m.Heartbeat(m.Override.FREE, 1, -1), "Heartbeat.regulate_version"),
            (m.Thresholds(1, 1, 8, 1, (), ()), "Thresholds.bands"),
            (m.Thresholds(1, 1, 3, 1, (1, 2), (1,)), "Thresholds.beta: 2 .* 1 of alpha"),
            (m.Thresholds(1, 1, 3, 1, (1, 2), (2, 1)), "Thresholds.alpha: .* falls"),
            (m.SizeReport(1, 1, bytes(14)), "SizeReport.rows: types 0"),
            (m.Error(0, 1, ""), "Error.code"),
            (m.Error(m.ErrorCode.BUSY, 1, "x" * 1500), "Error.text|body"),
            (m.Leave("x" * 1500), "Leave.reason"),
        ],
    )
    def test_a_value_out_of_range_names_its_field(self, message: m.Message, field: str) -> None:
        with pytest.raises(ValueError, match=field):
            frame_of(message)

    @pytest.mark.parametrize(
        ("numbers", "field"),
        [
            ({"sender": -1}, "frame.sender"),
            ({"epoch": 1 << 32}, "frame.epoch"),
            ({"sequence": 1 << 64}, "frame.sequence"),
            ({"destination": b""}, "destination"),
            ({"source": b"1234567"}, "source"),
            ({"source": "123456"}, "source"),
        ],
    )
    def test_a_value_of_the_header_that_does_not_fit_is_named(self, numbers: dict[str, object], field: str) -> None:
        with pytest.raises(ValueError, match=field):
            frame_of(m.Ping(1), **numbers)

    @pytest.mark.parametrize("count", [72, 80, 400])
    def test_a_message_too_long_for_a_frame_is_not_cut(self, count: int) -> None:
        with pytest.raises(ValueError, match="pages"):
            frame_of(m.Report(1, 0, 1, (m.FlowReport(16, 1, 1),) * count, ()))


class TestOtherTools:
    """The layout as read by others."""

    MESSAGE = m.Ack(0x0102030405060708, 17, 1_000, 2_000)

    def test_scapy_reads_the_frame_by_the_documented_fields(self) -> None:
        pytest.importorskip("scapy", reason="scapy is not installed")
        from scapy.fields import IntField, LongField, ShortField, XByteField, XShortField
        from scapy.layers.l2 import Ether
        from scapy.packet import Packet

        class Header(Packet):
            fields_desc = (
                XShortField("magic", 0),
                XByteField("version", 0),
                XByteField("type", 0),
                XShortField("flags", 0),
                ShortField("length", 0),
                IntField("sender", 0),
                IntField("epoch", 0),
                LongField("sequence", 0),
                LongField("slot", 0),
                IntField("destination", 0),
                LongField("received_ns", 0),
                LongField("opened_ns", 0),
            )

        frame = frame_of(self.MESSAGE, source=HOST, destination=LEADER, sender=16, epoch=7, sequence=99)
        ethernet = Ether(frame)
        assert (ethernet.dst, ethernet.src) == ("02:00:00:00:00:fe", "02:00:00:00:00:01")
        assert ethernet.type == 0x88B5
        header = Header(bytes(ethernet.payload))
        assert (header.magic, header.version, header.type, header.flags) == (0x4254, 3, 9, 0)
        assert (header.length, header.sender, header.epoch, header.sequence) == (28, 16, 7, 99)
        assert (header.slot, header.destination) == (self.MESSAGE.slot, 17)
        assert (header.received_ns, header.opened_ns) == (1_000, 2_000)
        assert len(header.payload) == 16

    @pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
    def test_tshark_reads_addresses_ethertype_and_a_multicast_heartbeat(self, tmp_path: Path) -> None:
        frame = frame_of(m.Heartbeat(m.Override.COORDINATE, 1, 1), destination=m.HEARTBEAT_MAC)
        capture = tmp_path / "frame.pcap"
        capture.write_bytes(
            struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
            + struct.pack("=IIII", 0, 0, len(frame), len(frame))
            + frame
        )
        fields = ("eth.dst", "eth.src", "eth.type", "eth.dst.ig", "eth.dst.lg", "frame.len")
        command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=,"]
        for field in fields:
            command += ["-e", field]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        destination, source, ethertype, group, local, size = printed.strip().split(",")
        assert (destination, source) == ("03:42:41:54:4f:4e", "02:00:00:00:00:fe")
        assert int(ethertype, 16) == 0x88B5
        assert group.lower() in ("1", "true") and local.lower() in ("1", "true")
        assert int(size) == len(frame)


def test_the_addresses_of_a_node_keep_their_order_and_family() -> None:
    mixed = (IPv6Address("::ffff:10.0.0.1"), IPv4Address("10.0.0.1"), IPv6Address("fd00::1"))
    frame = frame_of(m.Directory(1, 0, 1, ((16, mixed),)))
    assert m.decode(frame, KEY).message == m.Directory(1, 0, 1, ((16, mixed),))
