"""Hosts join, leave and fall silent: REGISTER and LEAVE. Sends only through what it is given."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.event_budget import EventBudget
from controller.members.part import SWEEP_NS, Part, Parts
from controller.members.registry import Address, Member, Members, NoRoom
from protocol.bodies.versions import SPOKEN, Versions
from protocol.messages import (
    Error,
    ErrorCode,
    Leave,
    Message,
    Register,
    Welcome,
)
from protocol.units import SECOND_NS
from topology.units import LEAST_LINK_BPS, MOST_LINK_BPS

log = logging.getLogger("baton.coordinator")

EACH, JOINED_NS = 16, SECOND_NS
"""So many hosts that join in this time are told to the operators one by one, the others by their number."""
LOOKS = 12
"""How often silence is looked for in the time after which it counts."""


class Membership(Part):
    """Keeps the registry, and tells all parts which members joined and left.

    Args:
        parts: all of the coordinator's parts, this one included.
        write: takes lines for the store bridge.
        spoken: the versions of the wire that the leader speaks.
        position: place and value of the last heartbeat in its hash chain.
        read_until: up to which time (ns) all frames have been read, at a time (ns).
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        parts: Parts,
        send: Callable[[Message, bytes], None],
        write: Callable[[dict[str, Any]], object],
        spoken: Versions = SPOKEN,
        position: Callable[[], tuple[int, bytes]] = lambda: (0, bytes(16)),
        read_until: Callable[[int], int] = lambda now_ns: now_ns,
    ) -> None:
        self.handlers = {Leave: self._on_leave}
        self.periodic = ((SWEEP_NS, self._forget_silent), (JOINED_NS, self._tell_joined))
        self._settings = settings
        self._members = members
        self._parts = parts
        self._send = send
        self._write = write
        self._spoken = spoken
        self._position = position
        self._read_until = read_until
        self._silent_due_ns = 0
        self._registered: dict[int, Register] = {}
        """What each member said when it registered last."""
        self._refused: dict[int, frozenset[Address]] = {}
        """The addresses that a member did not get when it registered last."""
        self._events = EventBudget()
        self._joined = 0
        """How many hosts have joined since the last look."""
        self._turned_away = 0
        """How many registrations found no room."""

    def register(self, message: Register, mac: bytes, now_ns: int) -> bool:
        """Takes a host in, or its changed addresses, and answers with WELCOME; with ERROR, if there is no node id for it, or no
        version of the wire that both speak, or if no link has its rate. A member that says the same once more, by its nonce,
        gets another WELCOME: nothing else begins anew.

        False: the host is a member that speaks a newer version. So this is not its word, or its agent went back to an older
        version without taking leave: that one is taken in when the member has fallen silent.
        """
        if (wire := self._spoken.agreed(message.versions)) is None:
            text = f"the host speaks versions {message.versions} of the wire, the leader {self._spoken}; upgrade the older one"
            self._send(Error(ErrorCode.REFUSED, 0, text), mac)
            return True
        if (known := self._members.at(mac)) is not None and wire < known.wire:
            return False
        if not LEAST_LINK_BPS <= message.rate_bps <= MOST_LINK_BPS:
            text = f"the host's rate of {message.rate_bps} bit/s is not from 1Mbit to 1Tbit; name its link's rate by --rate"
            self._send(Error(ErrorCode.REFUSED, 0, text), mac)
            return True
        again = known is not None and wire == known.wire and self._registered.get(known.node) == message
        directory = self._members.version
        gate = message.gates.name or "none"
        try:
            member = self._members.register(
                mac, message.name, message.rate_bps, message.addresses, gate, message.version, now_ns, wire
            )
        except NoRoom as error:
            self._turned_away += 1
            self._send(Error(ErrorCode.BUSY, 0, str(error)), mac)
            return True
        settings = self._settings
        self._send(
            Welcome(
                message.nonce,
                member.node,
                settings.heartbeat_ns,
                settings.fail_open_ns,
                settings.yield_hysteresis_ns,
                settings.mice_bytes,
                settings.mice_rate_bps,
                settings.report_ns,
                wire,
                self._spoken,
                *self._position(),
            ),
            mac,
        )
        if again:
            return True
        self._parts.joined(member.node)
        self._registered[member.node] = message  # if a part failed, the next REGISTER is not the same again
        if self._members.version != directory:
            self._joined += known is None
            if known is not None or self._joined <= EACH:
                log.info("member %d: %s, %s", member.node, member.name, ", ".join(map(str, member.addresses)))
                self._tell("info", member, f"{member.name} is member {member.node}", now_ns)
        if refused := self._members.refused(member).keys() - self._refused.get(member.node, frozenset()):
            text = f"{member.name} claims {', '.join(sorted(map(str, refused)))}, which another member holds"
            log.warning("%s", text)
            self._tell("warning", member, text, now_ns)
        self._refused[member.node] = frozenset(self._members.refused(member))
        return True

    def _tell_joined(self, _: int) -> None:
        joined, self._joined = self._joined, 0
        if joined > EACH:
            text = f"{joined - EACH} more hosts are members"
            log.info("%s", text)
            self._write({"event": ["member", "info", text]})

    def status(self) -> dict[str, Any]:
        return {"members": len(self._members), "turned_away": self._turned_away, "report_ns": self._settings.report_ns}

    def left(self, node: int, now_ns: int) -> None:
        self._refused.pop(node, None)
        self._registered.pop(node, None)

    def warnings(self) -> list[str]:
        if not (left_out := self._members.left_out()):
            return []
        text = f"{left_out} addresses are more than hosts can hold, so traffic to them is not coordinated"
        return [f"{text}; remove addresses that hosts do not need"]

    def warnings_of(self, node: int) -> list[str]:
        member = self._members.get(node)
        if member is None:
            return []
        lines = [
            f"{address} is held by {holder.name}, so traffic to it counts as {holder.name}'s; remove it from one of the two"
            for address, holder in self._members.refused(member).items()
        ]
        if not member.claimed:
            remedy = "give its interface an address, or name its addresses by --address"
            lines.append(f"no addresses, so traffic to it is not coordinated; {remedy}")
        return lines

    def _on_leave(self, member: Member, message: Leave, now_ns: int) -> None:
        self.forget(member, now_ns, f"{member.name} left: {message.reason}")

    def _forget_silent(self, now_ns: int) -> None:
        """Counts silent members out. Who may have spoken in a frame that waits to be read is not silent yet; but such frames
        delay this for no longer than the silence itself."""
        if now_ns < self._silent_due_ns:
            return
        silence_ns = self._settings.silence_ns
        until_ns = max(self._read_until(now_ns), now_ns - silence_ns)
        silent, earliest_ns = self._members.silent(until_ns, silence_ns)
        self._silent_due_ns = max(now_ns + silence_ns // LOOKS, min(earliest_ns, now_ns) + silence_ns)
        for member in silent:
            self.forget(member, now_ns, f"{member.name} is silent and loses its slots")

    def forget(self, member: Member, now_ns: int, why: str) -> None:
        """Ends a membership; `why` is for the log and the operators."""
        log.info("%s", why)
        self._tell("warning", member, why, now_ns)
        self._write({"gone": member.node})
        self._members.leave(member.node)
        self._parts.left(member.node, now_ns)

    def _tell(self, severity: str, member: Member, text: str, now_ns: int) -> None:
        """Tells operators of an event, unless this member has caused too many."""
        if (told := self._events.text(member.name, text, now_ns)) is not None:
            self._write({"event": ["member", severity, told]})
