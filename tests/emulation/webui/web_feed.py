"""A store as a coordinator, its agents and the switches' application fill it: for tests of the web server, without a fabric."""

from __future__ import annotations

import itertools
from typing import Any

from controller.policies.base import Slot
from controller.scheduling.telemetry import Telemetry
from controller.store.store import Store
from topology import shapes
from topology.fabric import Fabric
from topology.spanning_tree import compute

POLICY = {"policy": "timeslice", "slice_ns": 2_000_000, "minimum_active_ns": 1_000_000, "weights": [], "headroom": 0.99}
MS = 1_000_000


class Feed:
    """Publishes what `advance` says that happened, at the pace of whoever calls it."""

    def __init__(self, store: Store, fabric: Fabric, flows: int) -> None:
        self.store = store
        self.fabric = fabric
        self.hosts = list(fabric.hosts)
        self.nodes = {host: 16 + at for at, host in enumerate(self.hosts)}
        pairs = itertools.islice(itertools.cycle(itertools.permutations(range(len(self.hosts)), 2)), 0, None, 37)
        self.pairs = sorted({pair for pair, _ in zip(pairs, range(flows), strict=False)})
        self.telemetry = Telemetry(self._tell)
        self.slot = self.turn = 0
        self.clock_ns = 10**12
        tree = compute(fabric)
        ports = {
            switch: [
                [number, fabric.port((switch, near)) or f"{switch}-{near}", f"02:00:00:00:{at:02x}:{number:02x}"]
                for number, near in enumerate(fabric.neighbours(switch), 1)
            ]
            for at, switch in enumerate(fabric.switches)
        }
        store.publish_fabric({"fabric": fabric.to_dict(), "blocked": sorted(map(list, tree.blocked)), "ports": ports})
        store.set_policy(POLICY)
        self.forwarding = [link for both in tree.forwarding for link in both.directions]

    @classmethod
    def small(cls, store: Store) -> Feed:
        """A ring with a blocked link, and a few flows."""
        feed = cls(store, shapes.build("ring"), 4)
        for _ in range(3):
            feed.advance()
        return feed

    def _tell(self, line: dict[str, Any]) -> bool:
        if "slots" in line:
            self.store.feeds.publish_slots(line["slots"])
        if "telemetry" in line:
            self.store.feeds.publish_telemetry(line["telemetry"])
        return True

    def advance(self, step_ns: int = 100 * MS) -> None:
        """So much time passes: slots are granted, and everything is published."""
        self.turn += 1
        self.clock_ns += step_ns
        for at, (source, destination) in enumerate(self.pairs[:40]):
            self.slot += 1
            start_ns = self.clock_ns + at % 8 * 2 * MS
            node, to = self._node(source), self._node(destination)
            self.telemetry.backlog(node, {to: 100_000}, self.clock_ns - MS)
            end_ns = start_ns + 2 * MS
            self.telemetry.granted(Slot(self.slot, node, to, start_ns, end_ns, 25_000, 0, 0), end_ns, start_ns)
            if at % 11 == 1:
                self.telemetry.lost([self.slot])
                continue
            self.telemetry.opened(self.slot, start_ns + (600_000 if at % 7 == 0 else 60_000), late=at % 7 == 0)
            if at % 5 == 0:
                self.telemetry.yielded(self.slot, (node, to), 0, 0, start_ns + MS)
        self.telemetry.reported(1, {1: 10_000, 2: 20_000}, frozenset({1}))
        self.telemetry.flush(self.clock_ns)
        self.telemetry.summary(self.clock_ns)
        self.publish_status()
        self._publish_members()
        self._publish_ports()

    def publish_status(self, **fields: object) -> None:
        """The coordinator's status, as it would follow what is in the store."""
        policy = self.store.policy() or {}
        self.store.publish_status(
            {
                "epoch": 1_700_000_000,
                "pid": 4711,
                "policy": policy.get("policy"),
                "policies": ["timeslice", "hybrid", "rate_limit", "free"],
                "slice_ns": policy.get("slice_ns"),
                "weights": policy.get("weights", []),
                "override": self.store.override() or "coordinate",
                "slots": self.slot,
                "acknowledged": self.slot - self.slot // 11,
                "late_slots": self.slot // 7,
                "lost": self.slot // 11,
                "yields": self.slot // 5,
                "members": len(self.hosts),
                "contended": [list(self.forwarding[0])],
                "refused": {"bad_tag": 2, "replay": 0},
                "bypass": [
                    {"source": "s1", "target": "s2", "regulated_bytes": 9, "uncoordinated_bytes": 7, "alarm": True}
                ],
                **fields,
            }
        )

    def _node(self, at: int) -> int:
        return self.nodes[self.hosts[at]]

    def _publish_members(self) -> None:
        of: dict[int, list[int]] = {}
        for source, destination in self.pairs:
            of.setdefault(source, []).append(destination)
        for at, host in enumerate(self.hosts):
            to = {str(self._node(destination)): destination for destination in of.get(at, ())}
            member = {
                "name": host,
                "mac": self.fabric.mac(host) or f"02:00:00:01:{at // 256:02x}:{at % 256:02x}",
                "addresses": [str(address) for address in self.fabric.addresses(host)],
                "rate_bps": 10**8,
                "gate": "tbf",
                "version": "0.1.0",
                "wire": 3,
                "heard_ms_ago": 12,
                "slots": self.slot,
                "late_slots": 1,
                "yields": 2,
                "lateness_us": 60,
                "backlog_bytes": dict.fromkeys(to, 10_000 * (self.turn % 5)),
                "sent_bps": {node: 1_000_000 * (1 + (self.turn + where) % 9) for node, where in to.items()},
                "regulated": [int(node) for node in to],
                "waiting_us": dict.fromkeys(to, 1_500),
                "refused": {"1": 3, "2": 0},
                "offset_us": 12.5,
                "uncertainty_us": 40.0,
                "pfc": [{"class": 3, "received": 5, "sent": 2, "paused_ms": 1.5, "storms": 0}] if at == 0 else [],
            }
            self.store.publish_member(self._node(at), member)

    def _publish_ports(self) -> None:
        self.store.publish_ports(
            {
                "links": [
                    {
                        "source": link.source,
                        "target": link.target,
                        "rate_bps": self.fabric.capacity_bps(link),
                        "load_bps": self.fabric.capacity_bps(link) * ((self.turn + at) % 10) // 10,
                        "dropped": at % 2,
                    }
                    for at, link in enumerate(self.forwarding)
                ],
                "refused": {"spoofed": 4},
            }
        )
