"""What version 2 said, byte for byte and in words, today's code reads and says."""

from __future__ import annotations

import struct

import pytest

from protocol.key import Key
from protocol.messages import Kind, decode, encode
from tests.peers.version_2.player import RECORD

MESSAGES = RECORD["messages"]


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_recorded_message_says_what_it_said_then_and_is_said_as_it_was(kind: str) -> None:
    raw, key = bytes.fromhex(MESSAGES[kind]["frame"]), Key(bytes.fromhex(RECORD["key"]))
    frame = decode(raw, key)
    assert frame.version == 2 and Kind(raw[17]).name == kind
    said: str = MESSAGES[kind]["says"]
    assert repr(frame.message).startswith(said.removesuffix(")")), "newer fields come last"
    words = {"destination": frame.destination, "source": frame.source, "sender": frame.sender, "epoch": frame.epoch}
    assert encode(frame.message, key=key, **words, sequence=frame.sequence, version=2) == raw


def test_the_record_has_every_type_of_version_2_and_both_ends() -> None:
    assert len(MESSAGES) == 32 and MESSAGES.keys() <= Kind.__members__.keys()
    for end in ("agent", "leader"):
        frames = [bytes.fromhex(text) for text in RECORD[end]]
        assert {struct.unpack_from("!HB", raw, 14) for raw in frames} == {(0x4254, 2)}
