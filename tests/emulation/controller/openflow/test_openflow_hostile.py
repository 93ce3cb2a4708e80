"""Hostile peers of the OpenFlow port, against a running controller: Ryu and os-ken, with a real Open vSwitch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from controller.config.settings import OpenFlowSettings
from tests.emulation.controller.openflow.openflow_ring import COMMANDS, PORT, ROOT
from tests.emulation.namespaces import inside
from tests.emulation.ovs_private import PrivateNetwork, missing, until

pytestmark = [pytest.mark.skipif(missing() is not None, reason=str(missing()))]
HELLO_OF_LENGTH_0 = bytes.fromhex("0400000c00000001 00000000")


@pytest.fixture
def network() -> Iterator[PrivateNetwork]:
    with PrivateNetwork() as made:
        yield made


def environment(network: PrivateNetwork, framework: str) -> dict[str, str]:
    settings = network.directory / "openflow.json"
    settings.write_text(OpenFlowSettings(framework=framework).to_json())
    return {
        "BATON_SUPERVISED": "1",
        "BATON_CONFIG": str(settings),
        "BATON_REDIS": "unix:///none.sock",
        "PYTHONPATH": str(ROOT),
    }


def answer_to(network: PrivateNetwork, data: bytes) -> bytes | None:
    """What the controller sends to a stranger that sends this first; None if it does not answer."""
    try:
        with inside(network.fabric):
            stranger = socket.create_connection(("127.0.0.1", PORT), timeout=3)
        with stranger:
            stranger.sendall(data)
            return stranger.recv(100)
    except OSError:
        return None


def connected(network: PrivateNetwork, *switches: str) -> bool:
    network.ovs.refresh()
    return all(network.ovs.vsctl("get", "controller", name, "is_connected").strip() == "true" for name in switches)


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_twelve_bytes_of_a_stranger_do_not_hang_the_controller(framework: str, network: PrivateNetwork) -> None:
    network.spawn(
        "controller", "env", "-C", str(ROOT), sys.executable, *COMMANDS[framework], env=environment(network, framework)
    )
    network.add_switch("s1", 1, f"tcp:127.0.0.1:{PORT}")

    until(lambda: connected(network, "s1"), 20, f"s1 connects: {network.log('controller')}")
    for _ in range(3):
        answer_to(network, HELLO_OF_LENGTH_0)
    assert (answer_to(network, b"") or b"").startswith(b"\x04\x00\x00\x08"), "the next one is not greeted"
    assert "is refused: HELLO: element: length" in network.log("controller")
    network.add_switch("s2", 2, f"tcp:127.0.0.1:{PORT}")
    until(lambda: connected(network, "s1", "s2"), 20, "another switch connects")


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_it_does_not_listen_in_the_clear_where_others_can_reach_it(framework: str, network: PrivateNetwork) -> None:
    command = [sys.executable, *(part.replace("127.0.0.1", "0.0.0.0") for part in COMMANDS[framework])]
    told = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment(network, framework)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert told.returncode
    assert "openflow.listen: 0.0.0.0 can be reached from elsewhere; write cert, key and ca under openflow.tls" in told.stderr
