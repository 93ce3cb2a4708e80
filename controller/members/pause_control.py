"""PFC at the hosts: how agents enforce pauses, which pauses they are to originate, and what they counted.

Sends only through what it is given. The settings go to all members at the start and every second; a command goes to one host,
which is a member by each of its interfaces, every `AGAIN_NS`, until the member's report names it or `GIVE_UP_NS` is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.event_budget import EventBudget
from controller.members.part import Part
from controller.members.registry import Member, Members
from protocol.bodies.pfc import NODES_MAX, Action, classes_of
from protocol.bodies.text import printable
from protocol.messages import HEARTBEAT_MAC, Message, PfcPause, PfcReport, PfcSettings
from protocol.timers import REFRESH_NS, Timers
from protocol.units import MILLISECOND_NS

AGAIN_NS = 20_000_000
GIVE_UP_NS = 1_000_000_000
ANSWERS_KEPT = 8


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that its member has not answered yet."""

    member: Member
    message: PfcPause
    until_ns: int


@dataclass(slots=True)
class _Host:
    """What one member reported of its pauses, and its answers to commands, by number."""

    report: PfcReport | None = None
    answers: dict[int, str] = field(default_factory=dict)


class PauseControl(Part):
    """Commands pauses, and keeps what members report of them.

    Args:
        write: takes lines for the store bridge, {"event": [kind, severity, text]}.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        timers: Timers,
        send: Callable[[Message, bytes], None],
        write: Callable[[dict[str, Any]], object],
    ) -> None:
        self.handlers = {PfcReport: self._on_report}
        self.documents = {"pfc": self.take}
        self.periodic = ((REFRESH_NS, self.advance),)
        self._settings = settings
        self._members = members
        self._timers = timers
        self._send = send
        self._write = write
        self._hosts: dict[int, _Host] = {}
        self._seen: set[int] | None = None
        self._pending: dict[tuple[int, bytes], _Command] = {}
        """By the command's number, and the MAC address of the member that is to answer it."""
        self._events = EventBudget()

    # -- how agents obey ------------------------------------------------------------------------------------------------

    def advance(self, now_ns: int) -> None:
        """Sends all members the settings in full."""
        settings = self._settings
        nodes = self._members.by_name() if settings.pfc_classes else {}
        self._send(
            PfcSettings(
                Action[settings.pfc_action.upper()],
                settings.pfc_detection_ns,
                settings.pfc_restoration_ns,
                tuple(bytes.fromhex(mac.replace(":", "")) for mac in settings.pfc_accept_from),
                tuple((node, priority) for host, priority in settings.pfc_classes for node in nodes.get(host, ()))[:NODES_MAX],
            ),
            HEARTBEAT_MAC,
        )

    # -- what they are to originate -------------------------------------------------------------------------------------

    def take(self, commands: Mapping[Any, Mapping[str, Any]], now_ns: int) -> None:
        """Takes the commands that the store has, by number. Commands from before our term were the earlier leader's to send.
        One that makes no sense is told, and not obeyed."""
        numbers = {int(number): command for number, command in commands.items()}
        before, self._seen = self._seen, set(numbers)
        for number in sorted(numbers.keys() - before) if before is not None else ():
            try:
                self._begin(number, numbers[number], now_ns)
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                why = printable(f"{type(error).__name__}: {error}")
                self._event("warning", f"command {number} is wrong, nothing is paused; give it by `baton pfc` ({why})")

    def _begin(self, number: int, command: Mapping[str, Any], now_ns: int) -> None:
        members = [member for member in self._members.present() if member.name == command["host"]]
        if not members:
            self._event("warning", f"no member is called {command['host']}: nothing is paused")
            return
        message = PfcPause(number, int(command["classes"]), int(command["duration_ns"]))
        able = [member for member in members if (host := self._hosts.get(member.node)) is not None and host.report is not None]
        for member in able or members:
            self._pending[number, member.mac] = _Command(member, message, now_ns + GIVE_UP_NS)
            self._direct(number, member.mac, now_ns)

    def _direct(self, number: int, mac: bytes, now_ns: int) -> None:
        command = self._pending.get((number, mac))
        if command is None:
            return
        if now_ns >= command.until_ns:
            self._answered(number, mac, "unanswered")
            return
        try:
            self._send(command.message, mac)
        except (ValueError, OverflowError):  # not a pause that there can be
            del self._pending[number, mac]
            raise
        self._timers.at(now_ns + AGAIN_NS, lambda then_ns: self._direct(number, mac, then_ns))

    def _answered(self, number: int, mac: bytes, answer: str) -> None:
        command = self._pending.pop((number, mac))
        if (here := self._members.at(mac)) is not None:  # else nothing is kept of it
            answers = self._hosts.setdefault(here.node, _Host()).answers
            answers[number] = answer
            for old in sorted(answers)[:-ANSWERS_KEPT]:
                del answers[old]
        classes = ", ".join(map(str, classes_of(command.message.classes)))
        duration_ms = command.message.duration_ns / MILLISECOND_NS
        done = f"classes {classes} of its link partner " + (f"paused for {duration_ms:g} ms" if duration_ms else "resumed")
        self._event("info" if answer == "done" else "warning", f"{command.member.name}: {done}: {answer}")

    # -- what they counted ----------------------------------------------------------------------------------------------

    def _on_report(self, member: Member, message: PfcReport, now_ns: int) -> None:
        host = self._hosts.setdefault(member.node, _Host())
        before = set(classes_of(host.report.storming)) if host.report is not None else set()
        storming = set(classes_of(message.storming))
        host.report = message
        for priority in sorted(storming - before):
            self._reported("warning", member, f"storm of pauses in class {priority}; {self._settings.pfc_action}", now_ns)
        for priority in sorted(before - storming):
            self._reported("info", member, f"the storm of pauses in class {priority} is over", now_ns)
        if (message.command, member.mac) in self._pending:  # it may have left and registered anew meanwhile
            self._answered(message.command, member.mac, message.answer.name.lower())

    def left(self, node: int, now_ns: int) -> None:
        self._hosts.pop(node, None)

    def status(self) -> dict[str, Any]:
        """The action and the times, which say how long a pause may last before it counts as a storm."""
        settings = self._settings
        times = {"detection_ns": list(settings.pfc_detection_ns), "restoration_ns": list(settings.pfc_restoration_ns)}
        return {"pfc": {"action": settings.pfc_action, "accept_from": list(settings.pfc_accept_from), **times}}

    def of_member(self, node: int) -> dict[str, Any]:
        """Its classes' counters under `pfc`, empty for a host that does not enforce pauses; the rest under `pfc_state`."""
        host = self._hosts.get(node, _Host())
        answers = {"answers": {str(number): answer for number, answer in host.answers.items()}}
        report = host.report
        if report is None:
            return {"pfc": [], "pfc_state": answers}
        rows = [
            {
                "class": priority,
                "received": row.received,
                "sent": row.sent,
                "refused": row.refused,
                "paused_ms": row.paused_ns / MILLISECOND_NS,
                "storms": row.storms,
            }
            for priority, row in enumerate(report.classes)
        ]
        state = {
            "mode": report.mode.name.lower(),
            "paused": classes_of(report.paused),
            "storming": classes_of(report.storming),
            "bad": report.bad,
            "strangers": report.strangers,
        }
        return {"pfc": rows, "pfc_state": {**state, **answers}}

    def _reported(self, severity: str, member: Member, text: str, now_ns: int) -> None:
        """Tells operators of an event, unless this member has reported too many."""
        if (told := self._events.text(member.name, f"{member.name}: {text}", now_ns)) is not None:
            self._event(severity, told)

    def _event(self, severity: str, text: str) -> None:
        self._write({"event": ["pfc", severity, text]})
