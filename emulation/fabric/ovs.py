"""A private Open vSwitch: its own ovsdb-server, ovs-vswitchd, sockets and database. An edge: starts processes.

    with OpenVSwitch() as ovs:
        ovs.vsctl("add-br", "s1", "--", "set", "Bridge", "s1", f"datapath_type={ovs.datapath_type}")

While it runs, OVS_RUNDIR in the environment names its sockets, so ovs-vsctl, ovs-ofctl and Mininet's OVSSwitch reach it.

The userspace datapath (`netdev`) sends the frames of all ports through one AF_PACKET socket. Its default send buffer holds
fewer frames (about 92) than the queue of one port, so it would drop frames for any port before a queue is full. The datapath
receives through one more socket for each port. `widen_packet_sockets` makes the send buffer so large that only the ports'
queues drop, and the receive buffers large enough for a late wake-up but too small to act as a second queue; `overruns` counts
their losses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from emulation import box
from emulation.processes import end_process
from emulation.resource import Resource

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
START_TIMEOUT_S = 10
STOP_TIMEOUT_S = 5
SEND_BUFFER_BYTES = 16 << 20
RECEIVE_BUFFER_BYTES = 256 << 10  # which the kernel doubles: about 220 frames, 27 ms at 100 Mb/s
SWITCH_PRIORITY = 45
"""Of ovs-vswitchd, SCHED_FIFO: above the coordinator's and the agents'."""
SWITCH_RUNTIME_NS, SWITCH_PERIOD_NS = 4_900_000, 5_000_000
"""Of its main thread, SCHED_DEADLINE (sched(7)). At a fixed priority the kernel's fair server takes the processor away for 50
ms of each second; a thread with an earlier deadline than the server's runs before it, and waits at most 0.1 ms a period."""
_SYS_PIDFD_GETFD = 438  # the same on every architecture (asm-generic/unistd.h)
_SO_SNDBUFFORCE = 32  # asm-generic/socket.h; not in Python 3.11's socket module
_SO_RCVBUFFORCE = 33
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # packet(7)


class OpenVSwitchError(RuntimeError):
    """Open vSwitch cannot be started, or refused a command; one line."""


class OpenVSwitch(Resource):
    """A running Open vSwitch; its processes and files are gone at the end of the block."""

    def __init__(self) -> None:
        self.datapath_type = "netdev"
        self.version = ""
        self.rundir = Path()
        self.switch_pid = 0
        self._interval_ms = 5000

    def vsctl(self, *arguments: str) -> str:
        """Runs ovs-vsctl, which waits until ovs-vswitchd has carried the command out; what it printed.

        Raises:
            OpenVSwitchError: the command failed.
        """
        return _tool("ovs-vsctl", "--timeout=10", *arguments)

    def refresh(self) -> None:
        """Makes Open vSwitch write the state of the controllers' connections (`is_connected`, `role`) into its database soon.

        It does so every `stats-update-interval`, which cannot be less than 5 s, and when that interval changes.
        """
        self._interval_ms = 5001 if self._interval_ms == 5000 else 5000
        self.vsctl("set", "Open_vSwitch", ".", f"other_config:stats-update-interval={self._interval_ms}")

    def reconnect(self, bridges: Sequence[str], timeout_s: float) -> int:
        """Makes bridges connect to their controllers; returns when all are connected, or how many are not after `timeout_s`.

        A bridge whose attempt failed would wait up to 8 s before the next (`max_backoff` holds from the first connection on).
        """
        deadline = time.monotonic() + timeout_s
        for bridge in bridges:
            targets = self.vsctl("get-controller", bridge).split()
            self.vsctl("del-controller", bridge)
            self.vsctl("set-controller", bridge, *targets)
        while count := self.vsctl("--bare", "--columns=is_connected", "list", "Controller").count("false"):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
            self.refresh()
        return count

    def ofctl(self, *arguments: str) -> str:
        """Runs ovs-ofctl with any version of OpenFlow that the switch supports."""
        return _tool("ovs-ofctl", "-O", "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15", *arguments)

    def appctl(self, *arguments: str) -> str:
        """Runs ovs-appctl on ovs-vswitchd."""
        return _tool("ovs-appctl", *arguments)

    def widen_packet_sockets(self) -> int:
        """Gives every packet socket of ovs-vswitchd the buffers described above; how many sockets there are.

        Call it after ports were added and a frame was sent: Open vSwitch makes the sockets on first use.
        """
        count = 0
        for borrowed in self._packet_sockets():
            borrowed.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
            borrowed.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
            count += 1
        return count

    def warm_up(self, bridge: str, port: int, source_mac: str) -> None:
        """Has a bridge send a frame by a port, for which the userspace datapath makes its sending socket, and prepares it.

        No host takes the frame.
        """
        frame = "ffffffffffff" + source_mac.replace(":", "") + "88b6" + "00" * 46
        self.ofctl("packet-out", bridge, f"in_port=controller packet={frame} actions=output:{port}")
        self.widen_packet_sockets()
        self.set_deadline()

    def overruns(self) -> int:
        """How many arriving frames were lost since the last call because ovs-vswitchd was late and a receive buffer was
        full."""
        # struct tpacket_stats: packets, drops. Reading resets both; OVS does not read them.
        return sum(
            struct.unpack("II", borrowed.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
            for borrowed in self._packet_sockets()
        )

    def set_deadline(self) -> None:
        """Runs the switch's main thread before all others. Call it once the bridges exist: such a thread cannot start
        others."""
        times = [f"--sched-runtime={SWITCH_RUNTIME_NS}"]
        times += [f"--sched-{what}={SWITCH_PERIOD_NS}" for what in ("deadline", "period")]
        # The kernel refuses it if other threads have reserved too much; the switch then keeps its fixed priority.
        command = ["chrt", "--deadline", "--reset-on-fork", *times, "--pid", "0", str(self.switch_pid)]
        subprocess.run(command, capture_output=True, check=False)

    def waited_ns(self) -> int:
        """How long the switch, ready to run, has waited for a processor since its start (proc(5), schedstat)."""
        return int(Path(f"/proc/{self.switch_pid}/schedstat").read_text().split()[1])

    def _packet_sockets(self) -> Iterator[socket.socket]:
        """A copy of each packet socket of ovs-vswitchd in turn, closed after its turn."""
        inodes = {line.split()[8] for line in Path("/proc/net/packet").read_text().splitlines()[1:]}
        for descriptor in Path(f"/proc/{self.switch_pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:[") and target[8:-1] in inodes:
                with _borrowed_socket(self.switch_pid, int(descriptor.name)) as borrowed:
                    yield borrowed

    def _start(self, stack: ExitStack) -> None:
        programs = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
        if missing := [program for program in programs if shutil.which(program) is None]:
            raise OpenVSwitchError(f"{missing[0]} not found; install the package openvswitch-switch")
        self.rundir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-ovs-", dir=_run_directory())))
        database, remote = self.rundir / "conf.db", self.rundir / "db.sock"
        _set_environment(stack, "OVS_RUNDIR", str(self.rundir))
        _tool("ovsdb-tool", "create", str(database), str(SCHEMA))
        self._daemon(stack, "ovsdb-server", str(database), f"--remote=punix:{remote}", ready=remote)
        _tool("ovs-vsctl", "--no-wait", "--timeout=10", "init")
        # At real-time priority: on hardware the switch shares no processor with hosts, agents and coordinator.
        command = ("chrt", "-f", str(SWITCH_PRIORITY), "ovs-vswitchd", f"unix:{remote}", "--pidfile")
        switch = self._daemon(stack, *command, ready=self.rundir / "ovs-vswitchd.pid")
        self.switch_pid = switch.pid
        stack.callback(self._clean_up, switch)
        self.version = self.vsctl("--version").split()[3]
        if subprocess.run(["ovs-dpctl", "show"], capture_output=True, check=False).returncode == 0:
            self.datapath_type = "system"

    def _clean_up(self, switch: subprocess.Popen[bytes]) -> None:
        # A switch that a signal ends leaves its bridges' interfaces behind.
        with contextlib.suppress(OpenVSwitchError, subprocess.TimeoutExpired):
            self.appctl("exit", "--cleanup")
            switch.wait(STOP_TIMEOUT_S)

    def _daemon(self, stack: ExitStack, *argv: str, ready: Path) -> subprocess.Popen[bytes]:
        log = (self.rundir / f"{ready.stem}.log").open("wb")
        stack.enter_context(log)
        # A session of its own: Ctrl-C must not end it before the program that started it stops it in order.
        process = subprocess.Popen(
            [*argv, "-vconsole:warn", "-vsyslog:off"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        stack.callback(end_process, process, STOP_TIMEOUT_S)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = Path(log.name).read_text(errors="replace").strip().splitlines()
                raise OpenVSwitchError(f"{' '.join(argv)} did not start: {tail[-1] if tail else 'it printed nothing'}")
            time.sleep(0.01)
        return process


def _tool(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OpenVSwitchError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _run_directory() -> str | None:
    # In a box /run is private, and vanishes with the box even after kill -9.
    return "/run" if box.inside() else None


def _set_environment(stack: ExitStack, name: str, value: str) -> None:
    before = os.environ.get(name)
    os.environ[name] = value
    stack.callback(lambda: os.environ.pop(name, None) if before is None else os.environ.update({name: before}))


def _borrowed_socket(pid: int, descriptor: int) -> socket.socket:
    """A copy of another process's socket, by pidfd_getfd(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.pidfd_open(pid)
    try:
        own = libc.syscall(_SYS_PIDFD_GETFD, handle, descriptor, 0)
        if own < 0:
            number = ctypes.get_errno() or errno.EPERM
            raise OSError(number, f"pidfd_getfd: {os.strerror(number)}")
    finally:
        os.close(handle)
    return socket.socket(fileno=own)


def main() -> int:
    """`python -m emulation.fabric.ovs -- COMMAND...`: runs a command beside a private Open vSwitch, with OVS_RUNDIR set."""
    argv = sys.argv[1:]
    argv = argv[1:] if argv[:1] == ["--"] else argv
    if not argv:
        raise SystemExit("usage: python -m emulation.fabric.ovs -- COMMAND [ARGUMENT...]")
    try:
        with OpenVSwitch():
            return subprocess.run(argv, check=False).returncode
    except OpenVSwitchError as error:
        raise SystemExit(f"ovs: {error}") from None


if __name__ == "__main__":
    raise SystemExit(main())
