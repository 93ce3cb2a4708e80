"""Ordinary programs as traffic: iperf3, wget from a web server, scp, ping, as they are installed. An edge: processes, files.

    with Clients(emulated, [Client("wget", "h2", "h6")], directory) as clients:
        ...
        clients.got("h2", from_ns, until_ns)

Every program writes what it receives into a file, whose length is looked at each millisecond: nothing is put between a program
and the network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from controller.processes.waiting import wait_until
from emulation.fabric.fabric import EmulatedFabric, EmulationError
from emulation.processes import end_process
from emulation.resource import Resource

LOOK_S = 0.001
START_S = 10.0
FOREVER_S = 3600
ENDLESS_BYTES = 1 << 40
"""The length of the file that is transferred: it has holes, so it takes no room."""
FIRST_PORT = 7001
SBIN = ("/usr/sbin", "/usr/local/sbin")
_REPLY = re.compile(r"^\[([0-9.]+)\] .* icmp_seq=(\d+) .*time=([0-9.]+) ms$", re.MULTILINE)  # no "(DUP!)" follows
_UNANSWERED = re.compile(r"^\[([0-9.]+)\] no answer yet for icmp_seq=(\d+)", re.MULTILINE)
_SUMMARY = "packets transmitted"


Kind = Literal["iperf3", "wget", "scp"]
NEEDS: Mapping[Kind, tuple[str, ...]] = {"iperf3": ("iperf3",), "wget": ("wget",), "scp": ("scp", "sshd", "ssh-keygen")}


class Client(NamedTuple):
    """A program that transfers data from one host to another."""

    kind: Kind
    source: str
    destination: str


class Got(NamedTuple):
    """What a program received in some time, and the longest time in which it received nothing."""

    size: int
    stall_ns: int


def found(program: str) -> str | None:
    """The path of a program, also of one for administrators; None: it is not installed."""
    return shutil.which(program) or next((f"{place}/{program}" for place in SBIN if Path(place, program).exists()), None)


def installed() -> list[Kind]:
    """The kinds of clients that this machine can run."""
    return [kind for kind, programs in NEEDS.items() if all(map(found, programs))]


def web_server() -> str:
    """The web server that `wget` is given: nginx where it is installed."""
    return "nginx" if found("nginx") else "http.server"


class Growth:
    """When a file grew, and to which length. Pure."""

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        self.sizes: list[int] = []

    def seen(self, at_ns: int, size: int) -> None:
        """Takes the file's length at an instant."""
        if size != (self.sizes[-1] if self.sizes else 0):
            self.times_ns.append(at_ns)
            self.sizes.append(size)

    def got(self, from_ns: int, until_ns: int) -> Got:
        """What was added within [from, until), and the longest time in it without growth."""
        first, last = bisect_left(self.times_ns, from_ns), bisect_left(self.times_ns, until_ns)
        before = self.sizes[first - 1] if first else 0
        edges = [from_ns, *self.times_ns[first:last], until_ns]
        size = self.sizes[last - 1] - before if last > first else 0
        return Got(size, max(later - earlier for earlier, later in pairwise(edges)))


class Clients(Resource):
    """Programs that run until the block ends."""

    def __init__(self, emulated: EmulatedFabric, clients: Sequence[Client], directory: Path) -> None:
        """`directory` gets the transferred files and the servers' own.

        Raises:
            EmulationError: a program is not installed; names it and its package.
        """
        if absent := {client.kind for client in clients} - set(installed()):
            packages = {"scp": "openssh-client and openssh-server"}
            kind = min(absent)
            raise EmulationError(f"{kind} cannot run here: apt-get install {packages.get(kind, kind)}, or leave it out")
        self._emulated = emulated
        self._clients = tuple(clients)
        self._directory = directory
        self._growths = {client.source: Growth() for client in clients}
        self._ended = threading.Event()
        self._late: list[tuple[int, int]] = []

    def _start(self, stack: ExitStack) -> None:
        with (self._directory / "endless").open("wb") as endless:
            endless.truncate(ENDLESS_BYTES)
        for number, client in enumerate(self._clients):
            getattr(self, f"_start_{client.kind}")(client, FIRST_PORT + number, stack)
        watcher = threading.Thread(target=self._watch, name="clients", daemon=True)
        watcher.start()
        stack.callback(watcher.join)
        stack.callback(self._ended.set)
        missing = [client for client in self._clients if not wait_until(lambda one=client: self._size(one) > 0, START_S)]  # type: ignore[misc]
        if missing:
            said = (self._directory / f"{missing[0].source}.log").read_text(errors="replace").strip().splitlines()
            raise EmulationError(f"{missing[0].kind} from {missing[0].source} transfers nothing: {said[-1] if said else ''}")

    def got(self, source: str, from_ns: int, until_ns: int) -> Got:
        """What the program got from this source between two instants of CLOCK_MONOTONIC."""
        return self._growths[source].got(from_ns, until_ns)

    def unseen_ns(self, from_ns: int, until_ns: int) -> int:
        """The longest time between two instants in which nobody looked at the files, because this process had no processor."""
        return max((late for at_ns, late in self._late if from_ns <= at_ns < until_ns), default=0)

    # -- programs -------------------------------------------------------------------------------------------------------

    def _start_iperf3(self, client: Client, port: int, stack: ExitStack) -> None:
        block = ("-l", "16K")  # which it writes as a whole: of its usual 128 KB a slow flow gets few a second
        self._run(client.destination, ["iperf3", "-s", "-p", port, "-F", self._file(client)], client, stack)
        self._await_port(client.destination, port)
        to = self._emulated.endpoints()[client.destination]
        self._run(client.source, ["iperf3", "-c", to, "-p", port, "-t", FOREVER_S, *block], client, stack)

    def _start_wget(self, client: Client, port: int, stack: ExitStack) -> None:
        if (nginx := found("nginx")) is not None:
            config = self._directory / f"nginx-{port}.conf"
            kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            own = " ".join(f"{kind}_temp_path {self._directory}/{kind};" for kind in kinds)
            config.write_text(
                f"daemon off; user root; pid {config}.pid; error_log stderr; worker_processes 1; events {{}}\n"
                f"http {{ access_log off; {own} server {{ listen {port}; root {self._directory}; }} }}\n"
            )
            server = [nginx, "-p", self._directory, "-c", config]
        else:
            server = [sys.executable, "-m", "http.server", port, "--directory", self._directory]
        self._run(client.source, server, client, stack)
        self._await_port(client.source, port)
        url = f"http://{self._emulated.endpoints()[client.source]}:{port}/endless"
        self._run(client.destination, ["wget", "-q", "-O", self._file(client), url], client, stack)

    def _start_scp(self, client: Client, port: int, stack: ExitStack) -> None:
        keys = {name: self._directory / f"{name}-{port}" for name in ("host", "user")}
        for key in keys.values():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, capture_output=True)
        Path("/run/sshd").mkdir(exist_ok=True)  # in the box's own /run
        public = Path(f"{keys['user']}.pub")
        server = [found("sshd"), "-D", "-e", "-f", "/dev/null", "-p", port, "-h", keys["host"]]
        server += ["-o", f"AuthorizedKeysFile={public}", "-o", "StrictModes=no", "-o", "PidFile=none"]
        server += ["-o", "PermitRootLogin=yes", "-o", "Subsystem=sftp internal-sftp"]
        self._run(client.destination, server, client, stack)
        self._await_port(client.destination, port)
        block = ("-X", "buffer=16384")  # its usual 255 KB are 90 ms of a quarter of 100 Mb/s
        copy = ["scp", "-q", *block, "-P", port, "-i", keys["user"], "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"]
        copy += ["-o", "UserKnownHostsFile=/dev/null", self._directory / "endless"]
        to = f"root@{self._emulated.endpoints()[client.destination]}:{self._file(client)}"
        self._run(client.source, [*copy, to], client, stack)

    def _run(self, node: str, argv: Sequence[object], client: Client, stack: ExitStack) -> None:
        with (self._directory / f"{client.source}.log").open("ab") as log:
            process = self._emulated.popen_limited(node, [str(word) for word in argv], stdin=-3, stdout=log, stderr=log)
        stack.callback(end_process, process)

    def _await_port(self, node: str, port: int) -> None:
        if not wait_until(lambda: str(port) in self._emulated.run_in(node, "ss", "-Hltn", f"sport = :{port}"), START_S):
            raise EmulationError(f"{node}: no server listens at port {port} after {START_S:g} s")

    # -- what they got --------------------------------------------------------------------------------------------------

    def _file(self, client: Client) -> Path:
        return self._directory / f"{client.kind}-{client.source}"

    def _size(self, client: Client) -> int:
        file = self._file(client)
        return file.stat().st_size if file.exists() else 0

    def _watch(self) -> None:
        last_ns = time.monotonic_ns()
        while not self._ended.wait(LOOK_S):
            now_ns = time.monotonic_ns()
            self._late.append((now_ns, now_ns - last_ns))
            last_ns = now_ns
            for client in self._clients:
                self._growths[client.source].seen(time.monotonic_ns(), self._size(client))


class Ping:
    """The machine's own ping, from one host to another, in the background."""

    def __init__(self, emulated: EmulatedFabric, source: str, destination: str, interval_s: float, stack: ExitStack) -> None:
        to = str(emulated.endpoints()[destination])
        self._interval_s = interval_s
        argv = ["ping", "-n", "-D", "-O", "-i", f"{interval_s:g}", to]
        options: dict[str, Any] = {"stdin": -3, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self._process = emulated.popen(source, argv, **options)
        stack.callback(end_process, self._process)

    def result(self, from_ns: int, until_ns: int) -> Mapping[str, Any]:
        """Ends it; as `read_ping`, of the requests sent in [from, until), instants of CLOCK_MONOTONIC."""
        self._process.send_signal(2)
        out, _ = self._process.communicate(timeout=START_S)
        behind_ns = time.time_ns() - time.monotonic_ns()
        return read_ping(out, self._interval_s, (from_ns + behind_ns) / 1e9, (until_ns + behind_ns) / 1e9)


def read_ping(text: str, interval_s: float, from_s: float, until_s: float) -> dict[str, Any]:
    """What `ping -D -O` (iputils) says of the requests that it sent in [from, until), seconds of CLOCK_REALTIME.

    Returns:
        "sent", "lost", and "times_ms" of the others. A request that was under way when ping ended is none of these.

    Raises:
        EmulationError: it is no such text.
    """
    if _SUMMARY not in text:
        raise EmulationError(f"ping: no summary in {text.strip()[-80:]!r}")
    # ping says that an answer is missing when it sends the next request.
    found: dict[int, tuple[float, float | None]] = {
        int(number): (float(at_s) - interval_s, None) for at_s, number in _UNANSWERED.findall(text)
    }
    replies = {int(number): (float(at_s) - float(ms) / 1e3, float(ms)) for at_s, number, ms in _REPLY.findall(text)}
    times_ms = [ms for _, (sent_s, ms) in sorted((found | replies).items()) if from_s <= sent_s < until_s]
    answered = [ms for ms in times_ms if ms is not None]
    return {"sent": len(times_ms), "lost": len(times_ms) - len(answered), "times_ms": answered}
