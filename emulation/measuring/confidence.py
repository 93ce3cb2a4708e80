"""How sure a measurement is: what disturbed it, which figures that can have changed, and what holds all the same. Pure.

Every disturbance has two bounds: the share of the measured time in which something may have been disturbed, and how long
something waited. A goodput is off by at most what the link carries in that share of the time, a round trip by at most the
longest wait. A conclusion holds if its margin is larger than the bounds of the figures that it compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from emulation.measuring.fidelity import MAX_LATE_P99_NS, MAX_STEAL, MAX_SWITCH_WAIT, MIN_IDLE, Fidelity
from emulation.measuring.measure import percentile


class Level(StrEnum):
    """How far to trust figures, best first."""

    EXACT = "exact"
    """Virtual time: nothing waits for a processor."""
    GOOD = "good"
    """Real time, and nothing was disturbed beyond its limit."""
    INDICATIVE = "indicative"
    """Something was disturbed: conclusions with a larger margin hold."""
    POOR = "poor"
    """Something may have been disturbed for more than half of the time."""


MAX_OVERRUNS = 0.001
"""Of the frames: those that the emulated switch lost because it was late."""
MAX_LATE_SLOTS = 0.05
MAX_LINK_ERROR, TOLD_LINK_ERROR = 1.0, 0.1
"""Of the spacing of a link's packets, at p99.9: a whole packet's time, as in Mininet-HiFi's runs at 1 Gb/s, which it counts as
broken; and what it found good at 100 Mb/s."""
MAX_LATE_START_NS = 5_000_000
"""A run whose flows start later than this was not open loop."""
MAX_PROCESS_WAIT = 0.2
"""Of the time: how long a process of the experiment may wait for a processor."""
MOST_SHARE = 0.5
WORTH_TELLING = 0.01
ORDER = tuple(Level)
EVERYTHING = "every figure: in virtual time nothing waits for a processor"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that was disturbed."""

    text: str
    share: float
    """Of the measured time, at most."""
    wait_ns: float = 0.0
    beyond: bool = True
    """Whether it is beyond its limit."""
    notable: bool = False
    """Whether to tell of it in any case."""
    figures: tuple[str, ...] = ("goodput",)
    """Which figures it may have changed: keys of `DIRECTIONS`."""


DIRECTIONS = {
    "goodput": "goodput: off by at most {share:.1%} of the link's rate, most likely too low",
    "ping": "ping and completion times: too long, by at most {wait:.1f} ms at a time",
    "drops": "drops at the port: too few, since frames were lost before they came there",
    "late": "drops and ping times: too many and too long, since slots overlapped",
    "delay": "delays: too long",
    "missed": "longest delays: too short, since a command without effect has none",
    "queue": "queues and ping times: off by about a packet's time",
}


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure the figures of a run are."""

    level: Level
    disturbances: tuple[Disturbance, ...] = ()
    holds: str = ""

    @property
    def share(self) -> float:
        """Of the time: how long something may have been disturbed, at most. The bound of a goodput, in parts of the rate."""
        return min(1.0, sum(one.share for one in self.disturbances))

    @property
    def wait_ms(self) -> float:
        """How long something waited at most: the bound of a round trip."""
        return max((one.wait_ns for one in self.disturbances), default=0.0) / 1e6

    def to_dict(self) -> dict[str, Any]:
        """For a record; `bounds` say by how much its figures can be off."""
        told = [one for one in self.disturbances if one.beyond or one.notable or one.share >= WORTH_TELLING]
        names = dict.fromkeys(name for one in told for name in one.figures)
        bounds = {"share": self.share, "wait": self.wait_ms}
        off = f"{self.share:.1%} of the link's rate for a goodput, {self.wait_ms:.1f} ms for a ping"
        default = f"every difference that is larger than what the machine may have changed: {off}"
        return {
            "level": self.level.value,
            "disturbed": [one.text for one in told],
            "affected": [DIRECTIONS[name].format(**bounds) for name in names],
            "holds": self.holds or (EVERYTHING if self.level is Level.EXACT else default),
            "bounds": {"goodput_share": round(self.share, 4), "wait_ms": round(self.wait_ms, 3)},
        }


def judge(
    fidelity: Fidelity | None,
    *,
    duration_ns: int = 0,
    switch_wait_ns: int = 0,
    overruns: int = 0,
    frames: int = 0,
    frames_each: float = 1.0,
    slots: int = 0,
    late_slots: int = 0,
    late_start_ns: int = 0,
    waits: Mapping[str, int] | None = None,
    links: Mapping[str, float] | None = None,
    busy: bool = False,
    more: Sequence[Disturbance] = (),
) -> Confidence:
    """What a run's machine did to its figures.

    Args:
        fidelity: None: the run was not watched.
        duration_ns: of the measurement.
        switch_wait_ns: how long the emulated switch was ready to run and had no processor.
        overruns: frames that the emulated switch lost because it was late; `frames`: all that reached the observed ports;
            `frames_each`: how many frames' worth of goodput one lost frame costs.
        late_slots: of `slots`, those that a host began too late.
        late_start_ns: how late flows started (p99).
        waits: how long each process (by its name in a sentence) was ready to run and had no processor.
        links: for each link, the error of its packets' spacing at p99.9, as a fraction of the spacing.
        busy: whether a process polls, so that its processor is never idle.
        more: disturbances that only the experiment knows.
    """
    if fidelity is None:
        unwatched = Disturbance("the run ended before its machine was looked at", 1.0)
        return _concluded((unwatched, *more))
    if fidelity.virtual:
        lost = (*_switch(0, duration_ns, overruns, frames, frames_each), *more)
        return _concluded(lost) if lost else Confidence(Level.EXACT)
    found = [
        *_processors(fidelity, busy),
        *_switch(switch_wait_ns, duration_ns, overruns, frames, frames_each),
        *_schedule(slots, late_slots, late_start_ns),
        *_processes(waits or {}, duration_ns),
        *_links(links or {}),
    ]
    return _concluded((*found, *more))


def _concluded(found: tuple[Disturbance, ...]) -> Confidence:
    level = Level.INDICATIVE if any(one.beyond for one in found) else Level.GOOD
    if level is Level.INDICATIVE and sum(one.share for one in found) > MOST_SHARE:
        level = Level.POOR
    return Confidence(level, found)


def _processors(fidelity: Fidelity, busy: bool) -> Iterable[Disturbance]:
    if fidelity.steal > 0:
        text = f"the machine's host took {fidelity.steal:.1%} of the processors"
        share = min(1.0, fidelity.steal * fidelity.processors)
        yield Disturbance(text, share, 0, fidelity.steal > MAX_STEAL, figures=("goodput", "ping"))
    late = fidelity.late_ns
    p99 = percentile(late, 99)
    if p99 is not None:
        share = sum(one > MAX_LATE_P99_NS for one in late) / len(late)
        text = f"a timer of real-time priority fired up to {max(late) / 1e6:.1f} ms late, {p99 / 1e6:.2f} ms at p99"
        yield Disturbance(text, share, max(late), p99 > MAX_LATE_P99_NS, figures=("goodput", "ping"))
    if fidelity.idle < MIN_IDLE and not busy:
        # What waited is known of the timer, the switch and the processes; this says why.
        text = f"the processors were {fidelity.idle:.1%} idle, so programs waited for each other"
        yield Disturbance(text, 0.0 if late else 1.0, 0, True, figures=("goodput", "ping"))


def _switch(wait_ns: int, duration_ns: int, overruns: int, frames: int, frames_each: float) -> Iterable[Disturbance]:
    if duration_ns and wait_ns:
        share = wait_ns / duration_ns
        text = f"the switch waited {wait_ns / 1e6:.1f} ms for a processor, {share:.1%} of the time"
        yield Disturbance(text, min(1.0, share), wait_ns, share > MAX_SWITCH_WAIT, figures=("goodput", "ping"))
    if overruns:
        share = overruns / max(overruns, frames)
        text = f"the switch lost {overruns} frames of {frames + overruns} because it was late"
        yield Disturbance(text, min(1.0, share * frames_each), 0, share > MAX_OVERRUNS, figures=("goodput", "drops"))


def _schedule(slots: int, late_slots: int, late_start_ns: int) -> Iterable[Disturbance]:
    if late_slots:
        share = late_slots / max(1, slots)
        text = f"{late_slots} of {slots} slots began late"
        yield Disturbance(text, min(1.0, share), 0, share > MAX_LATE_SLOTS, figures=("goodput", "late"))
    if late_start_ns > MAX_LATE_START_NS:
        text = f"flows started up to {late_start_ns / 1e6:.1f} ms late (p99)"
        yield Disturbance(text, 0.0, late_start_ns, figures=("ping",))


def _processes(waits: Mapping[str, int], duration_ns: int) -> Iterable[Disturbance]:
    """The process that waited longest: the others' waits fall into much the same time."""
    if not waits or not duration_ns:
        return
    name, wait_ns = max(waits.items(), key=lambda item: item[1])
    share = wait_ns / duration_ns
    text = f"{name} waited {wait_ns / 1e6:.0f} ms for a processor, {share:.1%} of the time"
    yield Disturbance(text, min(1.0, share), 0, share > MAX_PROCESS_WAIT, figures=("goodput", "ping"))


def _links(links: Mapping[str, float]) -> Iterable[Disturbance]:
    """The link whose spacing was worst."""
    if links:
        name, error = max(links.items(), key=lambda item: item[1])
        text = f"packets of the link {name} left up to {error:.1%} of their spacing too early or too late (p99.9)"
        yield Disturbance(text, 0.0, 0, error > MAX_LINK_ERROR, error > TOLD_LINK_ERROR, ("queue",))


# -- records ----------------------------------------------------------------------------------------------------------


def level_of(record: Mapping[str, Any]) -> Level:
    """The level of a record that holds `confidence`; of an older one, by its `valid`."""
    if "confidence" in record:
        return Level(record["confidence"]["level"])
    return Level.GOOD if record.get("valid") else Level.INDICATIVE


def sure(record: Mapping[str, Any]) -> bool:
    """Whether nothing disturbed a record's figures beyond its limit."""
    return level_of(record) in (Level.EXACT, Level.GOOD)


def reasons(record: Mapping[str, Any]) -> list[str]:
    """What was disturbed, in sentences; of an older record, that it was."""
    if "confidence" in record:
        return list(record["confidence"]["disturbed"])
    return [] if sure(record) else ["the machine did not keep up"]


def together(parts: Mapping[str, Mapping[str, Any]], holds: str = "") -> dict[str, Any]:
    """The confidence of a record of several runs, from the records that hold each run's, by the run's name.

    `holds`: the conclusion that still holds; empty: by the bounds of the runs.
    """
    if not parts:
        return Confidence(Level.POOR, holds=holds or "nothing: no run was measured").to_dict()
    level = max((level_of(part) for part in parts.values()), key=ORDER.index)
    said = [part["confidence"] for part in parts.values() if "confidence" in part]
    share = max((one["bounds"]["goodput_share"] for one in said), default=0.0)
    wait_ms = max((one["bounds"]["wait_ms"] for one in said), default=0.0)
    undisturbed = sum(sure(part) for part in parts.values())
    default = "every difference that is larger than the bounds of its figures"
    if undisturbed < len(parts):
        default += f"; {undisturbed} of {len(parts)} runs were undisturbed"
    kinds = dict.fromkeys(_kind(text) for part in parts.values() if not sure(part) for text in _affected(part))
    bounds = {"share": share, "wait": wait_ms}
    return {
        "level": level.value,
        "disturbed": [f"{name}: {text}" for name, part in parts.items() for text in reasons(part) if not sure(part)],
        "affected": [text.format(**bounds) for text in DIRECTIONS.values() if _kind(text) in kinds],
        "holds": holds or (EVERYTHING if level is Level.EXACT else default),
        "bounds": {"goodput_share": share, "wait_ms": wait_ms},
    }


def _affected(record: Mapping[str, Any]) -> list[str]:
    return list(record["confidence"]["affected"]) if "confidence" in record else []


def _kind(affected: str) -> str:
    """Of a text of `DIRECTIONS`: which figures it is about."""
    return affected.partition(":")[0]


# -- conclusions ------------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """A figure, and by how much it can be off."""

    value: float
    off: float


def goodput(record: Mapping[str, Any], value_mbps: float, rate_mbps: float) -> Bound:
    """A goodput of a run whose record holds its confidence: off by what the link carries in the disturbed time."""
    if "confidence" in record:
        return Bound(value_mbps, record["confidence"]["bounds"]["goodput_share"] * rate_mbps)
    return Bound(value_mbps, 0.0 if sure(record) else rate_mbps)


def margin(more: Bound, less: Bound) -> float:
    """By how much the first figure is larger at least. Positive: that it is larger holds whatever the disturbance did."""
    return more.value - more.off - (less.value + less.off)
