"""The real coordinator under a swarm: thousands of protocol-exact agents in one process, with a model of the links' bytes.

Method: a pair of interfaces in a network namespace of its own. On one is the coordinator, a process as `baton up` starts it,
with a store of its own that holds the fabric's document; on the other the swarm (bench/swarm/agents.py), whose inner loop is
C. Every host registers, keeps its clock, reports, asks for what it missed, and obeys its slots, by real frames under its own
key. What the hosts send by these slots goes into a model of every directed link (bench/swarm/links.h). The measurement begins
when all hosts are members, `WARM_S` have passed, every sender that is regulated has been served, and the swarm has kept up for
a second: after the start of thousands it may be seconds behind, and what it does then says nothing of the coordinator.

* late_fraction: directives that arrived after their slot's start, of all slots granted, by the kernel's stamps of arrival; a
  lease of a rate, which begins when it is planned, is late for nobody, and is not among them
* grants_per_s, frames_per_s: slots granted; control frames in both directions
* coordinator_cpu, helpers_cpu: shares of a processor: of the coordinator's loop; of its store bridge, elector and tuner
* rss_mb: the coordinator's memory at the end
* loop_stop_max_us: the longest time in which the coordinator answered nobody while a PING waited
* loop_stop_own_max_us: the same without the times in which a processor of the machine stood; machine_stop_max_us: the longest
  of these, 0 if none was above 0.3 ms (bench/swarm/stops.py). Both are null without `watch_machine`, which makes stops longer
  by some 0.2 ms, and where the system lets nobody watch
* loop_longest_us: what the coordinator says of its own loop: the longest turn, wait for the lock, and delay of a plan
* loop_busy, slot_slices: for which part of the time that loop worked, and how many slices long slots were, at the end
* changed: with `change_tree`, stops, turns and late slots of `CHANGED_S` in which the tree changes, and of as many in which it
  changes back. The links' model keeps the first tree's paths
* loss_fraction: of the bytes sent, what the links lost; link_use: what they delivered, of what a linear programme could
* swarm_cpu, swarm_behind_max_us: the swarm's own share of a processor, and how late it was at most: a check of the measurement
* model_behind_max_us, model_step_max_us: how far the links' model was late at most, and its longest step; where steps are of
  milliseconds, what overlapped for less is not counted as lost
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.computing.scale_optimum import optimum_bps
from bench.record import Tell
from bench.swarm.agents import Conditions, Swarm, listen, names_of
from bench.swarm.leader import SWARM, Leader, Used, interfaces
from bench.swarm.library import Counts
from bench.swarm.rehanging import rehung
from bench.swarm.stops import Span, longest_ns, watched
from bench.swarm.traffic import World, make
from emulation.measuring.fidelity import environment
from protocol.key import Key
from protocol.keys.hosts import Master
from protocol.units import SECOND_NS
from topology.fabric import DirectedLink

WARM_S, PATIENCE_S, SPREAD_HOSTS_S, DRAIN_S = 3.0, 60.0, 500.0, 0.5
KEPT_UP_S, KEPT_UP_NS = 1.0, 100_000_000
SWARM_NICE = -5
STATUS_S, CHANGED_S = 2.0, 4.0
"""The coordinator's status is younger than this: what it says after so long is of the time measured."""
ALONE_WARM_NS = SECOND_NS // 2
FULLEST = 8


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured. `load`: of each sender's rate, by demands at random; 0: senders always have something to send."""

    hosts: int = 400
    destinations: int = 1
    shape: str = "rows"
    slice_ns: int = 10_000_000
    seconds: float = 60.0
    policy: str = "timeslice"
    mode: str = "on_demand"
    lose: float = 0.0
    load: float = 0.0
    buffer_bytes: int = 250_000
    uncoordinated: bool = False
    start_at_once: bool = False
    kill_coordinator: bool = False
    change_tree: bool = False
    watch_machine: bool = False
    seed: int = 1


class NotReady(Exception):
    """The swarm did not come so far that it could be measured; says what it lacked, with the coordinator's last words."""


def run(options: Options = Options(), tell: Tell = lambda what, done: None) -> dict[str, Any]:
    """The record. Raises ValueError: there is no such fabric or traffic."""
    load_average = [round(load, 2) for load in os.getloadavg()]
    world = make(options.shape, options.hosts, options.destinations, options.seed)
    found = _uncoordinated(options, world) if options.uncoordinated else _coordinated(options, world, tell)
    return {
        **found,
        "case": asdict(options),
        "optimum_gbps": round(optimum_bps(world, world.pairs) / 1e9, 1),
        "load_average": load_average,
        "environment": environment(),
    }


def _conditions(options: Options) -> Conditions:
    spread_s = 0.0 if options.start_at_once else options.hosts / SPREAD_HOSTS_S
    return Conditions(
        options.buffer_bytes, options.lose, options.load, spread_ns=round(spread_s * SECOND_NS), seed=options.seed
    )


def _uncoordinated(options: Options, world: World) -> dict[str, Any]:
    """All senders at their links' rate, in the model's own time."""
    with Swarm(world, Master(Key(bytes(32))), None, _conditions(options)) as swarm:
        swarm.drift(ALONE_WARM_NS)
        before, counts = swarm.model.sums(), swarm.counts()
        swarm.drift(round(options.seconds * SECOND_NS))
        return _links(world, swarm, before, counts)


def _coordinated(options: Options, world: World, tell: Tell) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="baton-swarm-") as name,
        interfaces(),
        Leader(world, Path(name), slice_ns=options.slice_ns, policy=options.policy, mode=options.mode) as leader,
        listen(SWARM) as connection,
    ):
        leader.start()
        wait(lambda: bool(leader.status()), leader, "the coordinator leads")
        with Swarm(world, leader.master, connection, _conditions(options)) as swarm, serving(swarm):
            return _Measured(options, world, leader, swarm, tell).run()


@contextmanager
def serving(swarm: Swarm) -> Iterator[None]:
    """Runs the swarm in a thread before other programs: hosts do not wait for their leader's machine. The library holds no
    interpreter lock. What lives by now is set aside: to look for garbage among it stopped the swarm for 60 to 160 ms."""

    def run() -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, SWARM_NICE)
        swarm.run(1 << 62)

    thread = threading.Thread(target=run, name="swarm")
    gc.collect()
    gc.freeze()
    thread.start()
    try:
        yield
    finally:
        swarm.stop()
        thread.join()
        gc.unfreeze()


def wait(condition: Callable[[], bool], leader: Leader, what: str) -> float:
    """Seconds until the condition held. Raises NotReady: not within `PATIENCE_S`, or the coordinator has ended."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() - began_s > PATIENCE_S or not leader.running:
            last = "; ".join(leader.said()[-3:])
            raise NotReady(f"not within {PATIENCE_S:g} s: {what}. The coordinator's log ends: {last or 'nothing'}")
        time.sleep(0.02)
    return time.monotonic() - began_s


class _Measured:
    def __init__(self, options: Options, world: World, leader: Leader, swarm: Swarm, tell: Tell) -> None:
        self._options = options
        self._world = world
        self._leader = leader
        self._swarm = swarm
        self._tell = tell

    def run(self) -> dict[str, Any]:
        """Starts, warms up, measures; a coordinator that does not carry the swarm is measured as it is."""
        found: dict[str, Any] = {"reached": []}
        began_ns = time.monotonic_ns()
        try:
            self._tell("hosts register", 0.0)
            wait(self._all_members, self._leader, f"{self._options.hosts} hosts are members")
            found["members_s"] = round((self._swarm.counts().last_member_ns - began_ns) / 1e9, 3)
            found["reached"].append("members")
            self._tell("senders are served", 0.1)
            time.sleep(WARM_S)
            wait(self._settled, self._leader, "every regulated sender was served, and the swarm kept up")
            found["reached"].append("served")
        except NotReady as missing:
            found["missing"] = str(missing)
        found |= self._measure(self._options.seconds)
        if self._options.change_tree and "missing" not in found:
            found["changed"] = self._change_tree()
        if self._options.kill_coordinator and "missing" not in found:
            found["killed"] = self._kill()
        return found

    def _settled(self) -> bool:
        """Whether all that are regulated are served, and the swarm was late by little for `KEPT_UP_S`."""
        if self._swarm.counts().awaiting:
            return False
        self._swarm.forget()
        time.sleep(KEPT_UP_S)
        counts = self._swarm.counts()
        return not counts.awaiting and counts.behind_ns <= KEPT_UP_NS

    def _all_members(self) -> bool:
        """All are members of the newest leader that any of them has heard."""
        return bool(self._swarm.counts().current >= self._options.hosts)

    def _measure(self, seconds: float, status_s: float = STATUS_S) -> dict[str, Any]:
        with watched() if self._options.watch_machine else nullcontext() as stood:
            found = self._count(seconds, status_s)
            gaps = self._swarm.gaps()
        return found | _stops(gaps, stood)

    def _count(self, planned_s: float, status_s: float) -> dict[str, Any]:
        swarm, leader = self._swarm, self._leader
        swarm.forget()
        sums, counts, used = swarm.model.sums(), swarm.counts(), leader.used()
        own_s, began_s, least = time.process_time(), time.monotonic(), counts.members
        longest: dict[str, float] = {}
        while (passed_s := time.monotonic() - began_s) < planned_s:
            self._tell("measuring", 0.2 + 0.7 * passed_s / planned_s)
            time.sleep(min(0.25, planned_s - passed_s))
            least = min(least, swarm.counts().members)
            told = leader.status().get("loop_longest_us", {}) if passed_s > status_s else {}
            longest = {name: max(us, longest.get(name, 0)) for name, us in told.items()} or longest
        seconds = time.monotonic() - began_s
        own_s = time.process_time() - own_s
        return {
            **_frames(counts, swarm.counts(), seconds),
            **_used(used, leader.used()),
            **_links(self._world, swarm, sums, counts),
            "members_least": least,
            "loop_longest_us": longest,
            **{name: leader.status().get(name) for name in ("loop_busy", "slot_slices")},
            "swarm_cpu": round(own_s / seconds, 3),
            "unknown": names_of(swarm.unknown()),
            "to_all": dict(swarm.to_all),
            "refused": {cause.name.lower(): count for cause, count in swarm.guard.refused.items()},
            "status": {name: leader.status().get(name) for name in ("members", "refused", "slots")},
        }

    def _change_tree(self) -> dict[str, Any]:
        """A switch hangs below its neighbour, and then where it was."""
        fabric, uplink = rehung(self._world.fabric)
        kept = "late_fraction", "members_least", "loop_stop_max_us", "loop_stop_own_max_us", "loop_longest_us"
        found: dict[str, Any] = {}
        for name, published, is_there in (("away", fabric, True), ("back", self._world.fabric, False)):
            self._leader.publish(published)
            record = self._measure(CHANGED_S, 0.0)
            found[name] = {key: record[key] for key in kept}
            try:
                wait(partial(self._has, uplink, is_there), self._leader, "the new tree is in force")
            except NotReady as missing:
                return found | {"missing": str(missing)}
        return found

    def _has(self, link: DirectedLink, wanted: bool) -> bool:
        return (link in self._leader.links()) == wanted

    def _kill(self) -> dict[str, Any]:
        """Kills the coordinator under load, and starts it again at once, as its supervisor would."""
        self._tell("killing the coordinator", 0.9)
        before = self._swarm.counts()
        killed_ns = time.monotonic_ns()
        self._leader.kill()
        self._leader.start()
        found: dict[str, Any] = {}
        try:
            wait(lambda: self._swarm.counts().epoch > before.epoch, self._leader, "a new leader is heard")
            wait(self._all_members, self._leader, "all are members again")
            found["members_s"] = round((self._swarm.counts().last_member_ns - killed_ns) / 1e9, 3)
            again = "as many senders are served by slots as before"
            wait(lambda: self._swarm.counts().served >= max(1, before.served), self._leader, again)
            found["coordinated_s"] = round((self._swarm.counts().last_served_ns - killed_ns) / 1e9, 3)
        except NotReady as missing:
            found["missing"] = str(missing)
        return found


def _frames(before: Counts, after: Counts, seconds: float) -> dict[str, Any]:
    def more(name: str) -> int:
        return int(getattr(after, name) - getattr(before, name))

    grants = more("grants")
    return {
        "late_fraction": round(more("late") / max(1, grants - more("rate_grants")), 5),
        "latest_us": round(after.latest_ns / 1e3, 1),
        "grants_per_s": round(grants / seconds, 1),
        "grants_per_directive": round(grants / max(1, more("directives")), 2),
        "frames_per_s": round((more("received") + more("sent")) / seconds, 1),
        "answer_max_us": round(after.answer_ns / 1e3, 1),
        "clock_error_max_us": round(after.clock_error_ns / 1e3, 1),
        "swarm_behind_max_us": round(after.behind_ns / 1e3, 1),
        "swarm_turn_max_us": round(after.turn_ns / 1e3, 1),
        "model_behind_max_us": round(after.model_behind_ns / 1e3, 1),
        "model_step_max_us": round(after.model_step_ns / 1e3, 1),
        "members": after.members,
        "frames": {
            name: more(name)
            for name in (
                "registers", "welcomes", "backlogs", "directives", "acks", "yields", "reports", "pings", "pongs", "questions",
                "errors", "silent", "unanswered", "not_taken", "refused", "unknown", "dropped_in", "dropped_out",
            )
        },
    }  # fmt: skip


def _stops(gaps: list[Span], stood: list[Span] | None) -> dict[str, Any]:
    return {
        "loop_stop_max_us": round(longest_ns(gaps) / 1e3, 1),
        "loop_stop_own_max_us": None if stood is None else round(longest_ns(gaps, stood) / 1e3, 1),
        "machine_stop_max_us": None if stood is None else round(longest_ns(stood) / 1e3, 1),
    }


def _used(before: Used, after: Used) -> dict[str, Any]:
    seconds = max(1e-9, after.at_s - before.at_s)
    return {
        "coordinator_cpu": round((after.process_s - before.process_s) / seconds, 3),
        "helpers_cpu": round((after.helpers_s - before.helpers_s) / seconds, 3),
        "rss_mb": after.rss_mb,
        "helpers_mb": after.helpers_mb,
    }


def _links(world: World, swarm: Swarm, before: dict[str, float], then: Counts) -> dict[str, Any]:
    """By the model's own time: a swarm that gets no processor for a while moves it later."""
    seconds = max(1, swarm.counts().stepped_ns - then.stepped_ns) / SECOND_NS
    sums = {name: value - before[name] for name, value in swarm.model.sums().items()}
    best = optimum_bps(world, world.pairs) * seconds / 8
    counts = swarm.model.counts()
    order = counts["lost" if counts["lost"].any() else "most_waiting"].argsort()[::-1][:FULLEST]
    return {
        "loss_fraction": round(sums["lost"] / max(1.0, sums["sent"]), 6),
        "link_use": round(sums["delivered"] / best, 4),
        "links_s": round(seconds, 3),
        "sent_gbps": round(sums["sent"] * 8 / seconds / 1e9, 2),
        "delivered_gbps": round(sums["delivered"] * 8 / seconds / 1e9, 2),
        "worst_links": [
            {
                "link": "->".join(world.links[at]),
                "lost_mb": round(float(counts["lost"][at]) / 1e6, 3),
                "deepest_queue_kb": round(float(counts["most_waiting"][at]) / 1e3, 1),
                "fullest_ms": round(float(counts["most_in_a_ms"][at]) / float(world.capacities_bps[at] / 8e3), 3),
            }
            for at in order.tolist()
        ],
    }
