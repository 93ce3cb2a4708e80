"""What a siege shows: its figures beside what is wanted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from emulation.measuring.measure import percentile

GOODPUT, LATE, PAGE_MS, PINGS = 0.9, 0.05, 500.0, 0.02
GROWTH_MB, SLOPE_MB_MIN = 24.0, 6.0
"""How much a process may grow in a siege, and how fast it may still grow in its second half: bounded tables fill."""
DESCRIPTORS = 8
"""How many more a process may have some seconds after the siege than before."""
SETTLED = 0.5
"""The part of a siege after which memory is judged by its slope."""


class Sample(NamedTuple):
    """One process at one time."""

    at_s: float
    resident_mb: float
    descriptors: int
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one process in a siege."""

    begin_mb: float
    end_mb: float
    slope_mb_min: float

    @property
    def flat(self) -> bool:
        """Whether it fills what is bounded, and no more."""
        return self.end_mb - self.begin_mb <= GROWTH_MB and self.slope_mb_min <= SLOPE_MB_MIN


def slope_mb_min(samples: Sequence[Sample]) -> float:
    """By how much memory grows in a minute: the line through the samples with the least squares. 0 for fewer than two."""
    if len({sample.at_s for sample in samples}) < 2:
        return 0.0
    middle = sum(sample.at_s for sample in samples) / len(samples)
    mean = sum(sample.resident_mb for sample in samples) / len(samples)
    above = sum((sample.at_s - middle) * (sample.resident_mb - mean) for sample in samples)
    return 60 * above / sum((sample.at_s - middle) ** 2 for sample in samples)


def memory(samples: Sequence[Sample]) -> Memory:
    """Of at least one sample, in order."""
    first, last = samples[0], samples[-1]
    settled = [sample for sample in samples if sample.at_s >= first.at_s + SETTLED * (last.at_s - first.at_s)]
    return Memory(first.resident_mb, last.resident_mb, slope_mb_min(settled))


def processor_share(samples: Sequence[Sample]) -> float:
    """The part of a processor that a process took between its first and its last sample."""
    first, last = samples[0], samples[-1]
    return round(share(last.cpu_s - first.cpu_s, last.at_s - first.at_s), 4)


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The counts that have grown, by so much; a count that begins again counts from 0."""
    rows = {name: count - before.get(name, 0) if count >= before.get(name, 0) else count for name, count in after.items()}
    return {name: count for name, count in sorted(rows.items()) if count}


def times_ms(loads: Iterable[float]) -> dict[str, float | int | None]:
    """{"loads", "p50", "p99", "max"} of page loads in ms."""
    values = list(loads)
    slowest = max(values, default=None)
    return {"loads": len(values), "p50": percentile(values, 50), "p99": percentile(values, 99), "max": slowest}


def share(part: float, whole: float) -> float:
    """part / whole; 0 of nothing."""
    return part / whole if whole else 0.0


ARRIVED: Mapping[str, tuple[str, ...]] = {
    "lldp": ("lldp_forged", "ports_muted"),
    "macs": ("hosts_not_learnt", "ports_muted"),
    "theft": ("moves_refused", "moves_not_asked", "ports_muted"),
    "control": ("tag", "length", "malformed", "not_ours"),
    "epochs": ("future_epoch", "forged_coordinator"),
    "sequence": ("ahead", "replay"),
    "names": ("malformed",),
    "openflow": ("malformed_messages",),
    "logins": ("logins_refused",),
}
"""The counts of which at least one grows where a flood has arrived; the other kinds are not refused, but bounded."""


def verdicts(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """[{"target", "wanted", "found", "holds"}] of a siege's record (bench/siege/siege.py)."""
    undisturbed, harmless, siege = (found["phases"][name] for name in ("undisturbed", "harmless", "siege"))
    goodput = share(siege["goodput_mbps"], undisturbed["goodput_mbps"])
    control = share(siege["goodput_mbps"], harmless["goodput_mbps"])
    late = share(siege["late_slots"], siege["slots"])
    processes = found["processes"]
    growing = {name: each for name, each in processes.items() if not Memory(**each["memory"]).flat}
    leaking = {
        name: each["descriptors"] for name, each in processes.items()
        if each["descriptors"]["after"] > each["descriptors"]["begin"] + DESCRIPTORS
    }  # fmt: skip
    silent = [
        kind for kind, causes in ARRIVED.items()
        if kind in found["sent"] and not any(found["refused"].get(cause) for cause in causes)
    ]  # fmt: skip
    page = siege["page_ms"]["p99"]
    lost = round(share(siege["pings"]["lost"], sent), 4) if (sent := siege["pings"]["sent"]) else None
    return [
        _verdict("goodput, of undisturbed", f">= {GOODPUT}", round(goodput, 3), goodput >= GOODPUT),
        _verdict("goodput, of as many harmless frames", f">= {GOODPUT}", round(control, 3), control >= GOODPUT),
        _verdict("late slots", f"<= {LATE:.0%}", round(late, 4), siege["slots"] > 0 and late <= LATE),
        _verdict("processes that restarted", "none", found["restarted"] or "none", not found["restarted"]),
        _verdict("memory", f"<= {GROWTH_MB:g} MB more, {SLOPE_MB_MIN:g} MB/min at the end", _of(growing), not growing),
        _verdict("descriptors after the siege", f"<= {DESCRIPTORS} more", leaking or "all", not leaking),
        _verdict("pings lost", f"<= {PINGS:.0%}", lost, lost is not None and lost <= PINGS),
        _verdict("page, p99", f"<= {PAGE_MS:g} ms", page, page is not None and page <= PAGE_MS),
        _verdict("floods that arrived and were counted", "all", f"not: {', '.join(silent)}" if silent else "all", not silent),
    ]


def _of(growing: Mapping[str, Any]) -> object:
    return {name: each["memory"] for name, each in growing.items()} or "all"


def _verdict(target: str, wanted: str, found: object, holds: bool) -> dict[str, Any]:
    return {"target": target, "wanted": wanted, "found": found, "holds": holds}
