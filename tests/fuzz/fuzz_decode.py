"""Fuzz target: whatever the bytes, `decode` returns or refuses, even with a valid tag.

The target uses its input twice: as a received frame; and as type (its first byte) and body (the rest) of a frame with a valid
tag. A message decoded from the latter must encode to the same bytes. With libFuzzer's arguments:
`python tests/fuzz/fuzz_decode.py [CORPUS] -max_total_time=60`, from the project's directory.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["protocol"]):
    from protocol.bodies.versions import SPOKEN
    from protocol.key import Key
    from protocol.messages import COORDINATOR, Refused, decode, encode
    from protocol.wire import BODY_MAX, seal

KEY = Key(bytes(range(32)))
ENVELOPE = {
    "key": KEY,
    "destination": b"\x02\0\0\0\0\x02",
    "source": b"\x02\0\0\0\0\x01",
    "sender": COORDINATOR,
    "epoch": 1,
    "sequence": 1,
}


def one_input(data: bytes) -> None:
    """libFuzzer calls this; an exception is a finding."""
    try:
        decode(data, KEY)
    except Refused:
        pass
    else:
        raise AssertionError("a frame was forged")
    if not data:
        return
    for version in range(SPOKEN.lowest, SPOKEN.highest + 1):
        frame = seal(data[0], data[1 : 1 + BODY_MAX], **ENVELOPE, version=version)
        try:
            message = decode(frame, KEY).message
        except Refused:
            continue
        if encode(message, **ENVELOPE, version=version) != frame:
            raise AssertionError(f"{message} has two encodings")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
