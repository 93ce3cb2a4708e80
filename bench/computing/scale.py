"""How long a grant takes with thousands of hosts, and how much is granted: a policy alone, without frames.

Method: simulated hosts (`bench.computing.scale_hosts`) tell a policy what waits, at ticks of an eighth of a slice, and hear
what it plans. As by the coordinator the policy is called when somebody said something, and when its next event is due; at
other ticks it is left alone. A plan that left something to do at once is followed by others, one for each `AGAIN_NS` of a
tick at most. It is asked for what begins within 1.5 ms, or a slice if that is shorter; and for two slices
more where there are many slots of which few are given back, as the coordinator's own `Foresight` says. Half of the hosts send
to the other half, `destinations` each, all regulated. Saturated hosts begin within the first slice. With a `load` demands
come at random, as many for each pair as load the fullest link to that part. The first `WARM_SLICES` after the first look of
`Foresight`, with a load half as many as are measured, are left out. Only the policy's own calls are timed, in processor time
(`time.thread_time_ns`), so that other work on the machine counts only for what it takes of the caches. Each scheduler has a
process of its own: the reference in Python by `Policy`, the core by its arrays. `rate_limit`, and `auto` where it chooses
rates, grant leases of rates: a grant is then a rate that is new, changed or renewed, and counts as what hosts could send by it.
Hosts do not report what they sent, so nobody is found to want less than its share. `auto` is told, as by the coordinator, how
long directives take (`DELAY_NS`) and which links are contended (those that pairs of several hosts cross); it reviews its
choices before a plan, which counts as an event.

* ns_per_grant: all calls' time by the slots granted; event_part: the part of it that the events took, the rest is `plan`
* alone: the same calls once more, to a new policy, one directly after the other (`bench.computing.scale_alone`)
* plan_max_us: the longest `plan`; start_max_us: the longest while hosts began
* review_max_us: the longest review of `auto`, the start included
* times_real_time: calls' time by simulated time; above 1 a controller falls behind
* rss_mb: by how much the process grew from before the policy to the end
* network_ms: a changed fabric and regulation, with all pairs; the look-up of their paths included
* granted_fraction: bits granted (saturated) or sent (with a load), by what a linear programme could grant of the same demand
  (`bench.computing.scale_optimum`) with `HEADROOM` of every link, unlike the swarm's `link_use`, which is of whole links
* granted_in_time: what was sent, by what such a programme could grant if no link sends what has not come yet (`Alone`). What
  comes late in the time measured nobody could send within it, but the programme of `granted_fraction` does.
* queue_slots: slots' worth waiting in all queues, per pair, from the beginning to the end of the time measured by quarters

Matching: the workload of Fastpass's own benchmark, on one switch: Poisson demands of 10 slots on average between all nodes,
uniform destinations, slots of one packet. As there, `window` slots are planned at once, hosts tell once a window how many bytes
wait for the destinations that got more, and these pairs are told alone to the core. A policy that does not count bytes
(`timeslice`) plans slots one after another as each begins, and pairs are told when they begin to wait. us_per_slot is the time
of all calls for one slot of all nodes, window_max_us the longest for one window. `alone` as above; what was said is kept for
it, and is a part of rss_mb.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.computing.scale_hosts import Hosts
from bench.computing.scale_network import SHAPES, Pairs, ScaleNetwork, all_to_all, half_to_half
from bench.computing.scale_optimum import Alone, admissible_bps, optimum_bps
from bench.computing.scale_schedulers import EMPTY, SCHEDULERS, alone_of
from controller.policies.compiled.library import why_missing
from controller.scheduling.foresight import LOOK_NS, Foresight
from emulation.measuring.fidelity import environment
from protocol.units import FRAME_BYTES, SECOND_NS

TICKS = 8
LEAD_NS = 1_500_000
AGAIN_NS = 150_000
"""From a plan to the next one that is due at once: what the plan, frames and directives take in between."""
LEAST_SLICE_NS = 1_000
WARM_SLICES, MOST_LOOKS = 10, 100
QUARTERS = 4
MATCHING_RATE_BPS = 10 * 10**9
HEADROOM = 0.98
MATCHING_POLICIES = ("timeslice", "steps")
MATCHING_LOADS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Case:
    """What is measured. `load` None: saturated hosts."""

    hosts: int
    destinations: int
    shape: str
    slice_ns: int
    slices: int
    load: float | None = None
    matching: bool = False
    seed: int = 1
    policy: str = "timeslice"
    reference: bool = True
    """Whether the reference in Python is measured, too."""
    window: int = 16
    """Slots that are planned at once in a matching, by a policy that counts bytes."""

    def check(self) -> None:
        """Raises ValueError: there is no such case; says why."""
        if self.slice_ns < LEAST_SLICE_NS:
            raise ValueError("slices are at least 1 us")
        if self.matching and self.policy not in MATCHING_POLICIES:
            raise ValueError(f"a matching is planned by {' or '.join(MATCHING_POLICIES)}, not by {self.policy}")
        if not self.matching:
            self.pairs()

    def network(self) -> ScaleNetwork:
        """The fabric."""
        return ScaleNetwork(SHAPES[self.shape](self.hosts), self.hosts)

    def pairs(self) -> Pairs:
        """The pairs that send."""
        return all_to_all(self.hosts) if self.matching else half_to_half(self.hosts, self.destinations, self.seed)


def run(case: Case) -> dict[str, Any]:
    """{"policies": {scheduler: figures}, "case", "load_average" before the run, ...}. Raises ValueError: no such case."""
    load_average = [round(load, 2) for load in os.getloadavg()]
    case.check()
    found: dict[str, Any] = {}
    for name in SCHEDULERS[case.policy]:
        if name == "reference" and not case.reference:
            continue
        if name == "core" and (why := why_missing()):
            found[name] = {"missing": why}
        elif case.matching:
            loads = MATCHING_LOADS if case.load is None else (case.load,)
            found[name] = {str(load): _apart(_matching, name, case, load) for load in loads}
        else:
            found[name] = _apart(_slots, name, case, case.load)
    return {
        "policies": found,
        "case": {name: getattr(case, name) for name in case.__dataclass_fields__},
        "method": "policy calls alone in simulated time, one process each",
        "python": platform.python_version(),
        "load_average": load_average,
        "environment": environment(),
    }


def _apart(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever it takes
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


@dataclass(slots=True)
class _Times:
    """Of the policy's calls, and what it granted."""

    events_ns: int = 0
    plans_ns: int = 0
    longest_ns: int = 0
    review_ns: int = 0
    grants: int = 0
    regrants: int = 0
    revokes: int = 0
    seen: int = 0
    """The highest number of a slot that was granted."""


class _Slots:
    """Slots of a slice on a tree: hosts and a policy, from tick to tick."""

    def __init__(self, name: str, case: Case, load: float | None) -> None:
        self._case, self._load = case, load
        self._network, self._pairs = case.network(), case.pairs()
        wanted_bps = None if load is None else admissible_bps(self._network, self._pairs, load * HEADROOM)
        rate_bps = self._network.node_rate_bps(0)
        self._slot_bytes = int(rate_bps * HEADROOM * case.slice_ns / 8e9) // FRAME_BYTES * FRAME_BYTES
        bytes_s = None if wanted_bps is None else wanted_bps / 8
        self._hosts = Hosts(case.hosts, self._pairs, bytes_s, self._slot_bytes, case.seed)
        self._before_mb = rss_mb()
        self._make = SCHEDULERS[case.policy][name]
        self._schedule = self._make(case.slice_ns, HEADROOM, False)
        if load is not None:
            self._schedule.calls = None  # they would be some gigabytes
        self._now_ns = SECOND_NS
        self._schedule.start(self._network, self._pairs, self._now_ns)
        self._lead_ns = min(LEAD_NS, case.slice_ns)
        self._tick_ns = case.slice_ns // TICKS
        self._foresight = Foresight()
        self._told_slots = self._told_yields = 0
        self._alone: Alone | None = None

    def measure(self) -> dict[str, Any]:
        """The figures."""
        case, hosts = self._case, self._hosts
        looks = min(MOST_LOOKS, LOOK_NS // case.slice_ns)
        warm = WARM_SLICES + looks if self._load is None else max(WARM_SLICES + looks, case.slices // 2)
        start, early = self._pass(warm, joining=True)
        hosts.forget()
        if self._schedule.calls:
            self._schedule.calls.begin()
        begun_ns, came_from = self._now_ns, hosts.waiting_bytes.copy()
        if self._load is not None:
            self._alone = Alone(self._network, self._pairs, HEADROOM, came_from)
        slots, waiting, quarters = [early], [int(came_from.sum())], list[_Times]()
        for quarter in range(QUARTERS):
            slices = (quarter + 1) * case.slices // QUARTERS - quarter * case.slices // QUARTERS
            times, granted = self._pass(slices, joining=False)
            quarters.append(times)
            slots.append(granted)
            waiting.append(int(hosts.waiting_bytes.sum()))
        measured_ns = self._now_ns - begun_ns
        found = self._took(start, quarters, measured_ns)
        if self._alone is None:
            bits = _bits(np.concatenate(slots), begun_ns, self._now_ns) + 8 * hosts.rated_bytes
            best = optimum_bps(self._network, self._pairs, part=HEADROOM) * measured_ns / SECOND_NS
        else:
            bits = hosts.sent_bytes * 8
            # What waited at the beginning could be sent as well.
            wanted = ((hosts.came_bytes + came_from) * 8 * SECOND_NS / measured_ns).astype(np.float64)
            best = optimum_bps(self._network, self._pairs, wanted, HEADROOM) * measured_ns / SECOND_NS
            in_time = optimum_bps(self._network, self._pairs, wanted, HEADROOM, self._alone.passed_bps(measured_ns))
            found["granted_in_time"] = _part(bits, in_time * measured_ns / SECOND_NS)
            pair_slots = len(self._pairs) * self._slot_bytes
            found["queue_slots"] = [round(size / pair_slots, 2) for size in waiting]
            found["sent_of_what_came"] = round(hosts.sent_bytes / max(1, int(hosts.came_bytes.sum())), 4)
        found["granted_fraction"] = _part(bits, best)
        found["optimum_gbps"] = round(best / measured_ns * SECOND_NS / 1e9, 1)
        return found

    def _pass(self, slices: int, joining: bool) -> tuple[_Times, NDArray[np.void]]:
        """So many slices pass; returns also what was granted. `joining`: all hosts begin within the first one."""
        times, granted = _Times(), [EMPTY]
        for tick in range(slices * TICKS):
            told = self._say(times, 1 / max(1, TICKS - tick) if joining else 1.0)
            due_ns = self._now_ns + self._lead_ns
            for _ in range(max(1, self._tick_ns // AGAIN_NS)):
                if not told and (self._schedule.event_ns is None or self._schedule.event_ns > due_ns):
                    break
                told, due_ns = False, self._now_ns
                granted.append(self._plan(times))
            self._now_ns += self._tick_ns
        return times, np.concatenate(granted)

    def _say(self, times: _Times, joining: float) -> bool:
        """The hosts tell the policy what waits; returns whether they had anything to tell."""
        said = self._hosts.say(self._tick_ns, self._now_ns, joining=joining)
        if self._alone is not None:
            self._alone.take(self._hosts.came_bytes, self._tick_ns)
        self._told_yields += len(said.returned)
        if told := bool(len(said.nodes) or len(said.returned)):
            times.events_ns += self._schedule.say(said, self._now_ns)
        return told

    def _plan(self, times: _Times) -> NDArray[np.void]:
        """A review and a plan, which the hosts hear; returns what was granted."""
        reviewed_ns = self._schedule.review(self._now_ns)
        times.events_ns += reviewed_ns
        times.review_ns = max(times.review_ns, reviewed_ns)
        horizon_ns = self._foresight.horizon_ns(
            self._now_ns + self._lead_ns, self._case.slice_ns, slots=self._told_slots, yields=self._told_yields
        )
        took_ns, grants, revokes = self._schedule.plan(self._now_ns, horizon_ns)
        times.plans_ns += took_ns
        times.longest_ns = max(times.longest_ns, took_ns)
        new = grants[grants["slot"] > times.seen]
        times.seen = max(times.seen, int(new["slot"].max(initial=0)))
        times.grants += len(new)
        self._told_slots += len(new)
        times.regrants += len(grants) - len(new)
        times.revokes += len(revokes)
        self._hosts.hear(grants, revokes)
        return grants

    def _took(self, start: _Times, quarters: Sequence[_Times], measured_ns: int) -> dict[str, Any]:
        """The figures of the policy's calls."""
        events_ns, plans_ns = sum(one.events_ns for one in quarters), sum(one.plans_ns for one in quarters)
        took_ns, grants = events_ns + plans_ns, sum(one.grants for one in quarters)
        found: dict[str, Any] = {
            "ns_per_grant": round(took_ns / max(1, grants), 1),
            "event_part": round(events_ns / max(1, took_ns), 3),
            "plan_max_us": round(max(one.longest_ns for one in quarters) / 1e3, 1),
            "start_max_us": round(start.longest_ns / 1e3, 1),
            "times_real_time": round(took_ns / measured_ns, 3),
            "rss_mb": round(rss_mb() - self._before_mb, 1),
            "network_ms": round(self._schedule.start(self._network, self._pairs, self._now_ns) / 1e6, 1),
            "grants": grants,
            "granted_again": sum(one.regrants for one in quarters),
            "revoked": sum(one.revokes for one in quarters),
        }
        if longest_review_ns := max(one.review_ns for one in (start, *quarters)):
            found["review_max_us"] = round(longest_review_ns / 1e3, 1)
        other = self._make(self._case.slice_ns, HEADROOM, False)
        if (took := alone_of(self._schedule, other, self._network, self._pairs)) is not None:
            found["alone"] = {"ns_per_grant": round(took["ns"] / max(1, grants), 1), "plan_max_us": took["plan_max_us"]}
        return found


def _slots(name: str, case: Case, load: float | None) -> dict[str, Any]:
    return _Slots(name, case, load).measure()


def _part(bits: float, best: float) -> float | None:
    """What was granted of what could be; None where nothing could be, since nothing came."""
    return round(bits / best, 4) if best > 0 else None


def _bits(slots: NDArray[np.void], begun_ns: int, ended_ns: int) -> float:
    """What slots of bytes were granted within a time, each at an even rate; of one that was granted again the last counts."""
    slots = slots[slots["bytes"] > 0]
    last = slots[len(slots) - 1 - np.unique(slots["slot"][::-1], return_index=True)[1]]
    inside_ns = np.maximum(0, np.minimum(last["end"], ended_ns) - np.maximum(last["start"], begun_ns))
    rate_bps = 8.0 * SECOND_NS * last["bytes"] / (last["end"] - last["start"])
    return float((rate_bps * inside_ns).sum() / SECOND_NS)


def _matching(name: str, case: Case, load: float) -> dict[str, Any]:
    """Slots of one packet on one switch."""
    network, pairs = case.network(), case.pairs()
    tick_ns = -(-FRAME_BYTES * 8 * SECOND_NS // MATCHING_RATE_BPS)
    demand = load * FRAME_BYTES * SECOND_NS / tick_ns / (case.hosts - 1)
    counted = case.policy == "steps"
    window = case.window if counted else 1
    hosts = Hosts(case.hosts, pairs, demand, FRAME_BYTES, case.seed, counted=counted)
    before_mb = rss_mb()
    make = SCHEDULERS[case.policy][name]
    schedule = make(tick_ns, 1.0, True)
    now_ns = SECOND_NS // tick_ns * tick_ns
    schedule.start(network, pairs, now_ns)
    took: list[int] = []
    waiting: list[int] = []
    grants = came = 0
    warm = case.slices // 2 // window * window
    quarters = {warm + quarter * (case.slices - 1) // QUARTERS for quarter in range(QUARTERS + 1)}
    for tick in range(warm + case.slices):
        if tick == warm and schedule.calls:
            schedule.calls.begin()
        if tick % window:
            hosts.wait(tick_ns, now_ns)
        else:
            events_ns = schedule.say(hosts.say(tick_ns, now_ns), now_ns)
            plan_ns, granted, revoked = schedule.plan(now_ns, now_ns + (window - 1) * tick_ns)
            hosts.hear(granted, revoked)
            if tick >= warm:
                took.append(events_ns + plan_ns)
                grants += len(granted)
        now_ns += tick_ns
        if tick == warm:
            hosts.forget()
        if tick in quarters:
            waiting.append(int(hosts.waiting_bytes.sum()) // FRAME_BYTES)
    came = int(hosts.came_bytes.sum()) // FRAME_BYTES
    found: dict[str, Any] = {
        "us_per_slot": round(float(np.mean(took)) / window / 1e3, 2),
        "window_max_us": round(max(took) / 1e3, 1),
        "ns_per_grant": round(sum(took) / max(1, grants), 1),
        "grants": grants,
        "granted_of_what_came": round(hosts.sent_bytes / FRAME_BYTES / max(1, came), 4),
        "matched": round(grants / (len(took) * window) / case.hosts, 4),
        "queue_slots": [round(slots / case.hosts, 2) for slots in waiting],
        "rss_mb": round(rss_mb() - before_mb, 1),
    }
    if (alone := alone_of(schedule, make(tick_ns, 1.0, True), network, pairs)) is not None:
        found["alone"] = {
            "us_per_slot": round(alone["ns"] / (len(took) * window) / 1e3, 2),
            "ns_per_grant": round(alone["ns"] / max(1, grants), 1),
        }
    return found


def rss_mb() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
