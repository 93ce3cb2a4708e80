"""The real coordinator for a swarm: its process, its store, and the interface between it and the swarm. An edge: processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.siege.watch import sample
from bench.swarm.traffic import World
from controller.config.settings import CoordinatorSettings
from controller.processes.confine import LINK, packet_sockets
from controller.processes.identity import STARTING_PRIORITY, at_priority
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from controller.supervision.children import PACKET_SOCKETS
from emulation.processes import end_process
from protocol.key import Key
from protocol.keys.hosts import Master
from protocol.units import MILLISECOND_NS
from topology.fabric import DirectedLink, Fabric
from topology.spanning_tree import compute

LEADER, SWARM, AGENT = "leader0", "swarm0", "eth0"
"""The interfaces of the coordinator, of the swarm, and of a real agent in a namespace of its own."""
BRIDGE = "swarm-br"
FILTERED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
"""Whether what a bridge of this network namespace forwards passes netfilter, which no switch has."""
MOST_REPORT_NS, MOST_FAIL_OPEN_NS, MOST_SILENCE_NS = 1_000 * MILLISECOND_NS, 1_000 * MILLISECOND_NS, 5_000 * MILLISECOND_NS


def settings_for(hosts: int, *, slice_ns: int, policy: str, key_file: Path, store: str, mode: str) -> CoordinatorSettings:
    """The settings of a coordinator of so many hosts: the defaults up to 100; above, hosts report less often in proportion, and
    wait for a leader as much longer, as an operator of a large fabric would set it (docs/scale.md)."""
    plain = CoordinatorSettings(interface=LEADER, attachment="", key_file=key_file, store=store)
    times = max(1, hosts // 100)
    return replace(
        plain,
        name="swarm", policy=policy, slice_ns=slice_ns, mode=mode,
        report_ns=min(MOST_REPORT_NS, plain.report_ns * times),
        fail_open_ns=min(MOST_FAIL_OPEN_NS, plain.fail_open_ns * times),
        silence_ns=min(MOST_SILENCE_NS, plain.silence_ns * times),
    )  # fmt: skip


@contextmanager
def interfaces(agent: int | None = None) -> Iterator[None]:
    """The interfaces of coordinator and swarm in this network namespace: a pair; or, with that of a real agent in the namespace
    of the process `agent`, three ports of a bridge without netfilter. Raises CalledProcessError: they could not be made."""
    with ExitStack() as made:
        if agent is None:
            _pair(made, LEADER, SWARM)
        else:
            _ip("link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
            made.callback(_ip, "link", "del", BRIDGE)
            if FILTERED.exists():
                FILTERED.write_text("0")
            for name, there in ((LEADER, None), (SWARM, None), (AGENT, agent)):
                _pair(made, f"{name}-port", name, there)
                _ip("link", "set", f"{name}-port", "master", BRIDGE)
            _quiet(BRIDGE)
        yield


def _pair(made: ExitStack, one: str, other: str, there: int | None = None) -> None:
    """A pair of interfaces, the other end in the namespace of the process `there`."""
    place = () if there is None else ("netns", str(there))
    _ip("link", "add", one, "type", "veth", "peer", "name", other, *place)
    made.callback(_ip, "link", "del", one)
    _quiet(one)
    if there is None:
        _quiet(other)


def _quiet(name: str) -> None:
    """Up, with room for bursts, and without frames of the kernel's own."""
    Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    _ip("link", "set", name, "txqueuelen", "20000", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class Used:
    """What a process and its children have used: seconds of a processor, memory in MB."""

    at_s: float
    process_s: float
    helpers_s: float
    rss_mb: float
    helpers_mb: float


class Leader:
    """A coordinator process over a store of its own, with the fabric document that the OpenFlow application would write."""

    def __init__(self, world: World, directory: Path, *, slice_ns: int, policy: str, mode: str) -> None:
        self._world = world
        self._directory = directory
        self._log = directory / "coordinator.log"
        self._stack = ExitStack()
        self._key_file = directory / "master.key"
        self.master = Master(Key.generate(self._key_file))
        self._redis = PrivateRedis(directory)
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = settings_for(
            len(world.names), slice_ns=slice_ns, policy=policy, mode=mode, key_file=self._key_file, store=self._redis.url
        )
        self.store: Store | None = None
        self._version = 0

    def __enter__(self) -> Leader:
        self._stack.enter_context(self._redis)
        self.store = Store(self._redis.url)
        self._stack.callback(self.store.close)
        self.publish(self._world.fabric)
        (self._directory / "coordinator.json").write_text(self.settings.to_json())
        self._stack.callback(self.end)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process as `baton up` does, with its sockets and at its first priority; it leads some tenths of a second
        later."""
        prefix = at_priority(STARTING_PRIORITY if self.settings.realtime_priority else None)
        words = [*prefix, sys.executable]
        words += ["-m", "controller.coordinator.process", "--config", str(self._directory / "coordinator.json")]
        given = packet_sockets(PACKET_SOCKETS, None)
        environment = {**os.environ, LINK: " ".join(map(str, given))}
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, pass_fds=given
                )
        finally:
            for descriptor in given:
                os.close(descriptor)

    def kill(self) -> None:
        """Kills it, as a fault would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Ends it, if it runs."""
        if self._process is not None:
            end_process(self._process)

    def used(self) -> Used:
        """What it has used so far; zeros once it has ended."""
        own = sample(self.pid)
        children = [found for pid in _children(self.pid) if (found := sample(pid)) is not None]
        return Used(
            time.monotonic(),
            own.cpu_s if own else 0.0,
            sum(one.cpu_s for one in children),
            own.resident_mb if own else 0.0,
            sum(one.resident_mb for one in children),
        )

    def status(self) -> dict[str, Any]:
        """The coordinator's status in the store; empty while there is none."""
        assert self.store is not None
        return self.store.status() or {}

    def links(self) -> set[DirectedLink]:
        """The links of the fabric in force, as the coordinator publishes them."""
        assert self.store is not None
        return {DirectedLink(row["source"], row["target"]) for row in self.store.capacities()}

    def publish(self, fabric: Fabric) -> None:
        """Publishes a fabric with its tree, as the OpenFlow application would."""
        assert self.store is not None
        self._version += 1
        blocked = sorted(list(link) for link in compute(fabric).blocked)
        self.store.publish_fabric({"fabric": fabric.to_dict(), "blocked": blocked, "version": self._version})

    def said(self) -> list[str]:
        """The last lines of its log."""
        return self._log.read_text(errors="replace").splitlines()[-20:] if self._log.exists() else []


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
