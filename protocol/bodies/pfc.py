"""PFC_SETTINGS, PFC_PAUSE and PFC_REPORT: the messages by which the leader sets how members obey and send pauses, and members
report their counters; with layouts and codecs. Pure.

Pauses themselves are frames of IEEE 802.1Qbb and IEEE 802.3x (`protocol/pfc.py`) on one link, without authentication; these
are Baton's own messages about them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Any, NamedTuple

from protocol.pfc import CLASSES
from protocol.wire import Layout

PFC_SETTINGS = Layout(action="B", partner_count="B", node_count="B")
STORM_TIMES = Layout(detection_ns="Q", restoration_ns="Q")
PARTNER = Layout(mac_high="H", mac_low="I")
NODE = Layout(node="I", priority="B")
PFC_PAUSE = Layout(command="Q", classes="B", duration_ns="Q")
PFC_REPORT = Layout(command="Q", answer="B", mode="B", paused="B", storming="B", bad="Q", strangers="Q")
PFC_CLASS = Layout(received="Q", sent="Q", refused="Q", paused_ns="Q", storms="Q")

PARTNERS_MAX, NODES_MAX = 100, 130
"""Both at their maximum fit in a frame."""


@unique
class Action(IntEnum):
    """The reaction to a storm of pauses; `agents/host_control/pause_watchdog.py` explains each."""

    DROP = 0
    FORWARD = 1
    ALERT = 2


@unique
class Mode(IntEnum):
    """What pauses a host's queues."""

    SOFTWARE = 1
    """The agent."""
    NIC = 2
    """The interface; pauses never reach the agent."""


@unique
class PauseResult(IntEnum):
    """The result of a PFC_PAUSE."""

    DONE = 0
    STORM = 1
    """The agent skipped some of the classes, since they have a storm of sent pauses."""


@dataclass(frozen=True, slots=True)
class PfcSettings:
    """Leader to all: the settings of PFC.

    `accept_from` are the MAC addresses whose pauses members obey (none: any link partner). A class that is paused for
    `detection_ns` has a storm, which is over `restoration_ns` after the last pause. `nodes` are (destination node, class) of
    the traffic that is not of class 0.
    """

    action: Action
    detection_ns: tuple[int, ...]
    restoration_ns: tuple[int, ...]
    accept_from: tuple[bytes, ...]
    nodes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PfcPause:
    """Leader to member: pause these classes of your link partner (bit n: class n) for `duration_ns` from now; 0: resume them.

    The leader repeats `command` until a report names it; a member carries out each number once.
    """

    command: int
    classes: int
    duration_ns: int


class PfcClass(NamedTuple):
    """Counters of one class since the agent's start: pauses received, sent and refused; time paused; storms."""

    received: int
    sent: int
    refused: int
    paused_ns: int
    storms: int


@dataclass(frozen=True, slots=True)
class PfcReport:
    """Member to leader: the last PFC_PAUSE and its result, what pauses the queues, the classes that are paused and that have a
    storm now (bit n: class n), the numbers of bad frames and of frames from unauthorised partners, and the counters of the
    eight classes."""

    command: int
    answer: PauseResult
    mode: Mode
    paused: int
    storming: int
    bad: int
    strangers: int
    classes: tuple[PfcClass, ...]


def class_mask(classes: Iterable[int]) -> int:
    """A mask with bit n for class n. Raises ValueError: a class is not from 0 to 7."""
    mask = 0
    for priority in classes:
        if not 0 <= priority < CLASSES:
            raise ValueError(f"class {priority}: write classes from 0 to {CLASSES - 1}")
        mask |= 1 << priority
    return mask


def classes_of(mask: int) -> list[int]:
    """The classes whose bits are set."""
    return [priority for priority in range(CLASSES) if mask >> priority & 1]


def pack_settings(message: PfcSettings) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    partners = message.accept_from
    _check_settings(message)
    times = zip(message.detection_ns, message.restoration_ns, strict=True)
    rows = ((int.from_bytes(mac[:2]), int.from_bytes(mac[2:])) for mac in partners)
    head = PFC_SETTINGS.pack("PfcSettings", int(message.action), len(partners), len(message.nodes))
    head += STORM_TIMES.pack_rows("PfcSettings.times", times) + PARTNER.pack_rows("PfcSettings.accept_from", rows)
    return head + NODE.pack_rows("PfcSettings.nodes", message.nodes)


def unpack_settings(body: bytes) -> PfcSettings:
    """Raises ValueError or struct.error: not such a body."""
    action, partner_count, node_count = PFC_SETTINGS.struct.unpack_from(body)
    partners_at = PFC_SETTINGS.size + CLASSES * STORM_TIMES.size
    nodes_at = partners_at + partner_count * PARTNER.size
    if len(body) != nodes_at + node_count * NODE.size:
        raise ValueError("settings")
    times = list(STORM_TIMES.struct.iter_unpack(body[PFC_SETTINGS.size : partners_at]))
    partners = tuple([body[at : at + PARTNER.size] for at in range(partners_at, nodes_at, PARTNER.size)])
    nodes = tuple([(node, priority) for node, priority in NODE.struct.iter_unpack(body[nodes_at:])])
    detection_ns, restoration_ns = (tuple([row[at] for row in times]) for at in (0, 1))
    message = PfcSettings(Action(action), detection_ns, restoration_ns, partners, nodes)
    _check_settings(message)
    return message


def _check_settings(message: PfcSettings) -> None:
    for name, count, limit in (
        ("accept_from", len(message.accept_from), PARTNERS_MAX),
        ("nodes", len(message.nodes), NODES_MAX),
    ):
        if count > limit:
            raise ValueError(f"PfcSettings.{name}: {count}, at most {limit}")
    class_mask(priority for _, priority in message.nodes)
    for name in ("detection_ns", "restoration_ns"):
        times = getattr(message, name)
        if len(times) != CLASSES or 0 in times:
            raise ValueError(f"PfcSettings.{name}: {times}; must be {CLASSES} times above 0, one for each class")
    if any(len(mac) != PARTNER.size for mac in message.accept_from):
        raise ValueError(f"PfcSettings.accept_from: {message.accept_from}; a MAC address has {PARTNER.size} bytes")


def pack_pause(message: PfcPause) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    return PFC_PAUSE.pack("PfcPause", *PFC_PAUSE.values(message))


def unpack_pause(body: bytes) -> PfcPause:
    """Raises struct.error: not such a body."""
    return PfcPause(*PFC_PAUSE.struct.unpack(body))


def pack_report(message: PfcReport) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if len(message.classes) != CLASSES:
        raise ValueError(f"PfcReport.classes: {len(message.classes)} classes, must be {CLASSES}")
    head = PFC_REPORT.pack("PfcReport", *map(int, PFC_REPORT.values(message)))
    return head + PFC_CLASS.pack_rows("PfcReport.classes", message.classes)


def unpack_report(body: bytes) -> PfcReport:
    """Raises ValueError or struct.error: not such a body."""
    if len(body) != PFC_REPORT.size + CLASSES * PFC_CLASS.size:
        raise ValueError("report")
    command, answer, mode, paused, storming, bad, strangers = PFC_REPORT.struct.unpack_from(body)
    rows: list[tuple[Any, ...]] = list(PFC_CLASS.struct.iter_unpack(body[PFC_REPORT.size :]))
    classes = tuple([PfcClass(*row) for row in rows])
    return PfcReport(command, PauseResult(answer), Mode(mode), paused, storming, bad, strangers, classes)
