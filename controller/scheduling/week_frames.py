"""A week's days by PFC frames: each turn of a day or night pauses and opens classes. Sends only through what it is given.

PFC frames reach the link partner alone (IEEE 802.1Q, table 8-1): their sender must be the device that the host is plugged into,
as a top-of-rack switch is, or a coordinator at the other end of the host's link. Baton's switches forward none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from controller.members.registry import Member
from controller.policies.weekly import Turn, turns
from protocol.bodies.host_control import Transport, Week
from protocol.pfc import PfcFrame, longest_ns
from protocol.timers import Timers


class WeekFrames:
    """Sends the frames of the weeks that it is given."""

    def __init__(self, timers: Timers, send: Callable[[bytes], object], address: bytes) -> None:
        """`send` takes whole frames, `address` is the MAC address that they come from."""
        self._timers = timers
        self._send = send
        self._address = address
        self._newest: dict[int, int] = {}
        """The number of the newest week, by node."""

    def take(self, member: Member, week: Week, now_ns: int) -> None:
        """Plans the frames of a week whose transport is PFC; a week that is not newer than the one before changes nothing."""
        if self._newest.get(member.node, -1) >= week.week:
            return
        self._newest[member.node] = week.week
        if week.transport is not Transport.PFC or not week.days:
            return
        found = turns(week)
        again_ns = longest_ns(member.rate_bps) // 2
        for turn, until_ns in zip(found, [*(turn.at_ns for turn in found[1:]), week.end_ns], strict=True):
            self._at(turn, until_ns, again_ns)

    def _at(self, turn: Turn, until_ns: int, again_ns: int) -> None:
        """Repeats a pause that is longer than one frame can ask for."""
        for at_ns in range(turn.at_ns, max(until_ns, turn.at_ns + 1), again_ns):
            frame = PfcFrame(self._address, turn.quanta).encode()
            self._timers.at(at_ns, partial(self._send_frame, frame))

    def _send_frame(self, frame: bytes, _: int) -> None:
        self._send(frame)
