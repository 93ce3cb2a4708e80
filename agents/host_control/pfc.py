"""An agent's part that obeys and originates pauses of IEEE 802.1Qbb and IEEE 802.3x. An edge: a packet socket.

In software, frames that arrive at the interface shut and free classes of the host's queues
(`agents/permission/conditions.py`), so a slot
or a condition of somebody else's is neither lost nor undone by a pause. With a NIC, that obeys them before we could see them;
only originating is ours. Either way the frames that we send pass no queues: a pause must not wait behind what it is to stop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from agents.host_control.pause import Originated, PauseSettings, Received
from agents.host_control.pause_watchdog import Change, StormSettings
from agents.host_control.pfc_nic import NicPfc
from agents.loop.part import Part, Surroundings
from agents.permission.rules import Rule
from agents.reflex.reflex import Reflex
from protocol import pfc
from protocol.bodies.pfc import Answer, Mode, PfcClass, class_mask, classes_of
from protocol.link import ControlSocket
from protocol.messages import PfcPause, PfcReport, PfcSettings
from protocol.pfc import CLASSES

log = logging.getLogger("baton.pfc")

REPORT_NS = 200_000_000
FRAMES_AT_ONCE = 64
"""A flood of pauses is taken in turns of so many, between which the rest of the agent gets its own."""
COMMANDS_KEPT = 64
PRESUMED_NS = 50_000_000
"""How long a class stays paused that no frame has paused, when a week by PFC is over."""


class PfcPart(Part):
    """Pauses on one interface.

    Args:
        clock: monotonic, ns.
        nic: the interface, if it obeys pauses by itself; else we do.
        reflex: what obeys them first while the agent waits, if there is one.

    Raises OSError: no such interface, or no right to open a packet socket.
    """

    def __init__(
        self,
        agent: Surroundings,
        interface: str,
        link_bps: int,
        clock: Callable[[], int],
        nic: NicPfc | None = None,
        reflex: Reflex | None = None,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._nic = nic
        self._reflex = reflex if nic is None else None
        if nic is not None:
            nic.classes.install()
            agent.rules.on_mapped = nic.classes.assign
        else:
            agent.rules.on_last_night = self._presume
        self._socket = ControlSocket(interface, pfc.ETHERTYPE, pfc.DESTINATION, bypass=True)
        self.received = Received(link_bps)
        self.originated = Originated(self._socket.address, link_bps, self.received.counters)
        self._shut: frozenset[int] = frozenset()
        self._nodes: dict[int, int] = {}
        self._commands: deque[int] = deque(maxlen=COMMANDS_KEPT)
        self._command, self._answer = 0, Answer.DONE
        self._report_ns = 0
        self._due_ns: int | None = None
        self.handlers = {PfcSettings: self._on_settings, PfcPause: self._on_pause}
        self.descriptors = {self._socket.fileno(): self._on_frames}
        if self._reflex is not None:
            self._reflex.obey(self._socket.fileno())

    # -- what arrives ---------------------------------------------------------------------------------------------------

    def _on_frames(self, now_ns: int) -> None:
        for taken in self._reflex.frames() if self._reflex is not None else ():
            self.received.receive(taken, now_ns)
        for _ in range(FRAMES_AT_ONCE):
            frame = self._socket.receive()
            if frame is None:
                break
            if self._nic is None:
                self.received.receive(frame, now_ns)  # `advance` was called just now, if anything was due
        self._act()

    def _act(self) -> None:
        """Shuts and frees what changed since the last time, and works out when to be called next: that is asked often."""
        paused = self.received.paused
        if paused != self._shut:
            before, self._shut = self._shut, paused
            if new := paused - before:
                self._agent.rules.shut(Rule.PAUSE, new)
            if over := before - paused:
                self._agent.rules.free(Rule.PAUSE, over)
        dues = (self.received.next_due_ns(), self.originated.next_due_ns())  # after what is urgent
        self._due_ns = min((due for due in dues if due is not None), default=None)
        if self._reflex is not None:
            received = self.received
            muted = [priority for priority in range(CLASSES) if received.watchdog.muted(priority)]
            self._reflex.tell(paused, muted, received.settings.accept_from)

    def _presume(self) -> None:
        """A pause that comes later than the night is long must not leave the class open to its next owner."""
        now_ns = self._clock()
        self.received.presume(now_ns + min(PRESUMED_NS, pfc.longest_ns(self.received.link_bps)), now_ns)
        self._act()

    def _on_settings(self, message: PfcSettings, now_ns: int) -> None:
        storm = StormSettings(message.detection_ns, message.restoration_ns, message.action)
        settings = PauseSettings(frozenset(message.accept_from), storm)
        if settings != self.received.settings:
            self.received.take(settings)
            self.originated.watchdog.settings = storm
            self._act()
        nodes = dict(message.nodes)
        if nodes != self._nodes:
            self._nodes = nodes
            self._agent.rules.map(nodes, Rule.PAUSE)

    # -- what is sent ---------------------------------------------------------------------------------------------------

    def _on_pause(self, message: PfcPause, now_ns: int) -> None:
        if message.command not in self._commands:
            self._commands.append(message.command)
            self._command, self._answer = message.command, self._obey(message, now_ns)
            self._act()
        self._report(now_ns)

    def _obey(self, message: PfcPause, now_ns: int) -> Answer:
        classes = classes_of(message.classes)
        if not message.duration_ns:
            self._send(self.originated.resume(classes, now_ns))
            return Answer.DONE
        self._storms(self._originate(now_ns), "sent")
        self._send(self.originated.pause(classes, message.duration_ns, now_ns) if classes else ())
        return Answer.DONE if self.originated.paused.issuperset(classes) else Answer.STORM

    def _send(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            self._socket.send(frame)

    def _originate(self, now_ns: int) -> list[Change]:
        frames, changes = self.originated.advance(now_ns)
        self._send(frames)
        return changes

    # -- what is due ----------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        """See Part."""
        if not self._agent.member:
            return self._due_ns
        return self._report_ns if self._due_ns is None else min(self._report_ns, self._due_ns)

    def advance(self, now_ns: int) -> None:
        """See Part."""
        if self._due_ns is not None and now_ns >= self._due_ns:
            changes, sent = self.received.advance(now_ns), self._originate(now_ns)
            self._act()
            self._storms(changes, "received")
            self._storms(sent, "sent")
        if now_ns >= self._report_ns and self._agent.member:
            self._report(now_ns)

    def _storms(self, changes: Iterable[Change], which: str) -> None:
        for change in changes:
            what = "has a storm" if change.began else "has no storm any more"
            log.warning("class %d %s of pauses %s", change.priority, what, which)
            self._report_ns = 0  # at once

    def _report(self, now_ns: int) -> None:
        self._report_ns = now_ns + REPORT_NS
        if not self._agent.member:
            return
        watchdogs = (self.received.watchdog, self.originated.watchdog)
        strangers = self.received.bad["partner"]
        self._agent.send(
            PfcReport(
                self._command,
                self._answer,
                Mode.SOFTWARE if self._nic is None else Mode.NIC,
                class_mask(self.received.paused),
                class_mask(priority for priority in range(CLASSES) if any(dog.storming(priority) for dog in watchdogs)),
                self.received.bad.total() - strangers,
                strangers,
                tuple(
                    PfcClass(row.received, row.sent, row.refused, self.received.paused_ns(priority, now_ns), row.storms)
                    for priority, row in enumerate(self.received.counters)
                ),
            )
        )

    # -- membership, and the end ----------------------------------------------------------------------------------------

    def new_leader(self, now_ns: int) -> None:
        """See Part: its commands and nodes are numbered anew."""
        self._nodes = {}
        self._agent.rules.map({}, Rule.PAUSE)
        self._commands.clear()
        self._command, self._answer = 0, Answer.DONE

    def released(self, now_ns: int) -> None:
        """See Part. What the leader had us say ends; the partner's next pause is obeyed again: it is not the leader's."""
        self.received.release(now_ns)
        self._shut = frozenset()
        self._agent.rules.free(Rule.PAUSE, range(CLASSES))
        if paused := self.originated.paused:
            self._send(self.originated.resume(sorted(paused), now_ns))
        self._act()

    def repair(self) -> list[str]:
        """See Part. What a NIC was set to is not ours to put back: it is told."""
        if self._nic is None:
            return []
        for line in self._nic.changes():
            log.warning("%s", line)
        return self._nic.classes.repair()

    def close(self) -> None:
        """Frees our queues and the partner's."""
        self.released(self._clock())
        if self._reflex is not None:
            self._reflex.obey(-1)
        self._socket.close()
        if self._nic is not None:
            self._nic.classes.close()
