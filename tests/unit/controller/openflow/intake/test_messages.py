"""Which OpenFlow messages reach the framework's parser: none that would hang it."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.openflow import FEATURES, FRAMEWORKS, HELLOS, SEEDS, Parser, message
from controller.openflow.intake import messages
from controller.openflow.intake.messages import Malformed
from controller.openflow.intake.stream import HANDSHAKE_NS, Stream, Unreadable
from controller.openflow.intake.takeover import FLOWS_MAX

HANGING_HELLO = message(messages.HELLO, bytes(4))
"""Twelve bytes: an element of type 0 and length 0."""
IN_PORT = bytes.fromhex("80000004 00000001")
USED = [seed for seed in SEEDS if messages.admits(seed)]
WITH_A_BODY = [seed for seed in USED if len(seed) > messages.HEADER.size]
ECHOES = (2, 3)
"""Their bodies are any bytes."""
PARSERS = [Parser(root) for root in FRAMEWORKS]


def multipart(kind: int, body: bytes) -> bytes:
    return message(messages.MULTIPART_REPLY, struct.pack("!HH4x", kind, 0) + body)


def flow_with(instructions: bytes) -> bytes:
    match = struct.pack("!HH", 1, 4) + bytes(4)
    return multipart(1, struct.pack("!H54x", 56 + len(instructions))[:48] + match + instructions)


class TestLengths:
    """Every length, at every level."""

    def test_a_hello_with_an_element_of_length_0_is_refused(self) -> None:
        with pytest.raises(Malformed, match="HELLO: element: length"):
            messages.hello(HANGING_HELLO)

    def test_every_hello_becomes_one_that_the_parsers_walk_to_its_end(self) -> None:
        assert {len(messages.hello(hello)) for hello in HELLOS} == {8, 16}
        padded = HELLOS[3]  # right: two words of bitmap, then padding, which Ryu and os-ken take for an element of length 0
        assert messages.hello(padded) == message(messages.HELLO, struct.pack("!HHI", 1, 8, 0x7E))

    @pytest.mark.parametrize("seed", WITH_A_BODY, ids=lambda seed: f"{seed[1]}-{seed[8:10].hex()}")
    def test_no_length_of_0_passes_and_no_cut(self, seed: bytes) -> None:
        """Wherever two bytes are a length, 0 there is refused, or harmless to both parsers."""
        places, values = range(8, len(seed) - 1), (0, 1, 3, 0xFFFF)
        wrong = [seed[:at] + value.to_bytes(2) + seed[at + 2 :] for at in places for value in values]
        cut = [message(seed[1], seed[8:end]) for end in range(8, len(seed))]
        counts = Counter(map(parse_if_admitted, wrong + cut))
        assert counts["parsed"] > 0, "most of these bytes are no length"
        assert (counts["refused"] == 0) == (seed[1] in ECHOES)

    @pytest.mark.parametrize(
        ("what", "hostile"),
        [
            ("flow statistics", multipart(1, bytes(56))),
            ("instruction", flow_with(struct.pack("!HH4x", 4, 0))),
            ("action", flow_with(struct.pack("!HH4x", 4, 24) + struct.pack("!HH12x", 0, 0))),
            ("set-field", flow_with(struct.pack("!HH4x", 4, 24) + struct.pack("!HHHBB8x", 25, 16, 0x8000, 6, 0))),
            ("group", multipart(7, bytes(8))),
            ("bucket", multipart(7, struct.pack("!HBxI", 24, 0, 1) + bytes(16))),
            ("action of a bucket", multipart(7, struct.pack("!HBxI", 40, 0, 1) + struct.pack("!H14x", 32) + bytes(16))),
            ("queue", message(messages.QUEUE_GET_CONFIG_REPLY, bytes(8 + 16))),
            ("queue property", message(23, bytes(8) + struct.pack("!IIH6x", 1, 1, 32) + struct.pack("!HH12x", 1, 0))),
            ("match of a packet-in", message(messages.PACKET_IN, bytes(16) + struct.pack("!HH4x", 1, 0) + bytes(2))),
            ("match field", message(messages.PACKET_IN, bytes(16) + struct.pack("!HHHBB", 1, 8, 0xFFFF, 0, 0) + bytes(2))),
        ],
    )
    def test_a_nested_length_of_0_is_refused(self, what: str, hostile: bytes) -> None:
        with pytest.raises(Malformed):
            messages.admits(hostile)

    def test_what_baton_never_asks_for_is_not_parsed(self) -> None:
        unused = [*(message(kind) for kind in (4, 8, 14, 20, 26, 99)), *set(SEEDS) - set(USED)]
        assert not any(messages.admits(each) for each in unused)

    def test_a_frame_without_its_port_is_refused(self) -> None:
        with pytest.raises(Malformed, match="no port"):
            messages.admits(message(messages.PACKET_IN, bytes(16) + struct.pack("!HH4x", 1, 4) + bytes(2)))

    def test_what_honest_switches_send_passes_and_is_parsed(self) -> None:
        for parser in PARSERS:
            before = parser.given_up
            for seed in USED:
                assert parser.take(HELLOS[1] + FEATURES + seed) == 3
            assert parser.given_up == before


def parse_if_admitted(hostile: bytes) -> str:
    """What became of it. Fails if a message passes the check and then hangs a parser, or an exception escapes from it."""
    try:
        passes = messages.admits(hostile)
    except Malformed:
        return "refused"
    if not passes:
        return "ignored"
    for parser in PARSERS:
        parser.parse(*messages.HEADER.unpack_from(hostile), hostile)
    return "parsed"


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(USED), st.lists(st.tuples(st.integers(4, 200), st.integers(0, 0xFFFF) | st.integers(0, 17)), max_size=4))
def test_no_message_behind_the_check_hangs_a_parser(seed: bytes, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(seed)
    for at, value in changes:
        raw[at : at + 2] = value.to_bytes(2)
    raw[2:4] = len(raw).to_bytes(2)
    parse_if_admitted(bytes(raw))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=10))
def test_any_bytes_in_any_pieces_end_in_messages_or_a_refusal(data: bytes, pieces: list[int]) -> None:
    stream = Stream(0)
    try:
        for size in [*pieces, len(data)]:
            stream.feed(data[:size], 0)
            data = data[size:]
    except Unreadable:
        return
    assert len(data) == 0


class TestStream:
    """The bytes of one peer."""

    def test_a_stranger_that_begins_with_anything_but_a_sound_hello_is_hung_up_on(self) -> None:
        for first in (HANGING_HELLO, FEATURES, bytes(8), b"GET / HTTP/1.1\r\n\r\n", message(messages.HELLO, version=0)):
            with pytest.raises(Unreadable):
                Stream(0).feed(first, 0)

    def test_before_a_switch_has_described_itself_a_wrong_length_is_the_end(self) -> None:
        with pytest.raises(Unreadable):
            Stream(0).feed(HELLOS[0] + multipart(1, bytes(56)), 0)

    def test_afterwards_it_costs_the_message_and_not_the_switch(self) -> None:
        stream = Stream(0)
        admitted = stream.feed(HELLOS[0] + FEATURES + multipart(1, bytes(56)) + message(messages.BARRIER_REPLY), 0)
        assert admitted == HELLOS[0] + FEATURES + message(messages.BARRIER_REPLY)
        assert dict(stream.malformed) == {"flow statistics: length": 1}

    def test_who_does_not_describe_itself_in_time_is_hung_up_on(self) -> None:
        stream = Stream(0)
        stream.feed(HELLOS[0], 0)
        stream.wait(HANDSHAKE_NS - 1)
        with pytest.raises(Unreadable, match="handshake"):
            stream.wait(HANDSHAKE_NS)

    def test_messages_in_pieces_are_whole_when_they_come_out(self) -> None:
        stream, whole = Stream(0), HELLOS[1] + FEATURES + SEEDS[5]
        out = b"".join(stream.feed(whole[at : at + 1], 0) for at in range(len(whole)))
        assert out == whole

    def test_what_a_switch_tells_of_itself_is_bounded(self) -> None:
        stream, part = Stream(0), multipart(1, flow_with(b"")[16:] * 1_000)
        stream.feed(HELLOS[0] + FEATURES, 0)
        taken = sum(bool(stream.feed(part, 0)) for _ in range(1_000))
        assert 1_000 * taken > FLOWS_MAX > 100 * taken, "a whole table, of entries twice as long, and not much more"
        assert dict(stream.malformed) == {"more statistics than we take": 1_000 - taken}
        assert stream.feed(multipart(4, bytes(112)), 10_000_000), "counters are taken again soon"

    @pytest.mark.parametrize(("ports_a_part", "polls"), [(584, 1_200), (1, 60)])
    def test_the_counters_of_thousands_of_ports_are_taken_as_often_as_they_are_asked_for(
        self, ports_a_part: int, polls: int
    ) -> None:
        stream, ports = Stream(0), 2_336
        stream.feed(HELLOS[0] + FEATURES, 0)
        answer = multipart(4, bytes(112 * ports_a_part)) * (ports // ports_a_part)
        for poll in range(polls):
            stream.feed(answer, poll * ports * 200_000)  # 0.2 ms for each port
            assert not stream.malformed

    def test_frames_are_bounded_and_nothing_else_is(self) -> None:
        stream, frame, echo = Stream(0), SEEDS[5], message(messages.ECHO_REQUEST)
        stream.feed(HELLOS[0] + FEATURES, 0)
        taken = sum(len(stream.feed(frame, 0)) for _ in range(2_500)) // len(frame)
        assert (taken, stream.frames_dropped) == (2_000, 500)
        assert stream.feed(echo, 0) == echo
        assert stream.feed(frame, 10_000_000) == frame  # a hundredth of a second later there is room for twenty
