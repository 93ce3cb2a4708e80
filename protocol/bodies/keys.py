"""The bodies of KEY_STEP and KEY_STATE, by which a fabric changes its key without a gap. Pure.

Keys are named by fingerprints (`Key.fingerprint`); a key itself is never on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique

from protocol.wire import Layout

KEY_STEP = Layout(step="B", old="Q", new="Q")
KEY_STATE = Layout(sending="Q", other="Q")


@unique
class Step(IntEnum):
    """How far the change of the key is."""

    ACCEPT = 1
    """Take both keys, and send with the old one."""
    SEND = 2
    """Take both, and send with the new one."""
    DROP = 3
    """Take the new one only."""
    CANCEL = 4
    """Take the old one only: the new one is given up."""


@dataclass(frozen=True, slots=True)
class KeyStep:
    """Leader to all, each second from the first change of a key on: how far it is, and which keys it is about."""

    step: Step
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class KeyState:
    """Member to leader, in answer: the key that it sends with, and the other one that it takes; 0 for none."""

    sending: int
    other: int


def pack_key_step(message: KeyStep) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if message.step not in Step:
        raise ValueError(f"KeyStep.step: {message.step!r} must be one of {', '.join(step.name for step in Step)}")
    return KEY_STEP.pack("KeyStep", *KEY_STEP.values(message))


def unpack_key_step(body: bytes) -> KeyStep:
    """Raises ValueError or struct.error: not such a body."""
    step, old, new = KEY_STEP.struct.unpack(body)
    return KeyStep(Step(step), old, new)
