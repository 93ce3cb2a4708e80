"""A private Open vSwitch and hosts, each in a network namespace of its own, for root tests.

Every name has a unique tag, and `close()` removes everything; it ends processes by their handles.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emulation.fabric.ovs import SCHEMA, OpenVSwitch
from emulation.processes import end_process
from tests.emulation.namespaces import inside

CONTROL_ETHERTYPE = 0x88B5


def missing() -> str | None:
    """Why such a test cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ip", "ethtool"):
        if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            return f"needs {tool} (apt-get install openvswitch-switch iproute2 ethtool)"
    return None if SCHEMA.exists() else f"needs {SCHEMA} (apt-get install openvswitch-switch)"


def run(*command: str) -> str:
    """Runs a command; its standard output. Raises CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class PrivateNetwork:
    """Namespaces: one for the switches ("fabric"), one for each host. Use as a context manager."""

    def __init__(self) -> None:
        self.tag = f"bt{uuid.uuid4().hex[:6]}"
        self.fabric = f"{self.tag}-fabric"
        self._stack = contextlib.ExitStack()
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=self.tag)))
        self.ovs = OpenVSwitch()

    def __enter__(self) -> PrivateNetwork:
        try:
            self._namespace(self.fabric)
            with inside(self.fabric):  # its daemons stay in the namespace in which they started
                self._stack.enter_context(self.ovs)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends and removes everything, the last first."""
        self._stack.close()

    def host_namespace(self, host: str) -> str:
        """The namespace of a host."""
        return f"{self.tag}-{host}"

    def spawn(self, name: str, *command: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Starts a process in the fabric's namespace, with its output in NAME.log; `close` ends it."""
        log = (self.directory / f"{name}.log").open("ab")
        process = subprocess.Popen(
            ("ip", "netns", "exec", self.fabric, *command),
            stdout=log,
            stderr=log,
            env={**os.environ, **(env or {})},
        )
        log.close()
        self._stack.callback(end, process)
        return process

    def log(self, name: str) -> str:
        """The output of a spawned process."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def add_switch(self, name: str, dpid: int, controller: str) -> None:
        """Adds a userspace bridge that forwards nothing without its controller, to which it tries to connect every second."""
        self.ovs.vsctl(
            *("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"),
            *("fail_mode=secure", "protocols=OpenFlow13", f"other-config:datapath-id={dpid:016x}"),
            *("--", "set-controller", name, controller, "--", "set", "controller", name),
            *("max_backoff=1000", "connection_mode=out-of-band"),
        )

    def add_link(self, switch: str, port: str, other: str, other_port: str) -> None:
        """Joins two switches by a cable."""
        self.ip("link", "add", port, "type", "veth", "peer", "name", other_port)
        for name, bridge in ((port, switch), (other_port, other)):
            self.ip("link", "set", name, "up")
            self.ovs.vsctl("add-port", bridge, name)

    def add_host(self, host: str, switch: str, port: str, mac: str, address: str) -> None:
        """Adds a host (interface eth0, `address` with prefix length) at a switch port."""
        namespace = self.host_namespace(host)
        self._namespace(namespace)
        self.ip(
            "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", namespace
        )
        self.ip("link", "set", port, "up")
        run("ip", "-n", namespace, "address", "add", address, "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")
        run("ip", "netns", "exec", namespace, "ethtool", "-K", "eth0", "tx", "off")
        self.ovs.vsctl("add-port", switch, port)

    def ip(self, *arguments: str) -> str:
        """Runs ip in the fabric's namespace."""
        return run("ip", "-n", self.fabric, *arguments)

    def raw_socket(self, host: str, kind: int) -> socket.socket:
        """A raw Ethernet socket on the host's eth0 for one EtherType."""
        with inside(self.host_namespace(host)):
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
            raw.bind(("eth0", kind))
        self._stack.callback(raw.close)
        return raw

    def udp_socket(self, host: str, port: int = 0) -> socket.socket:
        """A UDP socket of the host."""
        with inside(self.host_namespace(host)):
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.bind(("0.0.0.0", port))
        self._stack.callback(udp.close)
        return udp

    def _namespace(self, name: str) -> None:
        run("ip", "netns", "add", name)
        self._stack.callback(run, "ip", "netns", "delete", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, unless it has ended."""
    if process.poll() is None:
        end_process(process)


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:  # noqa: ANN401 -- what the condition gives
    """The condition's value once it is true; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return value
