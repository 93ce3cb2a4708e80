"""An agent's part that honours and originates pauses of IEEE 802.1Qbb and IEEE 802.3x. An edge: a packet socket.

In software mode, received frames block and unblock classes of the host's queues through the rules
(`agents/permission/rules.py`), so a pause neither loses nor undoes a slot or a condition. In NIC mode the interface honours
pauses before the agent could see them, and this part only originates them. In both modes the sent frames bypass the queues: a
pause must not wait behind the traffic that it is to stop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from agents.host_control.pause import OriginatedPauses, PauseSettings, ReceivedPauses
from agents.host_control.pause_watchdog import StormChange, StormSettings
from agents.host_control.pfc_nic import NicPfc
from agents.loop.part import Part, Surroundings
from agents.permission.rules import Rule
from agents.reflex.reflex import Reflex
from protocol import pfc
from protocol.bodies.pfc import Mode, PauseResult, PfcClass, class_mask, classes_of
from protocol.link import ControlSocket
from protocol.messages import PfcPause, PfcReport, PfcSettings
from protocol.pfc import CLASSES

log = logging.getLogger("baton.pfc")

REPORT_NS = 200_000_000
FRAMES_AT_ONCE = 64
"""The part reads at most this many frames in a turn, so that a flood leaves the rest of the agent its turns."""
COMMANDS_KEPT = 64
ASSUMED_PAUSE_NS = 50_000_000
"""When a week by PFC is over, an open class counts as paused for this time unless a frame opens it."""


class PfcPart(Part):
    """Pauses on one interface.

    Args:
        clock: monotonic, ns.
        nic: the interface, if it honours pauses itself; otherwise this part does.
        reflex: changes gates at once while the agent waits; None if the host has no reflex.

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
            agent.rules.subscribe(mapping=nic.classes.assign)
        else:
            agent.rules.subscribe(last_night=self._assume_paused)
        self._socket = ControlSocket(interface, pfc.ETHERTYPE, pfc.DESTINATION, bypass=True)
        self.received = ReceivedPauses(link_bps)
        self.originated = OriginatedPauses(self._socket.address, link_bps, self.received.counters)
        self._blocked: frozenset[int] = frozenset()
        self._nodes: dict[int, int] = {}
        self._commands: deque[int] = deque(maxlen=COMMANDS_KEPT)
        self._newest: dict[int, int] = {}
        """The newest command about each class: an earlier one that was lost, and is repeated, must not undo it."""
        self._command, self._answer = 0, PauseResult.DONE
        self._report_ns = 0
        self._due_ns: int | None = None
        self.handlers = {PfcSettings: self._on_settings, PfcPause: self._on_pause}
        self.descriptors = {self._socket.fileno(): self._on_frames}
        if self._reflex is not None:
            self._reflex.listen(self._socket.fileno())

    # -- received frames -----------------------------------------------------------------------------------------------

    def _on_frames(self, now_ns: int) -> None:
        for taken in self._reflex.take_frames() if self._reflex is not None else ():
            self.received.receive(taken, now_ns)
        for _ in range(FRAMES_AT_ONCE):
            frame = self._socket.receive()
            if frame is None:
                break
            if self._nic is None:
                self.received.receive(frame, now_ns)  # the agent has called `advance` if anything was due
        self._apply()

    def _apply(self) -> None:
        """Blocks and unblocks the classes that changed, and computes the next due time, which the agent reads often."""
        paused = self.received.paused
        if paused != self._blocked:
            before, self._blocked = self._blocked, paused
            if new := paused - before:
                self._agent.rules.block(Rule.PAUSE, new)
            if over := before - paused:
                self._agent.rules.unblock(Rule.PAUSE, over)
        dues = (self.received.next_due_ns(), self.originated.next_due_ns())  # after the urgent changes
        self._due_ns = min((due for due in dues if due is not None), default=None)
        if self._reflex is not None:
            received = self.received
            ignored = [priority for priority in range(CLASSES) if received.watchdog.ignored(priority)]
            self._reflex.set_pauses(paused, ignored, received.settings.accept_from)

    def _assume_paused(self) -> None:
        """Pauses all classes at the last night: a late pause frame must not leave a class open to its next owner."""
        now_ns = self._clock()
        self.received.assume_paused(now_ns + min(ASSUMED_PAUSE_NS, pfc.longest_ns(self.received.link_bps)), now_ns)
        self._apply()

    def _on_settings(self, message: PfcSettings, now_ns: int) -> None:
        storm = StormSettings(message.detection_ns, message.restoration_ns, message.action)
        settings = PauseSettings(frozenset(message.accept_from), storm)
        if settings != self.received.settings:
            self.received.configure(settings)
            self.originated.watchdog.settings = storm
            self._apply()
        nodes = dict(message.nodes)
        if nodes != self._nodes:
            self._nodes = nodes
            self._agent.rules.map_classes(nodes, Rule.PAUSE)

    # -- sent frames ---------------------------------------------------------------------------------------------------

    def _on_pause(self, message: PfcPause, now_ns: int) -> None:
        if message.command not in self._commands:
            self._commands.append(message.command)
            self._command, self._answer = message.command, self._execute(message, now_ns)
            self._apply()
        self._report(now_ns)

    def _execute(self, message: PfcPause, now_ns: int) -> PauseResult:
        classes = [one for one in classes_of(message.classes) if self._newest.get(one, -1) < message.command]
        self._newest |= dict.fromkeys(classes, message.command)
        if not message.duration_ns:
            self._send(self.originated.resume(classes, now_ns))
            return PauseResult.DONE
        self._log_storms(self._originate(now_ns), "sent")
        self._send(self.originated.pause(classes, message.duration_ns, now_ns) if classes else ())
        return PauseResult.DONE if self.originated.paused.issuperset(classes) else PauseResult.STORM

    def _send(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            self._socket.send(frame)

    def _originate(self, now_ns: int) -> list[StormChange]:
        frames, changes = self.originated.advance(now_ns)
        self._send(frames)
        return changes

    # -- timers --------------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        if not self._agent.member:
            return self._due_ns
        return self._report_ns if self._due_ns is None else min(self._report_ns, self._due_ns)

    def advance(self, now_ns: int) -> None:
        if self._due_ns is not None and now_ns >= self._due_ns:
            changes, sent = self.received.advance(now_ns), self._originate(now_ns)
            self._apply()
            self._log_storms(changes, "received")
            self._log_storms(sent, "sent")
        if now_ns >= self._report_ns and self._agent.member:
            self._report(now_ns)

    def _log_storms(self, changes: Iterable[StormChange], which: str) -> None:
        for change in changes:
            what = "has a storm" if change.began else "has no storm any more"
            log.warning("class %d %s of pauses %s", change.priority, what, which)
            self._report_ns = 0  # report at once

    def _report(self, now_ns: int) -> None:
        self._report_ns = now_ns + REPORT_NS
        if not self._agent.member:
            return
        watchdogs = (self.received.watchdog, self.originated.watchdog)
        wrong_partner = self.received.bad["partner"]
        self._agent.send(
            PfcReport(
                self._command,
                self._answer,
                Mode.SOFTWARE if self._nic is None else Mode.NIC,
                class_mask(self.received.paused),
                class_mask(priority for priority in range(CLASSES) if any(dog.storming(priority) for dog in watchdogs)),
                self.received.bad.total() - wrong_partner,
                wrong_partner,
                tuple(
                    PfcClass(row.received, row.sent, row.refused, self.received.paused_ns(priority, now_ns), row.storms)
                    for priority, row in enumerate(self.received.counters)
                ),
            )
        )

    # -- membership, and the end ---------------------------------------------------------------------------------------

    def new_leader(self, now_ns: int) -> None:
        """Forgets commands and classes of the previous leader: the new one numbers commands from the start."""
        self._nodes = {}
        self._agent.rules.map_classes({}, Rule.PAUSE)
        self._commands.clear()
        self._newest.clear()
        self._command, self._answer = 0, PauseResult.DONE

    def released(self, now_ns: int) -> None:
        """Ends all pauses that the leader requested. The partner's next pause counts again: it is not the leader's."""
        self.received.release(now_ns)
        self._blocked = frozenset()
        self._agent.rules.unblock(Rule.PAUSE, range(CLASSES))
        if paused := self.originated.paused:
            self._send(self.originated.resume(sorted(paused), now_ns))
        self._apply()

    def repair(self) -> list[str]:
        """Restores the NIC's filter. It only logs changed PFC settings of the NIC, since the agent did not set them."""
        if self._nic is None:
            return []
        for line in self._nic.changes():
            log.warning("%s", line)
        return self._nic.classes.repair()

    def close(self) -> None:
        """Unblocks the classes of this host and of the partner."""
        self.released(self._clock())
        if self._reflex is not None:
            self._reflex.listen(-1)
        self._socket.close()
        if self._nic is not None:
            self._nic.close()
