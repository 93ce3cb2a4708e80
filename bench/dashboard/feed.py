"""A generated fabric at work, written into a store ten times a second as the controller's processes would. An edge: the store.

    python -m bench.dashboard.feed --store URL --hosts 200 --flows 1000

Groups of hosts send into one host each (incast), whose link is therefore contended: its senders take turns, a slice each. The
other flows are free. Some slots are yielded, a few late or lost; one host is suspect, one has drifted. The feed obeys policy,
slice, weights and override of the store, so that the dashboard's controls have an effect. Equal arguments give equal documents.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from controller.scheduling.telemetry import LATE, LOST, SLOT, YIELD
from controller.store.store import Store, StoreUnavailable
from protocol.bodies.versions import NEWEST
from topology.fabric import Fabric
from topology.paths import Routes
from topology.shapes import leaf_spine, xco_rows
from topology.spanning_tree import compute

PERIOD_NS = 100_000_000
FIRST_NODE = 16
SENDERS = 6
SINKS_TOLD = 26
"""Of so many contended links at most a step has slots: with the default slice as many rows as the coordinator tells."""
TOLD_STEPS = 100
"""For so many steps they are the same ones."""
STEPS = 10
"""How many hosts send into each contended link."""
SLICE_NS = 5_000_000
VERSION = "0.1.0"
ROWS_FROM = 400
"""With more hosts the fabric has rows of racks, and members' and ports' documents are written once a second."""
THRESHOLDS_VERSION = 3
PAUSING = 12
"""How many hosts' agents run with --pfc."""
PFC_STATE = {"mode": "software", "paused": [], "storming": [], "bad": 0, "strangers": 0}
PFC = {"action": "drop", "accept_from": [], "detection_ns": [200_000_000] * 8, "restoration_ns": [200_000_000] * 8}
Row = tuple[str, int, int, int, int, int, int]


def fabric_of(hosts: int) -> Fabric:
    """A fabric of leaves and two spines, with at most twenty hosts a leaf; a large one as rows of racks, 200 hosts a row."""
    if hosts > ROWS_FROM:
        return xco_rows(rows=max(2, -(-hosts // 200)))
    leaves = max(3, -(-hosts // 20))
    return leaf_spine(leaves=leaves, spines=2, hosts_per_leaf=-(-hosts // leaves), host_rate_bps=10**9)


class Feed:
    """The documents of one coordinator. `step` writes what changes in a tenth of a second."""

    def __init__(self, store: Store, *, hosts: int = 18, flows: int = 40, seed: int = 1) -> None:
        self.store = store
        self.dice = random.Random(seed)
        self.fabric = fabric_of(hosts)
        self.tree = compute(self.fabric)
        self.routes = Routes(self.fabric, self.tree)
        self.hosts = list(self.fabric.hosts)
        self.node = {host: FIRST_NODE + at for at, host in enumerate(self.hosts)}
        self.sinks, self.pairs = self._traffic(flows)
        self.traffic = True
        self.epoch = int(time.time())
        self.planned_ns: dict[str, int] = {}
        """By contended destination: until when its link is granted."""
        self.turn: dict[str, int] = defaultdict(int)
        self.slots = self.late = self.lost = self.yields = 0
        self.drops: dict[tuple[str, str], int] = defaultdict(int)
        self.pauses = 0
        self.steps = self.dropped = 0
        self.parts = STEPS if len(self.hosts) > ROWS_FROM else 1
        """In how many steps all members and all ports are told once."""
        self.rates: dict[tuple[str, str], int] = {}
        self.slot_slices = 1
        self.choices: list[dict[str, Any]] = []

    def _traffic(self, flows: int) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
        """Contended destinations with their senders, and all pairs that send, those to contended destinations first."""
        dice, hosts = self.dice, list(self.hosts)
        dice.shuffle(hosts)
        groups = max(1, min(flows // (2 * SENDERS), len(hosts) // (SENDERS + 3)))
        sinks = {hosts[at]: hosts[groups + at * SENDERS : groups + (at + 1) * SENDERS] for at in range(groups)}
        pairs = [(source, sink) for sink, senders in sinks.items() for source in senders]
        known = set(pairs)
        while len(pairs) < min(flows, len(hosts) * (len(hosts) - 1) // 2):
            source, destination = dice.sample(hosts, 2)
            if destination not in sinks and (source, destination) not in known:
                known.add((source, destination))
                pairs.append((source, destination))
        return sinks, pairs

    # -- documents written once -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Publishes the fabric, the policy, thresholds and a few events."""
        store = self.store
        blocked = sorted([link.a, link.b] for link in self.tree.blocked)
        store.publish_fabric({"fabric": self.fabric.to_dict(), "blocked": blocked, "version": 1})
        if store.policy() is None:
            store.set_policy({"policy": "timeslice", "slice_ns": SLICE_NS, "weights": [], "minimum_active_ns": 1_000_000})
        store.publish_thresholds(self._thresholds())
        sink, senders = next(iter(self.sinks.items()))
        link = f"{self.fabric.attachment(sink)} -> {sink}"
        for kind, severity, text in (
            ("coordinator", "info", f"leads under epoch {self.epoch}"),
            ("member", "info", f"{len(self.hosts)} hosts have registered"),
            ("contended", "info", f"{link} is contended: {len(senders)} hosts wait for their turn"),
            ("thresholds", "info", "version 3 in force: expected to shorten flows by 8 %"),
            ("drift", "warning", f"{self.hosts[2]}: the root qdisc of eth1 was changed by another program and put back"),
            ("suspect", "error", f"{self.hosts[4]} sent 1.2 MB into a contended link without permission"),
        ):
            store.publish_event(kind, severity, text)

    def _thresholds(self) -> dict[str, Any]:
        # many small flows around 32 KB, and a hill of large ones around 16 MB
        hills = ((4_000, 15, 3.2), (260, 24, 2.0))
        shape = [sum(flows * math.exp(-(((at - middle) / wide) ** 2)) for flows, middle, wide in hills) for at in range(10, 29)]
        sizes = [(1 << at, max(1, int(flows))) for at, flows in enumerate(shape, 10)]
        return {
            "version": THRESHOLDS_VERSION,
            "thresholds": {
                "beta": [24_000, 95_000, 420_000, 1_900_000, 7_400_000, 26_000_000],
                "alpha": [18_000, 70_000, 310_000, 1_400_000, 6_100_000, 21_000_000],
            },
            "sizes": {"2": [[size, flows, size * flows] for size, flows in sizes]},
        }

    # -- documents that change
    # ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Writes the documents of a tenth of a second. Raises StoreUnavailable."""
        store, now_ns = self.store, time.monotonic_ns()
        policy = store.policy() or {}
        free = (store.override() or "coordinate") == "free" or policy.get("policy") == "free"
        rows = [] if free or not self.traffic else list(self._rows(now_ns, policy))
        if not rows:
            self.planned_ns.clear()
        if rows:
            store.feeds.publish_slots({"now_us": now_ns // 1000, "rows": rows})
        if self.steps % self.parts == 0:
            self.rates = self._rates(free)
            store.publish_ports({"links": self._ports(self.rates, free)})
        rates = self.rates
        store.publish_status(self._status(policy, free, now_ns))
        store.feeds.publish_telemetry({"dropped_events": self.dropped})
        with store.connection.together():
            for node, document in self._members(rates, free):
                store.publish_member(node, document)

    def _rows(self, now_ns: int, policy: dict[str, Any]) -> Iterator[Row]:
        """The slots that begin before now; the senders of each contended link take turns."""
        slice_ns = int(policy.get("slice_ns", SLICE_NS))
        weights = {(source, destination): weight for source, destination, weight in policy.get("weights", ())}
        dice = self.dice
        told = list(self.sinks.items())
        begin = self.steps // TOLD_STEPS * SINKS_TOLD % len(told) if self.parts > 1 else 0
        self.dropped += SINKS_TOLD * 20 if self.parts > 1 else 0
        for sink, senders in told[begin : begin + SINKS_TOLD]:
            at_ns = max(self.planned_ns.get(sink, 0), now_ns - 2 * PERIOD_NS)
            while at_ns < now_ns:
                source = senders[self.turn[sink] % len(senders)]
                self.turn[sink] += 1
                length_ns = int(slice_ns * (weights.get((source, sink)) or weights.get((source, ""), 1)))
                self.slots += 1
                kind = dice.choices((SLOT, YIELD, LATE, LOST), (0.84, 0.13, 0.022, 0.008))[0]
                self.yields += kind == YIELD
                self.late += kind == LATE
                self.lost += kind == LOST
                begin_ns = at_ns + (dice.randrange(600_000, 900_000) if kind == LATE else 0)
                end_ns = at_ns + (length_ns if kind != YIELD else int(length_ns * dice.uniform(0.3, 0.8)))
                size = int(0.99 * 10**9 / 8 * length_ns / 1e9)
                yield kind, self.slots, self.node[source], self.node[sink], begin_ns // 1000, end_ns // 1000, size
                at_ns = end_ns
            self.planned_ns[sink] = at_ns

    def _rates(self, free: bool) -> dict[tuple[str, str], int]:
        if not self.traffic:
            return {}
        rates = {}
        for at, (source, destination) in enumerate(self.pairs):
            if destination in self.sinks:
                share = (0.97 if not free else 1.0) * 10**9 / SENDERS
                rates[source, destination] = int(share * self.dice.uniform(0.93, 1.0))
            else:
                part = 0.012 + 0.16 * (at * 37 % 11) ** 2 / 100
                rates[source, destination] = int(10**9 * part * self.dice.uniform(0.8, 1.2))
        return rates

    def _ports(self, rates: dict[tuple[str, str], int], free: bool) -> list[dict[str, Any]]:
        load: dict[tuple[str, str], int] = defaultdict(int)
        for (source, destination), rate_bps in rates.items():
            for link in self.routes.path(source, destination):
                load[link] += rate_bps
        found = []
        for pair in self.tree.forwarding:
            for link in pair.directions:
                capacity = self.fabric.capacity_bps(link)
                if free and link[1] in self.sinks and load[link]:
                    self.drops[link] += self.dice.randrange(40, 90)
                counted = {"load_bps": min(capacity, load[link]), "rate_bps": capacity, "dropped": self.drops[link]}
                found.append({"source": link[0], "target": link[1], **counted})
        return found

    def _status(self, policy: dict[str, Any], free: bool, now_ns: int) -> dict[str, Any]:
        contended = [[self.fabric.attachment(sink), sink] for sink in self.sinks] if self.traffic and not free else []
        return {
            "epoch": self.epoch,
            "leader": "c1",
            "policy": policy.get("policy", "timeslice"),
            "slice_ns": policy.get("slice_ns", SLICE_NS),
            "slot_slices": self.slot_slices,
            "choices": self.choices,
            "weights": policy.get("weights", []),
            "override": self.store.override() or "coordinate",
            "slots": self.slots,
            "acknowledged": self.slots - self.lost,
            "late_slots": self.late,
            "lost": self.lost,
            "yields": self.yields,
            "members": len(self.hosts),
            "contended": contended,
            "unplaced": [],
            "refused": {"stale_epoch": 2},
            "thresholds_version": THRESHOLDS_VERSION,
            "pfc": PFC,
            "time_ns": now_ns,
        }

    def _members(self, rates: dict[tuple[str, str], int], free: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        sent: dict[str, dict[str, int]] = defaultdict(dict)
        backlog: dict[str, dict[str, int]] = defaultdict(dict)
        regulated: dict[str, list[int]] = defaultdict(list)
        waiting: dict[str, dict[str, int]] = defaultdict(dict)
        for (source, destination), rate_bps in rates.items():
            to = str(self.node[destination])
            sent[source][to] = rate_bps
            if destination in self.sinks and not free:
                regulated[source].append(self.node[destination])
                backlog[source][to] = int(rate_bps / 8 * 0.02 * self.dice.uniform(0.4, 1.9))
                waiting[source][to] = int(SENDERS * SLICE_NS / 1000 * self.dice.uniform(0.7, 1.1))
        self.pauses += 3 if rates else 0
        self.steps += 1
        for at, host in enumerate(self.hosts):
            if self.steps > 1 and at % self.parts != self.steps % self.parts:
                continue
            yield self.node[host], {
                "name": host,
                "mac": self.fabric.mac(host) or f"02:00:00:00:{at >> 8:02x}:{at & 255:02x}",
                "addresses": [str(address) for address in self.fabric.addresses(host)],
                "rate_bps": 10**9,
                "gate": "plug" if at % 9 == 7 else "tbf",
                "version": "0.0.9" if at == 7 else VERSION,
                "wire": NEWEST - 1 if at == 7 else NEWEST,
                "guest_marks": {"held": 4, "marked": 9, "expired": 3, "removed": 2, "refused": 1} if at == 4 else None,
                "offset_us": round(self.dice.gauss(0, 4) + (38 if at == 5 else 0), 1),
                "uncertainty_us": round(self.dice.uniform(8, 24), 1),
                "heard_ms_ago": self.dice.randrange(2, 48),
                "slots": self.slots // max(1, len(self.hosts)),
                "acknowledged": (self.slots - self.lost) // max(1, len(self.hosts)),
                "late_slots": self.late // max(1, len(self.hosts)) + (at % 5 == 0),
                "yields": self.yields // max(1, len(self.hosts)),
                "excess": 0,
                "lateness_us": self.dice.randrange(20, 90),
                "sent_bps": sent[host],
                "backlog_bytes": backlog[host],
                "regulated": regulated[host],
                "waiting_us": waiting[host],
                "refused": {"1": 3} if at == 3 else {},
                "drift": ["the root qdisc of eth1 was changed by another program; put back"] if at == 2 else [],
                "suspect": ["1.2 MB crossed a contended link without permission"] if at == 4 else [],
                "warnings": [],
                "thresholds_version": THRESHOLDS_VERSION,
                "pfc": self._pfc(at) if at < PAUSING else [],
                "pfc_state": {**PFC_STATE, "answers": {}} if at < PAUSING else {"answers": {}},
            }

    def _pfc(self, at: int) -> list[dict[str, Any]]:
        used = {0: 0.2, 3: 1.0, 4: 0.55} if at % 3 else {3: 0.7}
        return [
            {
                "class": number,
                "received": int(self.pauses * part * (1 + at % 4)),
                "sent": int(self.pauses * part / 3),
                "refused": 0,
                "paused_ms": round(self.pauses * part * (1 + at % 4) * 0.03, 2),
                "storms": 1 if (at, number) == (4, 3) else 0,
            }
            for number, part in used.items()
        ]


def main(arguments: list[str] | None = None) -> int:
    """Writes until it is interrupted, and never catches up on late steps. Prints "ready" after the first step."""
    parser = argparse.ArgumentParser(prog="dashboard_feed")
    parser.add_argument("--store", required=True)
    parser.add_argument("--hosts", type=int, default=18)
    parser.add_argument("--flows", type=int, default=40)
    options = parser.parse_args(arguments)
    feed = Feed(Store(options.store), hosts=options.hosts, flows=options.flows)
    feed.begin()
    due_ns = time.monotonic_ns()
    announced = False
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            with contextlib.suppress(StoreUnavailable):
                feed.step()
                if not announced:
                    sys.stdout.write("ready\n")
                    sys.stdout.flush()
                    announced = True
            due_ns = max(due_ns + PERIOD_NS, time.monotonic_ns())
            time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
    return 0


if __name__ == "__main__":
    sys.exit(main())
