"""Three real Redis servers, one of them the master, and three Sentinels that watch it, on loopback. An edge: processes.

Each has a folder of its own. They end with the process that started them.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import RedisError

from controller.processes.identity import with_owner
from controller.processes.waiting import wait_until
from emulation.processes import end_process
from emulation.resource import Resource

SERVICE = "baton"
COUNT = 3
QUORUM = 2
DOWN_AFTER_MS = 1_000
"""With a shorter time the Sentinels take the servers of a busy machine for dead, one after the other."""
FAILOVER_TIMEOUT_MS = 10_000
"""With a shorter time the Sentinels of a busy machine give a fail-over up halfway, with two masters for some seconds."""
START_S = 15.0
STOP_S = 3.0


class Sentinels(Resource):
    """Running servers; use as a context manager. Ports `first_port` to + 2 and + 10 to + 12 must be free on 127.0.0.1."""

    def __init__(self, directory: Path, first_port: int = 17000) -> None:
        self.directory = directory
        self.servers = [first_port + number for number in range(COUNT)]
        self.sentinels = [first_port + 10 + number for number in range(COUNT)]
        self.url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.sentinels)}/{SERVICE}"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def _start(self, stack: ExitStack) -> None:
        stack.callback(self._stop)
        for port in self.servers:
            self.start(port)
        self.wait(lambda: all(map(self.follows, self.servers[1:])), "two replicas of the master")
        for port in self.sentinels:  # after the replicas: a Sentinel asks a master for its replicas only every 10 s
            self._run(port, "--sentinel")
        self.wait(self._settled, "three servers and three Sentinels that know each other")

    def client(self, port: int) -> Any:  # noqa: ANN401 -- redis-py types one class for two kinds of client
        """A client of one server or Sentinel."""
        return redis.Redis(port=port, socket_timeout=1, decode_responses=True)

    def master(self) -> int | None:
        """The port of the master by a majority of the Sentinels; None while they disagree."""
        named = [self._named(port) for port in self.sentinels]
        return next((port for port in named if port is not None and named.count(port) >= QUORUM), None)

    def kill(self, port: int) -> None:
        """Kills a server with SIGKILL."""
        process = self._processes.pop(port)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def start(self, port: int) -> None:
        """Starts a server: the first one as the master, any other as a replica of the present master."""
        master = self.servers[0] if len(self._processes) < COUNT else self.master()
        self._run(port, *(() if master in (port, None) else ("--replicaof", "127.0.0.1", str(master))))

    def hand_over(self, port: int) -> None:
        """Makes another server the master by command, then tells the Sentinels.

        Sentinels would cut the connections to the old master; so its clients keep them, and find it read-only from then on.
        """
        before = self.master()
        assert before is not None and before != port
        self.client(port).execute_command("REPLICAOF", "NO", "ONE")
        self.client(before).execute_command("REPLICAOF", "127.0.0.1", port)
        for sentinel in map(self.client, self.sentinels):
            sentinel.execute_command("SENTINEL", "REMOVE", SERVICE)
            sentinel.execute_command("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", port, QUORUM)

    def wait(self, condition: Callable[[], object], what: str, timeout_s: float = START_S) -> None:
        """Returns when the condition holds. Raises TimeoutError: it does not within `timeout_s`."""
        if not wait_until(condition, timeout_s, interval_s=0.01):
            raise TimeoutError(f"waited {timeout_s:g} s for {what}; the logs are in {self.directory}")

    def pids(self) -> list[int]:
        """The process ids of the running servers and Sentinels."""
        return [process.pid for process in self._processes.values()]

    def follows(self, port: int) -> bool:
        """Whether a server is an up-to-date replica of a master."""
        try:
            found: bool = self.client(port).info("replication").get("master_link_status") == "up"
        except RedisError:
            return False
        return found

    def _settled(self) -> bool:
        try:
            states = [self.client(port).sentinel_masters()[SERVICE] for port in self.sentinels]
        except (RedisError, KeyError):
            return False
        return all(state["num-other-sentinels"] == COUNT - 1 and state["num-slaves"] == COUNT - 1 for state in states)

    def _named(self, port: int) -> int | None:
        try:
            return int(self.client(port).sentinel_masters()[SERVICE]["port"])
        except (RedisError, KeyError):
            return None

    def _run(self, port: int, *options: str) -> None:
        program = shutil.which("redis-server")
        assert program is not None, "the caller has checked"
        folder = self.directory / str(port)
        folder.mkdir(exist_ok=True)
        path = folder / "redis.conf"
        path.write_text("\n".join([*self._lines(port, folder, "--sentinel" in options)]) + "\n")
        with (folder / "log").open("ab") as log:
            command = with_owner([program, str(path), *options])
            self._processes[port] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _lines(self, port: int, folder: Path, watches: bool) -> Iterator[str]:
        yield from (f"port {port}", "bind 127.0.0.1", f'dir "{folder}"', "daemonize no")
        if not watches:
            yield from ('save ""', "appendonly no", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
            return
        yield f"sentinel monitor {SERVICE} 127.0.0.1 {self.servers[0]} {QUORUM}"
        yield f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}"
        yield f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}"

    def _stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            end_process(process, STOP_S)
