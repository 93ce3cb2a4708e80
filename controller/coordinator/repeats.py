"""Registrations that were answered already. Pure.

A host whose REGISTER waits at the leader sends it again, the same but for its sequence number. When thousands register at once,
most frames that wait are such repeats. One that came before its answer left needs no other answer, nor a look at its tag:
whoever forged it gains nothing.
"""

from __future__ import annotations

from controller.members.part import Part
from controller.members.registry import Members
from protocol.keys.heartbeats import SEQUENCE_FROM
from protocol.keys.hosts import ENROLMENT_BYTES
from protocol.messages import Kind
from protocol.units import SECOND_NS
from protocol.wire import BODY, TYPE

LONGEST_NS = 5 * SECOND_NS
"""A frame that seems to have waited for longer did not: the wall clock, by which the kernel stamps frames, was set."""


class Repeats(Part):
    """The last REGISTER of each member, and when it was answered."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._answered: dict[int, tuple[bytes, int]] = {}
        """By node: what was said, and when it was answered (ns, of the wall clock)."""

    def drops(self, raw: bytes, stamp_ns: int) -> bool:
        """Whether a frame is a REGISTER whose answer left after it had come (ns, by the wall clock; 0: not known)."""
        if not stamp_ns or len(raw) < BODY or raw[TYPE] != Kind.REGISTER or (member := self._members.at(raw[6:12])) is None:
            return False
        known = self._answered.get(member.node)
        return known is not None and 0 <= known[1] - stamp_ns <= LONGEST_NS and known[0] == _said(raw)

    def answered(self, raw: bytes, now_ns: int) -> None:
        """This REGISTER was answered at that time (ns, by the wall clock)."""
        if (member := self._members.at(raw[6:12])) is not None:
            self._answered[member.node] = _said(raw), now_ns

    def left(self, node: int, now_ns: int) -> None:
        self._answered.pop(node, None)


def _said(raw: bytes) -> bytes:
    """All but the sequence number, the keyed hash and the padding: with the enrolment, if the tag begins with one."""
    return raw[:SEQUENCE_FROM] + raw[BODY : BODY + int.from_bytes(raw[20:22]) + ENROLMENT_BYTES]
