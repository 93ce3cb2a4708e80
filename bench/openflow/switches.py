"""`baton bench switches`: the OpenFlow application before hundreds of switches and thousands of hosts.

Method: `baton up` starts a store and the application, as ever. A swarm of switches (bench/openflow/) connects to it, each by a
TCP connection of its own, and speaks OpenFlow 1.3; it keeps the rules that it gets. LLDP that one sends reaches its neighbour.
Every host announces itself. Then:

* `start`: seconds until every switch is served, and until all hosts are learned and no rule comes any more;
* `cut`: a row's uplink is cut. Times until the first and until the last rule; flow mods that came, and how many were needed
  (the difference of the tables before and after). At every change sampled pairs are walked through the tables, to hosts and to
  nobody: `loops` counts the walks that went in circles. Afterwards sampled pairs are walked again;
* `idle`: nothing happens, for IDLE_S;
* `join`: one host more;
* `restart`: the application is ended, and the supervisor starts it again. Only hosts that their switch has forgotten announce
  themselves: `forgotten`. `connected_s`: until every switch is asked for its ports again;
* `cut_again`: another row's uplink is cut, before the application that has started again.

`store_bytes`: what the application sent to the store in the phase, counters of ports included, by the store's own count
(`total_net_input_bytes`); nobody else writes there, and the benchmark's own question is taken off.
`loop_stop_max_ms`: the longest answer to an echo request, of one every 20 ms or so: how long the application's loop stood. The
swarm runs in Python, too: on a busy machine it adds to all times.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import redis
import yaml

from bench.openflow.swarm import Swarm, needed, pairs
from bench.openflow.wiring import SwarmHost, wire
from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.takeover import TAKEOVER_NS
from controller.processes.identity import Identity, end
from controller.supervision import runstate

ENDPOINT = ("127.0.0.1", 6653)
APPLICATION = "openflow"
CALM_S = 4.0
"""Longer than the application leaves another's rules in a switch (controller/openflow/switches.py)."""
START_S, SETTLE_S = 600.0, 120.0
IDLE_S = 5.0
ASKING_BYTES = len("*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n")
WATCHED, PAIRS, FLOODS = 6, 1_000, 3

Tell = Callable[[str, float], None]


def run(switches: int, hosts: int, seed: int = 1, tell: Tell = lambda what, done: None) -> dict[str, Any]:
    """The record of the module's docstring.

    Raises:
        RuntimeError: Baton did not start.
        ValueError: the fabric is too small.
    """
    wiring = wire(switches, hosts + 1)
    directory = Path(tempfile.mkdtemp(prefix="baton-"))
    directory.chmod(0o711)
    config = {
        "run_dir": str(directory / "run"),
        "store": "none",
        "openflow": {"listen": f"{ENDPOINT[0]}:{ENDPOINT[1]}", "control_first": False},
        "users": "none",
        "web": "none",
    }
    (directory / "baton.yaml").write_text(yaml.safe_dump(config))
    try:
        _baton("up", "--config", str(directory / "baton.yaml"))
        return asyncio.run(_Measurement(Swarm(wiring, ENDPOINT, WATCHED, seed), directory / "run", seed, tell).run())
    finally:
        _baton("down", "--run-dir", str(directory / "run"))
        shutil.rmtree(directory, ignore_errors=True)


def _baton(*arguments: str) -> None:
    command = [sys.executable, "-m", "cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise RuntimeError(f"baton {arguments[0]}: {(done.stderr or done.stdout).strip()}")


class _Measurement:
    def __init__(self, swarm: Swarm, run_dir: Path, seed: int, tell: Tell) -> None:
        self._swarm = swarm
        self._run_dir = run_dir
        self._random = random.Random(seed)
        self._tell = tell
        *rest, self._late = swarm.wiring.hosts
        self._hosts = tuple(rest)
        self._redis: Any = redis.Redis.from_url(self._state().store)  # redis-py types each answer as an awaitable, too
        self._asked_bytes = 0

    async def run(self) -> dict[str, Any]:
        swarm = self._swarm
        tasks = [asyncio.create_task(swarm.echo()), *swarm.start()]
        try:
            record = {"switches": len(swarm.switches), "hosts": len(self._hosts), "start": await self._start()}
            phases = (
                ("cut", self._cut), ("idle", self._idle), ("join", self._join),
                ("restart", self._restart), ("cut_again", self._cut_again),
            )  # fmt: skip
            for name, phase in phases:
                self._tell(name, 0.0)
                record[name] = await phase()
            return record
        finally:
            for task in tasks:
                task.cancel()

    async def _start(self) -> dict[str, Any]:
        swarm, began_s, used = self._swarm, time.monotonic(), self._used()
        while not swarm.known and time.monotonic() - began_s < START_S:
            await asyncio.sleep(0.05)
        known_s = time.monotonic() - began_s
        learned = await self._all_learned(self._hosts)
        await swarm.quiet(CALM_S, SETTLE_S)
        reached = list(swarm.reached(pairs(self._hosts, PAIRS, self._random)))
        return {
            "switches_known_s": round(known_s, 2),
            "rules_stand_s": round(swarm.changed_s - began_s, 2),
            "all_learned": learned,
            "flows": sum(len(one.entries) for one in swarm.flows.values()),
            "flow_mods": swarm.sent()[0],
            "reached_fraction": sum(reached) / len(reached),
            "unknown_flooded": self._flooded(),
            **self._process(used),
        }

    async def _idle(self) -> dict[str, Any]:
        self._swarm.echoes_s.clear()
        used = self._used()
        await asyncio.sleep(IDLE_S)
        return {"seconds": IDLE_S, **self._process(used)}

    async def _cut(self) -> dict[str, Any]:
        rows = self._swarm.wiring.rows
        return await self._cut_off(rows[len(rows) // 2])

    async def _cut_again(self) -> dict[str, Any]:
        return await self._cut_off(self._swarm.wiring.rows[0])

    async def _cut_off(self, row: int) -> dict[str, Any]:
        swarm, at = self._swarm, PortRef(row, 1)
        swarm.watching, swarm.first_change_s = True, None
        record = await self._change(lambda: swarm.cut(at))
        swarm.watching = False
        return {**record, "loops": len(swarm.loops), "unknown_flooded": self._flooded()}

    async def _join(self) -> dict[str, Any]:
        swarm = self._swarm
        swarm.watching, swarm.first_change_s = True, None
        record = await self._change(lambda: swarm.announce(self._late))
        swarm.watching = False
        return {**record, "learned": not swarm.unlearned([self._late])}

    async def _restart(self) -> dict[str, Any]:
        restarts = self._state().restarts.get(APPLICATION, 0)
        self._swarm.watching, self._swarm.first_change_s = False, None
        identity = self._identity()
        began_s = back_s = time.monotonic()
        forgotten: list[SwarmHost] = []

        async def restart() -> None:
            nonlocal back_s
            await asyncio.to_thread(end, identity, 5.0)
            until_s = time.monotonic() + START_S
            while not self._back(restarts) and time.monotonic() < until_s:
                await asyncio.sleep(0.1)
            back_s = time.monotonic()
            await asyncio.sleep(TAKEOVER_NS / 1e9)  # until then it may send nothing
            await self._swarm.quiet(CALM_S, SETTLE_S)
            forgotten.extend(self._swarm.unlearned(self._hosts))
            await self._all_learned(self._hosts)

        record = await self._change(restart)
        again = self._state().restarts.get(APPLICATION, 0) - restarts
        return {**record, "restarts": again, "connected_s": round(back_s - began_s, 2), "forgotten": len(forgotten)}

    def _back(self, restarts: int) -> bool:
        again = self._state().restarts.get(APPLICATION, 0) > restarts
        return again and all(one.ready for one in self._swarm.switches.values())

    async def _change(self, act: Callable[[], Awaitable[None] | None]) -> dict[str, Any]:
        """Acts, waits until no rule comes any more, and tells what came."""
        swarm, used = self._swarm, self._used()
        before, sent = swarm.snapshot(), swarm.sent()
        swarm.echoes_s.clear()
        began_s = swarm.changed_s = time.monotonic()
        if (acting := act()) is not None:
            await acting
        settled = await swarm.quiet(CALM_S, SETTLE_S)
        flows, groups = needed(before, swarm.snapshot())
        now_sent = swarm.sent()
        reached = list(swarm.reached(pairs(self._hosts, PAIRS, self._random)))
        first_s = swarm.first_change_s
        return {
            "settled": settled,
            "first_rule_ms": None if first_s is None else round(1000 * (first_s - began_s), 1),
            "last_rule_ms": round(1000 * (swarm.changed_s - began_s), 1),
            "flow_mods": now_sent[0] - sent[0],
            "flow_mods_needed": flows,
            "group_mods": now_sent[1] - sent[1],
            "groups_changed": groups,
            "reached_fraction": sum(reached) / len(reached),
            **self._process(used),
        }

    async def _all_learned(self, hosts: tuple[SwarmHost, ...]) -> bool:
        swarm, until_s = self._swarm, time.monotonic() + START_S
        while rest := swarm.unlearned(hosts):
            if time.monotonic() >= until_s:
                return False
            self._tell("hosts are learned", 1 - len(rest) / len(hosts))
            await swarm.announce_some(rest)
        return True

    def _flooded(self) -> bool:
        known = self._hosts
        return all(self._swarm.floods(source) for source in self._random.sample(known, FLOODS))

    def _state(self) -> runstate.RunState:
        return runstate.load(self._run_dir)

    def _identity(self) -> Identity:
        identity = self._state().services[APPLICATION]
        if identity is None:
            raise RuntimeError("the application is not running; see its log")
        return identity

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._identity().pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _used(self) -> tuple[float, int]:
        """The application's processor time (s), and the bytes that the store has been sent."""
        told = self._redis.info("stats")["total_net_input_bytes"]
        self._asked_bytes += ASKING_BYTES
        return self._cpu_s(), told - self._asked_bytes

    def _process(self, before: tuple[float, int]) -> dict[str, Any]:
        pages = int(Path(f"/proc/{self._identity().pid}/statm").read_text().split()[1])
        echoes_s = self._swarm.echoes_s
        (cpu_s, sent), (now_s, now_sent) = before, self._used()
        return {
            "cpu_s": round(now_s - cpu_s if now_s >= cpu_s else now_s, 2),  # less: another process by now
            "rss_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1),
            "loop_stop_max_ms": round(1000 * max(echoes_s), 1) if echoes_s else None,
            "store_bytes": now_sent - sent,
        }
