"""What a frame costs a leader, with all that it leads to: one by one in Python, and in batches in C.

Method: the leader's socket is one end of a socket pair, so that the kernel does as much as for any datagram, and no network.
Hosts answer what they are granted as agents do: each acknowledges its slots, and gives every second one back with more
waiting. Making those frames is not in the times, which are the processor's for this thread, kernel included.

* *kinds*: ns from the socket to the end of its handling, for a frame of each kind under the policy `free`, which grants
  nothing; least of the rounds, since other work on the machine only adds to it. `take` is the library's part of that alone.
* *whole*: ns a frame, received or sent, while `hosts` each send to `destinations` others under `timeslice`: frames, account,
  policy and directives. `longest_us` is the longest turn of at most 256 frames, plan included.

`python -m bench.computing.frames`; `baton bench protocol` includes a short run.
"""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, frame
from controller.frames.frames import DEFERRED, MAIN
from controller.members.registry import FIRST_NODE
from protocol.messages import Ack, Backlog, Grant, Message, Ping, Yield
from protocol.units import MILLISECOND_NS

AT_ONCE = 128
"""Frames that wait when a turn begins: as many as a socket pair holds."""
STEP_NS = 500_000
WARM = 20
"""Steps before the members are known and slots follow one another."""


def run(hosts: int = 64, destinations: int = 4, rounds: int = 40) -> dict[str, Any]:
    """{"kinds": {kind: {"python", "compiled", "take"}}, "whole": {"python": {...}, "compiled": {...}}}, in ns a frame."""
    ways = {"python": False, "compiled": True}
    kinds: dict[str, dict[str, float]] = {}
    for way, compiled in ways.items():
        for kind, cost in _kinds(_leader(compiled, hosts, "free"), hosts, rounds).items():
            kinds.setdefault(kind, {})[way] = cost
    for kind, cost in _take_alone(_leader(True, hosts, "free"), hosts, rounds).items():
        kinds[kind]["take"] = cost
    whole = {way: _whole(compiled, hosts, destinations, rounds) for way, compiled in ways.items()}
    return {"kinds": kinds, "whole": whole, "hosts": hosts, "destinations": destinations, "frames_a_turn": AT_ONCE}


def _leader(compiled: bool, hosts: int, policy: str) -> Leader:
    return Leader(compiled=compiled, hosts=hosts, policy=policy, mode="on_demand")


class _Hosts:
    """Says what hosts say, each with numbers of its own."""

    def __init__(self, hosts: int) -> None:
        self._sequences = [FIRST_SEQUENCE] * (hosts + 1)

    def say(self, number: int, message: Message) -> bytes:
        self._sequences[number] += 1
        return frame(message, number, sequence=self._sequences[number])


def _turn(leader: Leader, frames: Sequence[bytes], now_ns: int) -> int:
    """How long a leader takes for frames that wait (ns)."""
    for raw in frames:
        leader.link.deliver(raw)
    coordinator = leader.coordinator
    began_ns = time.thread_time_ns()
    if (exchange := coordinator.exchange) is None:
        for raw, _ in coordinator.link.deferred_frames(AT_ONCE):
            coordinator.reception.receive(raw, now_ns)
        while (found := coordinator.link.receive()) is not None:
            coordinator.reception.receive(found, now_ns)
    else:
        for box in (DEFERRED, MAIN):
            while (batch := coordinator.intake.batch(exchange, box, now_ns)) is not None and batch.more:
                pass
    return time.thread_time_ns() - began_ns


def _of_kinds(hosts: _Hosts, count: int) -> Iterator[tuple[str, list[bytes]]]:
    """Frames of each kind, as many as wait at once."""
    members = [1 + number % count for number in range(AT_ONCE)]
    five = tuple((FIRST_NODE + other, 60_000, 0) for other in range(5))
    yield "ack", [hosts.say(number, Ack(1, FIRST_NODE, 1, 1)) for number in members]
    yield "yield", [hosts.say(number, Yield(FIRST_NODE, 1, 100, 60_000)) for number in members]
    yield "ping", [hosts.say(number, Ping(1)) for number in members]
    yield "backlog_5", [hosts.say(number, Backlog(1, 0, 1, five)) for number in members]


def _kinds(leader: Leader, count: int, rounds: int) -> dict[str, float]:
    hosts, best = _Hosts(count), dict[str, float]()
    for number in range(rounds + 1):  # the first one introduces the members
        for kind, frames in _of_kinds(hosts, count):
            cost = _turn(leader, frames, MILLISECOND_NS) / AT_ONCE
            leader.link.delivered()
            if number:
                best[kind] = min(cost, best.get(kind, cost))
    leader.link.close()
    return {kind: round(cost) for kind, cost in best.items()}


def _take_alone(leader: Leader, count: int, rounds: int) -> dict[str, float]:
    hosts, best, exchange = _Hosts(count), dict[str, float](), leader.coordinator.exchange
    assert exchange is not None, "a compiled leader has one"
    for number in range(rounds + 1):
        for kind, frames in _of_kinds(hosts, count):
            if not number:
                _turn(leader, frames, MILLISECOND_NS)
                continue
            box = [leader.link.deliver(raw) for raw in frames][-1]
            began_ns = time.thread_time_ns()
            exchange.take(box, MILLISECOND_NS)
            cost = (time.thread_time_ns() - began_ns) / AT_ONCE
            leader.link.delivered()
            best[kind] = min(cost, best.get(kind, cost))
    leader.link.close()
    return {kind: round(cost) for kind, cost in best.items()}


def _whole(compiled: bool, count: int, destinations: int, rounds: int) -> dict[str, float]:
    leader = _leader(compiled, count, "timeslice")
    hosts, now_ns = _Hosts(count), MILLISECOND_NS
    wanted = {n: [FIRST_NODE + (n + step) % count for step in range(destinations)] for n in range(1, count + 1)}
    regulated = {FIRST_NODE + n - 1: frozenset(others) for n, others in wanted.items()}
    leader.coordinator.granting.policy.set_regulated(regulated, now_ns=now_ns)
    coming: list[tuple[int, int, int, Message]] = []
    """When, a number of its own, the host, and what it says then."""
    numbers, sums = itertools.count(), Counter[str]()
    for n, its in wanted.items():
        heapq.heappush(coming, (0, next(numbers), n, Backlog(1, 0, 1, tuple((one, 10**7, 0) for one in its))))
    for step in range(WARM + rounds):
        now_ns += STEP_NS
        while True:
            due = [heapq.heappop(coming) for _ in range(AT_ONCE) if coming and coming[0][0] <= now_ns]
            cost_ns = _turn(leader, [hosts.say(n, message) for *_, n, message in due], now_ns)
            began_ns = time.thread_time_ns()
            leader.plan(now_ns)
            cost_ns += time.thread_time_ns() - began_ns
            sent = leader.answers()
            for n, grant in ((n, part) for n, parts in sent.items() for part in parts if isinstance(part, Grant)):
                ack = Ack(grant.slot, grant.destination, now_ns, grant.start_ns)
                heapq.heappush(coming, (grant.start_ns, next(numbers), n, ack))
                if grant.slot % 2:
                    half_ns, left = (grant.start_ns + grant.end_ns) // 2, grant.bytes // 2
                    heapq.heappush(coming, (half_ns, next(numbers), n, Yield(grant.destination, grant.slot, left, 10**7)))
            if step >= WARM:
                sums.update(ns=cost_ns, frames=len(due) + leader.frames, directives=leader.frames)
                sums.update(grants=sum(map(len, sent.values())))
                sums["longest"] = max(sums["longest"], cost_ns)
            if len(due) < AT_ONCE:
                break
    leader.link.close()
    return {
        "frames": sums["frames"],
        "ns_a_frame": round(sums["ns"] / max(1, sums["frames"])),
        "ns_a_grant": round(sums["ns"] / max(1, sums["grants"])),
        "grants_a_directive": round(sums["grants"] / max(1, sums["directives"]), 2),
        "longest_us": sums["longest"] // 1000,
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
