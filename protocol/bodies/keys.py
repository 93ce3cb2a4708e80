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
class RotationStep(IntEnum):
    """A step in the change of the key."""

    ACCEPT = 1
    """Accept both keys, and send with the old one."""
    SEND = 2
    """Accept both, and send with the new one."""
    DROP = 3
    """Accept the new one only."""
    CANCEL = 4
    """Accept the old one only: the change is cancelled."""


@dataclass(frozen=True, slots=True)
class KeyStep:
    """Leader to all, each second after the first change of a key began: the present step, and the old and the new key."""

    step: RotationStep
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class KeyState:
    """Member to leader, in answer: the key that it sends with, and the other one that it accepts (0 for none)."""

    sending: int
    other: int


def pack_key_step(message: KeyStep) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if message.step not in RotationStep:
        raise ValueError(f"KeyStep.step: {message.step!r} must be one of {', '.join(step.name for step in RotationStep)}")
    return KEY_STEP.pack("KeyStep", *KEY_STEP.values(message))


def unpack_key_step(body: bytes) -> KeyStep:
    """Raises ValueError or struct.error: not such a body."""
    step, old, new = KEY_STEP.struct.unpack(body)
    return KeyStep(RotationStep(step), old, new)
