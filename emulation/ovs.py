"""A private Open vSwitch: its own ovsdb-server, ovs-vswitchd, sockets and database. An edge: starts processes.

    with OpenVSwitch() as ovs:
        ovs.vsctl("add-br", "s1", "--", "set", "Bridge", "s1", f"datapath_type={ovs.datapath_type}")

While it runs, OVS_RUNDIR in the environment names its sockets, so ovs-vsctl, ovs-ofctl and Mininet's OVSSwitch reach it.

The userspace datapath (`netdev`) sends all ports' frames through one AF_PACKET socket, whose default send buffer holds fewer frames
(about 92) than one port's queue: frames are lost there, whichever port they are for, before any queue is full. It receives each
port's through one more, whose default buffer a burst overflows. `widen_packet_sockets` makes both large enough that the queues of
the ports, and only they, decide what is dropped.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
START_TIMEOUT_S = 10
STOP_TIMEOUT_S = 5
SOCKET_BUFFER_BYTES = 16 << 20
_SYS_PIDFD_GETFD = 438  # the same on every architecture (asm-generic/unistd.h)
_SO_SNDBUFFORCE = 32  # asm-generic/socket.h; not in Python 3.11's socket module
_SO_RCVBUFFORCE = 33


class OpenVSwitchError(RuntimeError):
    """Open vSwitch can't be started or refused a command; the text is one line."""


class OpenVSwitch:
    """A running Open vSwitch. Use as a context manager; everything is stopped and removed at its end."""

    def __init__(self) -> None:
        self.datapath_type = "netdev"
        self.version = ""
        self.rundir = Path()
        self.switch_pid = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # a failed start undoes what it did
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def vsctl(self, *arguments: str) -> str:
        """Runs ovs-vsctl, which waits until ovs-vswitchd has done it; gives what it printed.

        Raises:
            OpenVSwitchError: it failed.
        """
        return _tool("ovs-vsctl", "--timeout=10", *arguments)

    def ofctl(self, *arguments: str) -> str:
        """Runs ovs-ofctl, speaking any version of OpenFlow that the switch speaks."""
        return _tool("ovs-ofctl", "-O", "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15", *arguments)

    def appctl(self, *arguments: str) -> str:
        """Runs ovs-appctl on ovs-vswitchd."""
        return _tool("ovs-appctl", *arguments)

    def widen_packet_sockets(self, size_bytes: int = SOCKET_BUFFER_BYTES) -> int:
        """Gives every packet socket of ovs-vswitchd buffers of `size_bytes`; returns how many there are.

        To be called after ports were added and a frame was sent: the sockets are made on first use.
        """
        inodes = {line.split()[8] for line in Path("/proc/net/packet").read_text().splitlines()[1:]}
        count = 0
        for descriptor in Path(f"/proc/{self.switch_pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:[") and target[8:-1] in inodes:
                with _borrowed_socket(self.switch_pid, int(descriptor.name)) as borrowed:
                    borrowed.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size_bytes)
                    borrowed.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size_bytes)
                count += 1
        return count

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
        # The switch must not wait for the hosts' programs: on hardware they don't share a processor.
        switch = self._daemon(
            stack, "nice", "-n", "-20", "ovs-vswitchd", f"unix:{remote}", "--pidfile", ready=self.rundir / "ovs-vswitchd.pid"
        )
        self.switch_pid = switch.pid
        self.version = self.vsctl("--version").split()[3]
        if subprocess.run(["ovs-dpctl", "show"], capture_output=True, check=False).returncode == 0:
            self.datapath_type = "system"

    def _daemon(self, stack: ExitStack, *argv: str, ready: Path) -> subprocess.Popen[bytes]:
        log = (self.rundir / f"{ready.stem}.log").open("wb")
        stack.enter_context(log)
        # A session of its own: Ctrl-C on the terminal is for whoever stops it in order.
        process = subprocess.Popen(
            [*argv, "-vconsole:warn", "-vsyslog:off"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        stack.callback(_stop, process)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = Path(log.name).read_text(errors="replace").strip().splitlines()
                raise OpenVSwitchError(f"{' '.join(argv)} did not start: {tail[-1] if tail else 'it said nothing'}")
            time.sleep(0.01)
        return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tool(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OpenVSwitchError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _run_directory() -> str | None:
    # In a box /run is private and vanishes with it, even after kill -9.
    from emulation import box

    return "/run" if box.inside() else None


def _set_environment(stack: ExitStack, name: str, value: str) -> None:
    before = os.environ.get(name)
    os.environ[name] = value
    stack.callback(lambda: os.environ.pop(name, None) if before is None else os.environ.update({name: before}))


def _borrowed_socket(pid: int, descriptor: int) -> socket.socket:
    """Another process's socket, by pidfd_getfd(2)."""
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
