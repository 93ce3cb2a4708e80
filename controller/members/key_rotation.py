"""The leader's part in a change of the fabric's key: it sends the step, and shows which members follow. Sends only through what
it is given.

The operator's command (`baton key rotate`) puts the steps into the store; the leader sends each to all members, every second,
for as long as the store holds it: a host that comes back weeks later finishes its change, too. The leader sends with the new
key from the step SEND on, so that step must wait until every member takes both.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.members.part import Part
from controller.members.registry import Member, Members
from protocol.bodies.keys import KeyState, KeyStep, RotationStep, pack_key_step
from protocol.key_files import KeyFiles, name
from protocol.keyring import KeyRing
from protocol.keys.hosts import Master
from protocol.messages import HEARTBEAT_MAC, Message
from protocol.timers import REFRESH_NS

UNKNOWN = "the store holds no step of a change of the key that this version knows; upgrade Baton here, or begin the change anew"


class KeyRotation(Part):
    """The step in force, and the keys of every member."""

    def __init__(
        self,
        ring: KeyRing[Master],
        path: Path,
        members: Members,
        send: Callable[[Message, bytes], None],
        write: Callable[[dict[str, Any]], object],
        follow: Callable[[], None] = lambda: None,
    ) -> None:
        """`follow` is called when other keys may be in use."""
        self.handlers = {KeyState: self._on_state}
        self.documents = {"rotation": self.take}
        self.periodic = ((REFRESH_NS, self.advance),)
        self._ring = ring
        self._files = KeyFiles(path, ring)
        self._members = members
        self._follow = follow
        self._send = send
        self._write = write
        self._step: KeyStep | None = None
        self._states: dict[int, tuple[int, int]] = {}
        self._problem = ""
        self._unknown = False
        """Whether the store holds a step that is none."""

    def take(self, document: dict[str, str], now_ns: int) -> None:
        """Takes the operator's step: {"step": name, "old": fingerprint, "new": fingerprint}, in hexadecimal digits."""
        try:
            step = KeyStep(RotationStep[document["step"].upper()], int(document["old"], 16), int(document["new"], 16))
            pack_key_step(step)
        except (KeyError, ValueError, AttributeError, TypeError):
            self._unknown = True
            return
        self._unknown = False
        if step != self._step:
            self._step = step
            self._event("info", f"change of the key: step {step.step.name.lower()}")
            self.advance(now_ns)

    def advance(self, now_ns: int) -> None:
        """Looks at the key's files, and sends the step."""
        lines = self._files.refresh()
        self._follow()
        step = self._step
        if step is not None:
            wanted = step.new if step.step in (RotationStep.SEND, RotationStep.DROP) else step.old
            if not self._ring.send_with(wanted):
                self._problem = f"this controller has no key {name(wanted)}: put its file beside {self._files.path}"
            else:
                self._problem = ""
                lines += self._files.apply(step)
                self._follow()
                self._send(step, HEARTBEAT_MAC)
        for line in lines:
            self._event("warning" if ";" in line else "info", line)

    def left(self, node: int, now_ns: int) -> None:
        self._states.pop(node, None)

    def status(self) -> dict[str, Any]:
        """The keys in use, and while one is being changed how far that is."""
        sending, other = self._ring.fingerprints()
        found: dict[str, Any] = {"sending": name(sending), "other": name(other) if other else None}
        if (step := self._step) is not None:
            waiting = [member.name for member in self._members.present() if not self._follows(member.node, step)]
            found |= {
                "step": step.step.name.lower(),
                "old": name(step.old),
                "new": name(step.new),
                "waiting_for": waiting,
                "sending_new": sum(state[0] == step.new for state in self._states.values()),
                "problem": self._problem,
            }
        return {"key": found}

    def warnings(self) -> list[str]:
        return [UNKNOWN] if self._unknown else []

    def _follows(self, node: int, step: KeyStep) -> bool:
        state = self._states.get(node)
        if step.step is RotationStep.ACCEPT:
            return state == (step.old, step.new)
        if step.step is RotationStep.SEND:
            return state == (step.new, step.old)
        return state == (step.new if step.step is RotationStep.DROP else step.old, 0)

    def _on_state(self, member: Member, message: KeyState, _: int) -> None:
        self._states[member.node] = message.sending, message.other

    def _event(self, severity: str, text: str) -> None:
        self._write({"event": ["key", severity, text]})
