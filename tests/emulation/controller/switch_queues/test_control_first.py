"""Control frames under `baton free` with every link full, on userspace switches whose ports an operator has shaped.

Nothing is tuned for Baton here: the switches' sockets are as Open vSwitch makes them, and each port has one queue, first in,
first out, for all that leaves by it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.store.store import Store
from controller.supervision import runstate
from emulation.fabric.ovs import OpenVSwitch
from emulation.processes import end_process
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from tests.emulation.namespaces import run

pytestmark = pytest.mark.usefixtures("in_a_box")

ROOT = Path(__file__).parents[4]
FLOOD_S, FLOOD_MOST_S = 20, 90
START_S = 45
"""How long an agent may take to start on processors that the flood occupies."""
HOSTS = {"h1": "f1", "h2": "f1", "h3": "f2", "h4": "f2"}
FLOODS = tuple((one, other) for one in HOSTS for other in HOSTS if HOSTS[one] != HOSTS[other])
FLOOD_MBPS = 13
FLOOD = """
import socket, sys, time
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
pause, until = 10 * 1442 * 8 / float(sys.argv[2]) / 1e6, time.monotonic() + float(sys.argv[3])
due = time.monotonic()
while due < until:
    for _ in range(10):
        try:
            made.sendto(bytes(1400), (sys.argv[1], 9))
        except OSError:
            pass
    due += pause
    time.sleep(max(0, due - time.monotonic()))
"""
FAIL_OPEN = "200ms"
"""How long an agent waits for its leader: a slow machine, whose processors the flood and the switches take, keeps a leader from
them for more than the usual 50 ms. Without priority a frame waits for 120 ms at a full port, if it is not among the half that
is lost there."""
SENT_MBPS = 40
"""What the agents are told that their hosts' links carry: more than each sends."""
PORTS = {"f1-f2": 30, "f2-f1": 30, **{f"{host}-p": 10 for host in HOSTS}}
"""The rate of each port in Mb/s: little, since the kernel serves shaped ports before any process, and a leader that it keeps
from a processor for 50 ms is lost however its frames are queued; and a half less than what is sent, for who sends may have to
wait for a processor, too."""
BRIDGE = ("datapath_type=netdev", "protocols=OpenFlow13", "fail-mode=secure")
PLAIN = ("tx", "off", "tso", "off", "gso", "off", "gro", "off")
BATON = (sys.executable, "-m", "cli.main")


def until(condition: Callable[[], object], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def queues() -> str:
    """What the operator has set at the ports, and what is attached to them; without counters and default queues."""
    shown = [f"{port}: {run('tc', 'qdisc', 'show', 'dev', port)}" for port in sorted(PORTS)]
    return "\n".join(shown) + "".join(run("tc", "filter", "show", "dev", port, "egress") for port in sorted(PORTS))


class Fabric:
    """Two switches, two hosts at each, the controller at the first."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory, self._stack = directory, stack
        self.run_dir = directory / "run"
        self.logs: dict[str, Path] = {}
        self.switch = stack.enter_context(OpenVSwitch())
        master = Master(Key.generate(directory / "key"))
        for host in HOSTS:
            host_file.save(master.enroll(host), directory / f"{host}.host")
        for bridge in ("f1", "f2"):
            self.switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, *BRIDGE)
        run("ip", "link", "add", "f1-f2", "type", "veth", "peer", "name", "f2-f1")
        stack.callback(run, "ip", "link", "del", "f1-f2")
        for number, (host, bridge) in enumerate(HOSTS.items(), 1):
            run("ip", "netns", "add", host)
            stack.callback(run, "ip", "netns", "del", host)
            run("ip", "link", "add", f"{host}-p", "type", "veth", "peer", "name", "eth0", "netns", host)
            run("ip", "-n", host, "addr", "add", f"10.9.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", host, "link", "set", device, "up")
            run("ip", "netns", "exec", host, "ethtool", "-K", "eth0", *PLAIN)
            self.switch.vsctl("add-port", bridge, f"{host}-p")
        run("ip", "link", "add", "ctl", "type", "veth", "peer", "name", "f1-c")
        stack.callback(run, "ip", "link", "del", "ctl")
        for port, bridge in (("f1-f2", "f1"), ("f2-f1", "f2"), ("f1-c", "f1")):
            self.switch.vsctl("add-port", bridge, port)
        for port in (*PORTS, "f1-c", "ctl"):
            run("ip", "link", "set", port, "up")
            run("ethtool", "-K", port, *PLAIN)
        for port, rate in PORTS.items():
            self.switch.vsctl("--", "--id=@q", "create", "QoS", "type=linux-noop", "--", "set", "Port", port, "qos=@q")
            run("tc", "qdisc", "replace", "dev", port, "root", "tbf", "rate", f"{rate}mbit", "burst", "6kb", "limit", "150kb")

    def up(self) -> Store:
        """Starts the controller side as an operator does."""
        config = {
            "run_dir": str(self.run_dir),
            "coordinator": {"interface": "ctl", "attachment": "f1:f1-c", "key_file": "key", "fail_open": FAIL_OPEN},
            "web": "none",
        }
        (self.directory / "baton.yaml").write_text(json.dumps(config))
        run(*BATON, "up", "--config", str(self.directory / "baton.yaml"))
        self._stack.callback(self.down)
        for bridge in ("f1", "f2"):
            self.switch.vsctl("set-controller", bridge, "tcp:127.0.0.1:6653")
        store = Store(runstate.load(self.run_dir).store)
        self._stack.callback(store.close)
        return store

    def down(self) -> None:
        """Ends the controller side."""
        subprocess.run([*BATON, "down", "--run-dir", str(self.run_dir)], check=False, capture_output=True)

    def agent(self, host: str) -> None:
        """Starts the agent of a host."""
        self.logs[host] = self.directory / f"agent-{host}.log"
        state = self.directory / f"run-{host}"
        state.mkdir()
        command = [*BATON, "agent", "--interface", "eth0", "--rate", f"{SENT_MBPS}mbit"]
        command += ["--key", str(self.directory / f"{host}.host"), "--run-dir", str(state)]
        command += ["--name", host, "--address", f"10.9.0.{host[1:]}"]
        with self.logs[host].open("ab") as log:
            process = subprocess.Popen(["ip", "netns", "exec", host, *command], stderr=log, cwd=ROOT)
        self._stack.callback(end_process, process)

    def flood(self) -> None:
        """Starts more UDP traffic than any of the links carries, in both directions."""
        for source, target in FLOODS:
            command = [sys.executable, "-c", FLOOD, f"10.9.0.{target[1:]}", str(FLOOD_MBPS), str(FLOOD_MOST_S)]
            process = subprocess.Popen(["ip", "netns", "exec", source, *command])
            self._stack.callback(end_process, process)

    def said(self, text: str) -> dict[str, int]:
        """How often each agent has logged this."""
        return {host: log.read_text().count(text) for host, log in self.logs.items()}


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Fabric]:
    with ExitStack() as stack:
        os.chdir(ROOT)
        yield Fabric(tmp_path, stack)


def test_with_every_link_flooded_no_agent_loses_the_leader_and_a_new_one_registers(fabric: Fabric) -> None:
    before = queues()
    store = fabric.up()
    until(lambda: store.status() is not None, "the coordinator reports")
    for host in ("h1", "h2", "h3"):
        fabric.agent(host)

    def members() -> int:
        return int((store.status() or {}).get("members", 0))

    until(lambda: members() == 3, "three members", 30)
    for host in HOSTS:
        subprocess.run(["ip", "netns", "exec", host, "ping", "-c1", "-W1", "10.9.0.1"], check=False, capture_output=True)
    store.set_override("free")
    until(lambda: (store.status() or {}).get("override") == "free", "the override")
    lost = fabric.said("nothing heard")
    fabric.flood()
    time.sleep(FLOOD_S / 2)
    fabric.agent("h4")
    until(lambda: members() == 4, "the agent that was started in the middle is a member", START_S)
    time.sleep(FLOOD_S / 2)
    full = {port: json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", port))[0] for port in PORTS}
    assert all(queue["overlimits"] > 1000 for queue in full.values()), full
    assert {**lost, "h4": 0} == fabric.said("nothing heard")
    assert members() == 4
    assert not [event for event in store.events() if "silent" in event.get("text", "")]
    assert queues() == before
    fabric.down()
    links = json.loads(run("ip", "-d", "-j", "link", "show"))
    assert queues() == before and not [link["ifname"] for link in links if "xdp" in link]
