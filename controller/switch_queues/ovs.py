"""Keeps Open vSwitch from changing a port's queues while Baton keeps them. An edge: runs ovs-vsctl.

Open vSwitch removes queues that it did not make, at any change of the port, unless the port's QoS has the type `linux-noop`
(ovs-vswitchd.conf.db(5)). A port outside Open vSwitch needs nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess

OWNER = "baton-switch-queues"
PATIENCE_S = 5


class PortHasQos(Exception):
    """Open vSwitch has queues of its own for the port; the text says what to do."""


def set_noop_qos(port: str) -> bool:
    """Gives the port the QoS type linux-noop; False when no Open vSwitch here has the port.

    Raises:
        PortHasQos: the port has a QoS that Baton did not make.
    """
    found = _rows("Port", port)
    if not found:
        return False
    if found[0] != ["set", []]:
        if not _ours(port):
            raise PortHasQos(f"{port}: has a QoS in Open vSwitch; `ovs-vsctl clear Port {port} qos` first")
        return True
    _forget(port)
    qos = ("--id=@q", "create", "QoS", "type=linux-noop", f"external_ids:{OWNER}={port}")
    return _vsctl(*qos, "--", "set", "Port", port, "qos=@q") is not None


def clear_noop_qos(port: str) -> None:
    """Undoes `set_noop_qos`, if Baton has called it for the port."""
    if _ours(port):
        _vsctl("--if-exists", "clear", "Port", port, "qos")
    _forget(port)


def _ours(port: str) -> bool:
    """Whether Baton made the port's QoS."""
    return any(found in _made(port) for found in _rows("Port", port))


def _forget(port: str) -> None:
    """Removes the QoS rows that Baton made for the port and that no port uses any more."""
    for row in _made(port):
        _vsctl("--if-exists", "destroy", "QoS", row[1])


def _rows(table: str, name: str) -> list[list[str]]:
    """The `qos` of the ports of this name: none, or one (["uuid", ...], or ["set", []])."""
    return _cells("--columns=qos", "find", table, f"name={name}")


def _made(port: str) -> list[list[str]]:
    return _cells("--columns=_uuid", "find", "QoS", f"external_ids:{OWNER}={port}")


def _cells(*arguments: str) -> list[list[str]]:
    text = _vsctl("--format=json", *arguments)
    return [row[0] for row in json.loads(text)["data"]] if text else []


def _vsctl(*arguments: str) -> str | None:
    """What ovs-vsctl printed; None when there is no Open vSwitch, or it refused."""
    program = shutil.which("ovs-vsctl")
    if program is None:
        return None
    command = [program, f"--timeout={PATIENCE_S}", "--no-wait", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout
