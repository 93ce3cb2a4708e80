"""How long a frame takes to encode, and to decode and verify, for each message of a slice.

Method: each operation is repeated in batches of 1,000 in one process; a sample is a batch's time divided by
its size, and least, median and 99th percentile are over the batches. Frames are as on the wire; `guard` adds
epoch and replay window, every frame being new. `heartbeat` is what a guard takes for one, none being lost, with
the keys of version 2 of the wire (a keyed hash) and of version 3 (a hash, and a signature for each chain of 256).
`leader` is what frames cost a leader with all that they lead to, one by one and in batches (bench/computing/frames.py).
Run it on an otherwise idle machine: `python -m bench.computing.protocol`.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from bench.computing import frames
from emulation.measuring.measure import percentile
from protocol.auth import Guard
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.hosts import Master
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Ack,
    Backlog,
    Directive,
    Grant,
    Heartbeat,
    Message,
    Override,
    Yield,
    decode,
    encode,
)
from protocol.wire import Prover

BATCH = 1_000
BATCHES = 100
HOST = b"\x02\0\0\0\0\x02"

NOW_NS = 1_700_000_000_000_000_000
MESSAGES: dict[str, Message] = {
    "directive": Directive((Grant(17, 123_456, NOW_NS, NOW_NS + 2_000_000, 24_224, 0),)),
    "ack": Ack(123_456, 17, NOW_NS, NOW_NS + 40_000),
    "yield": Yield(17, 123_456, 12_000, 0),
    "backlog_5": Backlog(9, 0, 1, tuple((16 + node, 60_000, 0) for node in range(5))),
}
"""The messages of one slice, and the backlog of a host with five regulated destinations."""


def run() -> dict[str, Any]:
    """{"nanoseconds": {message: {operation: {"min", "p50", "p99"}}}, "frame_bytes": {message: size}, "leader": {...}, ...}."""
    key = Key(bytes(range(32)))
    return {
        "nanoseconds": {name: _costs(message, key) for name, message in MESSAGES.items()},
        "heartbeat": {
            "one_key": _measured_guard(Guard(key), _heartbeats(key, count(1).__next__)),
            "key_for_each_host": _heartbeats_of_hosts(),
        },
        "frame_bytes": {name: len(_encode(message, key, 1)) for name, message in MESSAGES.items()},
        "leader": frames.run(),
        "method": f"{BATCHES} batches of {BATCH} frames",
        "python": platform.python_version(),
    }


def _costs(message: Message, key: Key) -> dict[str, dict[str, int]]:
    sent = [_encode(message, key, sequence) for sequence in range(BATCH * BATCHES)]
    guard = Guard(key)
    costs = {
        "encode": _measure(lambda _: _encode(message, key, 1), sent),
        "decode_verify": _measure(lambda frame: decode(frame, key), sent),
        "guard": _measure(guard.accept, sent),
    }
    if guard.accepted != len(sent):
        raise RuntimeError(f"the guard refused frames that it should accept: {guard.refused}")
    return costs


def _heartbeats(key: Prover, place: Callable[[], int]) -> list[bytes]:
    message = Heartbeat(Override.COORDINATE, 1, 1)
    return [_encode(message, key, place(), HEARTBEAT_MAC) for _ in range(BATCH * BATCHES)]


def _heartbeats_of_hosts() -> dict[str, int]:
    master = Master(Key(bytes(range(32))))
    way = LeaderAuthentication(KeyRing(master), lambda *_: (), lambda _: None)
    return _measured_guard(Guard(master.enroll("h1").at(HOST), address=HOST), _heartbeats(way, way.place))


def _measured_guard(guard: Guard, sent: list[bytes]) -> dict[str, int]:
    costs = _measure(guard.accept, sent)
    if guard.accepted != len(sent):
        raise RuntimeError(f"the guard refused heartbeats that it should accept: {guard.refused}")
    return costs


def _encode(message: Message, key: Prover, sequence: int, destination: bytes = HOST) -> bytes:
    return encode(
        message,
        key=key,
        destination=destination,
        source=b"\x02\0\0\0\0\x01",
        sender=COORDINATOR,
        epoch=1,
        sequence=sequence,
    )


def _measure(operation: Callable[[bytes], object], sent: Sequence[bytes]) -> dict[str, int]:
    samples = []
    for first in range(0, len(sent), BATCH):
        batch = sent[first : first + BATCH]
        start_ns = time.perf_counter_ns()
        for frame in batch:
            operation(frame)
        samples.append((time.perf_counter_ns() - start_ns) / len(batch))
    return {
        "min": round(min(samples)),
        "p50": round(statistics.median(samples)),
        "p99": round(percentile(samples, 99) or 0.0),
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
