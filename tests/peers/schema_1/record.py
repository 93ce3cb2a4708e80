"""Records a store of schema 1: every key that the controller's processes and operators of that time wrote into Redis.

Run it in a tree of that time, commit ed75939 (git archive ed75939 | tar -x -C DIRECTORY), once, and keep what it prints:
`cd DIRECTORY && PYTHONPATH=. python .../record.py > .../store.json`. The coordinator's documents come from the real
coordinator, through the real store bridge, into a private Redis; operators' from the calls that their commands make.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import redis

from bench.fuzz.receivers import LEADER_MAC, FakeControlSocket, FixedLeadership, mac
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.coordinator.store_bridge import StoreBridge
from controller.members.part import periods
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from protocol.key import Key
from protocol.messages import Ack, Backlog, FlowReport, GateKind, Message, Ping, Register, Report, encode
from topology import shapes

KEY = Key(bytes(range(32)))


class Lines:
    """The coordinator's end of the lines to its store bridge."""

    def __init__(self, bridge: StoreBridge) -> None:
        self._bridge = bridge

    def write(self, line: dict[str, Any]) -> bool:
        self._bridge._to_store(json.loads(json.dumps(line)))
        return True


def coordinate(bridge: StoreBridge, fabric: dict[str, Any]) -> None:
    """A leader with two members, for a moment."""
    settings = CoordinatorSettings(
        interface="c0", attachment="s1:c0", key_file=Path("/nowhere"), store="", mode="always", policy="timeslice", name="c1"
    )
    link: Any = FakeControlSocket(LEADER_MAC)
    leader = Coordinator(settings, KEY, link, Lines(bridge), FixedLeadership(), None)  # type: ignore[arg-type]
    leader.take([{"fabric": fabric}], 0)
    sequence = 0

    def hear(number: int, message: Message) -> None:
        nonlocal sequence
        sequence += 1
        sender = 0 if isinstance(message, Register) else 15 + number
        words = {"key": KEY, "destination": LEADER_MAC, "source": mac(number), "epoch": 5}
        leader._receive(encode(message, **words, sender=sender, sequence=sequence), time.monotonic_ns())

    for number in (1, 2):
        addresses = tuple(shapes.build("star", hosts=2, rate_bps=10**8).addresses(f"h{number}"))
        hear(number, Register(f"h{number}", number, 10**8, addresses, GateKind.TBF, "0.1.0"))
    now_ns = time.monotonic_ns()
    leader.parts.begin(leader.timers, now_ns, periods(settings))
    hear(1, Report(10**8, 0, 1, (FlowReport(17, 600_000, 0),), ((5, 2),), 1))
    hear(1, Backlog(1, 0, 1, ((17, 60_000, 0),)))
    hear(1, Ack(1, 17, now_ns, now_ns))
    end_ns = now_ns + 3 * 10**8
    while time.monotonic_ns() < end_ns:
        for number in (1, 2):
            hear(number, Ping(1))
        leader.timers.run(time.monotonic_ns())
        time.sleep(0.001)
    leader._status(time.monotonic_ns())


def main() -> None:
    """Fills a private store, and prints it."""
    logging.disable()
    with tempfile.TemporaryDirectory() as directory, PrivateRedis(Path(directory)) as server:
        store = Store(server.url)
        fabric = {"fabric": shapes.build("star", hosts=2, rate_bps=10**8).to_dict(), "blocked": []}
        store.publish_fabric(fabric)
        reading = {"source": "h1", "target": "s1", "rate_bps": 10**8, "load_bps": 5, "dropped": 0}
        store.publish_ports({"links": [reading]})
        store.set_policy({"policy": "timeslice", "slice_ns": 2_000_000})
        store.set_override("coordinate")
        store.publish_thresholds({"version": 1, "bands": 3, "period_ns": 10**10, "thresholds": None, "sizes": {}, "flows": 0})
        store.commands.set_queues({"h1": {"h2": []}})
        store.commands.set_rotation("cancel", f"{KEY.fingerprint:016x}", "0" * 16)
        store.commands.publish_pfc_command({"host": "h1", "classes": 8, "duration_ns": 1_000_000})
        store.publish_coflow(store.next_coflow(255)[0], {"name": "shuffle"})
        store.publish_event("policy", "info", "slice 2 ms", by="ada")
        store.publish_refusal("1 refused login", event=True, address="192.0.2.1")
        store.sessions.begin("abc", "ada", 3600)
        coordinate(StoreBridge(store, socket.socketpair()[0]), fabric)
        client = redis.Redis(unix_socket_path=str(Path(directory) / "redis.sock"), decode_responses=True)
        read = {
            "hash": client.hgetall, "string": client.get, "stream": lambda key: client.xrange(key),
            "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        }  # fmt: skip
        keys = sorted(client.keys("*"))
        json.dump({key: [client.type(key), read[client.type(key)](key)] for key in keys}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
