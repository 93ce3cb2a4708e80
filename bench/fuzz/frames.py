"""Forged control frames, and authentic frames that make no sense, sent to a guard, a leader and a member.

Method: each run is one frame, made from a valid message of some type by a seeded generator.

* *Forgeries* (half of the runs): an authentic, fresh frame with one to three bits flipped; with another key's tag; cut short or
  with bytes added; of an old epoch; replayed; sent to another host; or sent by a node in the wrong role. The guard's own count
  shows whether it accepted one.
* *Hostile* (the other half): a valid tag over a mutated body, with extreme numbers, senders, epochs and sequences, as an
  attacker with the key could send. The receiver may accept it; it may not raise an exception.

The fuzzer makes every receiver anew after some hundreds of frames, as after a restart. An exception is a crash; the record has
its seed.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.fuzz.receivers import EPOCH, RECEIVERS, Receiver, frame
from bench.fuzz.seeds import SEEDS
from protocol.bodies.versions import NEWEST, SPOKEN
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.messages import COORDINATOR, encode
from protocol.wire import BODY, BODY_MAX, seal

KEY, SECOND_KEY, FORGERS_KEY = (Key(bytes([number]) * 32) for number in (1, 2, 3))
FRAMES_EACH = 400
CRASHES_KEPT = 5
EXTREMES = (0, 1, 2, 15, 16, 17, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
STEP_NS = 5_000_000


def fuzz(seconds: float, seed: int) -> dict[str, Any]:
    """{"runs", "crashes", "accepted_forgeries", "by_target", "refused", "first_crashes"}."""
    generator = random.Random(seed)
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    crashes: list[str] = []
    by_target = {name: dict.fromkeys(("runs", "forgeries", "hostile", "accepted"), 0) for name in RECEIVERS}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, make in RECEIVERS.items():
            # Half of the receivers are in the middle of a key rotation, when two keys are valid.
            target = make(KeyRing(KEY, SECOND_KEY if generator.random() < 0.5 else None))
            session = _Session(target, generator)
            for _ in range(FRAMES_EACH):
                if time.monotonic() > until:
                    break
                _one(session, by_target[name], counts, crashes, seed)
            refused.update({cause.name.lower(): count for cause, count in target.guard.refused.items()})
    return {
        "runs": counts["runs"],
        "forgeries": counts["forgeries"],
        "crashes": counts["crashes"],
        "accepted_forgeries": counts["accepted_forgeries"],
        "by_target": by_target,
        "refused": dict(sorted(refused.items())),
        "first_crashes": crashes,
    }


def _one(session: _Session, tally: dict[str, int], counts: Counter[str], crashes: list[str], seed: int) -> None:
    forged = session.generator.random() < 0.5
    raw = session.forgery() if forged else session.hostile()
    before = session.target.guard.accepted
    counts["runs"] += 1
    tally["runs"] += 1
    tally["forgeries" if forged else "hostile"] += 1
    counts["forgeries"] += forged
    try:
        session.take(raw)
    except Exception:  # any exception is a finding
        counts["crashes"] += 1
        if len(crashes) < CRASHES_KEPT:
            crashes.append(f"seed {seed}, run {counts['runs']}, frame {raw.hex()}: {traceback.format_exc()}")
    accepted = session.target.guard.accepted - before
    tally["accepted"] += accepted
    counts["accepted_forgeries"] += accepted if forged else 0


class _Session:
    """One receiver and the frames that were sent to it."""

    def __init__(self, target: Receiver, generator: random.Random) -> None:
        self.target = target
        self.generator = generator
        self.now_ns = time.monotonic_ns()
        self._sequence = time.time_ns()
        self._taken: list[bytes] = []

    def take(self, raw: bytes) -> None:
        """Gives a frame to the receiver; keeps it for a replay if the receiver accepts it."""
        self.now_ns += STEP_NS
        before = self.target.guard.accepted
        self.target.take(raw, self.now_ns)
        if self.target.guard.accepted > before:
            self._taken = [*self._taken[-20:], raw]

    def fresh(self, version: int = NEWEST) -> bytes:
        """An authentic frame that the receiver would accept."""
        self._sequence += 1
        target = self.target
        message = self.generator.choice(SEEDS)
        return frame(
            message, target.key, source=target.source, destination=target.address, sender=target.sender,
            sequence=self._sequence, version=version,
        )  # fmt: skip

    def forgery(self) -> bytes:
        """A frame that the receiver must refuse."""
        ways: list[Callable[[], bytes]] = [self._flipped, self._other_key, self._cut, self._old, self._elsewhere, self._part]
        if self._taken:
            ways.append(lambda: self.generator.choice(self._taken))
        return self.generator.choice(ways)()

    def hostile(self) -> bytes:
        """A frame with a valid tag and a mutated body. Role and epoch are mostly right, so that it gets as far as the
        handlers."""
        generator, target = self.generator, self.target
        version = NEWEST if generator.random() < 0.8 else SPOKEN.lowest
        raw = self.fresh(version)
        kind, body = raw[17], bytearray(raw[BODY : BODY + int.from_bytes(raw[20:22])])
        for _ in range(generator.randrange(4)):
            self._mutate(body)
        if generator.random() < 0.05:
            kind = generator.randrange(256)
        right = generator.random() < 0.9
        return seal(
            kind,
            bytes(body[:BODY_MAX]),
            key=target.key,
            destination=target.address,
            source=target.source if right else generator.randbytes(6),
            sender=target.sender if right else generator.choice(EXTREMES) & 0xFFFFFFFF,
            epoch=target.guard.epoch if right else generator.choice(EXTREMES) & 0xFFFFFFFF,
            sequence=self._sequence if generator.random() < 0.97 else generator.choice(EXTREMES),
            version=version,
        )

    def _mutate(self, body: bytearray) -> None:
        generator = self.generator
        if not body or generator.random() < 0.1:
            body += generator.randbytes(generator.randrange(1, 40))
            return
        at = generator.randrange(len(body))
        way = generator.randrange(4)
        if way == 0:
            body[at] = generator.randrange(256)
        elif way == 1:
            size = generator.choice((1, 2, 4, 8))
            body[at : at + size] = (generator.choice(EXTREMES) & (1 << 8 * size) - 1).to_bytes(size)
        elif way == 2:
            del body[at:]
        else:
            body[at:at] = body[at : at + generator.randrange(1, 30)]

    def _flipped(self) -> bytes:
        raw = bytearray(self.fresh())
        for bit in self.generator.sample(range(8 * len(raw)), self.generator.randrange(1, 4)):
            raw[bit // 8] ^= 1 << bit % 8
        return bytes(raw)

    def _other_key(self) -> bytes:
        target = self.target
        self._sequence += 1
        return encode(
            self.generator.choice(SEEDS), key=FORGERS_KEY, destination=target.address, source=target.source,
            sender=target.sender, epoch=self.generator.choice((EPOCH, EPOCH + 1, 0xFFFFFFFF)), sequence=self._sequence,
        )  # fmt: skip

    def _cut(self) -> bytes:
        raw, generator = self.fresh(), self.generator
        if generator.random() < 0.3:
            return raw + generator.randbytes(generator.randrange(1, 60))
        # A cut in the padding is refused, too.
        return raw[: generator.randrange(len(raw))]

    def _old(self) -> bytes:
        epoch = self.target.guard.epoch  # 0: the guard has accepted no frame yet, so no epoch is old
        return self._with(epoch=self.generator.randrange(epoch)) if epoch else self._other_key()

    def _elsewhere(self) -> bytes:
        return self._with(destination=bytes((2, 0, 0, 0, 9, self.generator.randrange(256))))

    def _part(self) -> bytes:
        """A member's frame to a member, or a leader's to a leader."""
        return self._with(sender=COORDINATOR if self.target.guard.leader else self.generator.randrange(2, 1 << 32))

    def _with(self, **other: Any) -> bytes:  # noqa: ANN401 -- fields of the envelope
        target = self.target
        self._sequence += 1
        envelope: dict[str, Any] = {
            "destination": target.address,
            "source": target.source,
            "sender": target.sender,
            "epoch": target.guard.epoch,
            "sequence": self._sequence,
        } | other
        return encode(self.generator.choice(SEEDS), key=target.key, **envelope)


