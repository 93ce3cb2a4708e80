"""The process that keeps this machine's switch ports, by itself, beside Open vSwitch and under `baton up`; checked with tc and
ovs-vsctl."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from controller.switch_queues import keeper as keeping
from controller.switch_queues.model import KeeperSettings, NamedPort, SwitchQueues
from emulation.fabric.ovs import OpenVSwitch

pytestmark = pytest.mark.usefixtures("in_a_box")

PORT, OTHER = "kp1", "kp2"


def tool(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def until(condition: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.05)


def shown(port: str) -> str:
    return tool("tc", "qdisc", "show", "dev", port) + tool("tc", "filter", "show", "dev", port, "egress")


def kept(port: str) -> bool:
    """Root, data and all eight fifos are there, and the classifier."""
    text = shown(port)
    return all(f" {handle}: " in text for handle in ("ba70", "ba73", *(f"ba8{queue}" for queue in range(8)))) and (
        "name baton_queues" in text
    )


@pytest.fixture
def ports() -> Iterator[None]:
    """Two cables; whatever a test leaves goes with them."""
    for port in (PORT, OTHER):
        add(port)
    yield
    for port in (PORT, OTHER):
        subprocess.run(["ip", "link", "del", port], check=False, capture_output=True)


def add(port: str) -> None:
    tool("ip", "link", "add", port, "type", "veth", "peer", "name", f"{port}f")
    tool("ip", "link", "set", port, "up")


class Keeper:
    """The process, and its log."""

    def __init__(self, directory: Path, *ports: NamedPort) -> None:
        self._config, self._log = directory / "queues.json", directory / "log"
        self._config.write_text(KeeperSettings(ports=ports, queues=SwitchQueues()).to_json())
        environment = {name: value for name, value in os.environ.items() if name != "BATON_REDIS"}
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "controller.switch_queues.keeper", "--config", str(self._config)]
            self.process = subprocess.Popen(command, stderr=log, env=environment)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


@pytest.fixture
def keeper(tmp_path: Path, ports: None) -> Iterator[Callable[..., Keeper]]:
    """Starts keepers, and ends them."""
    made: list[Keeper] = []

    def start(*named: NamedPort) -> Keeper:
        made.append(Keeper(tmp_path, *named))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait()


ALL = NamedPort("kp[0-9]", 100_000_000)


def test_named_ports_are_kept_until_it_is_told_to_end(keeper: Callable[..., Keeper]) -> None:
    before = shown(PORT)
    process = keeper(NamedPort(PORT, 100_000_000))
    until(lambda: kept(PORT))
    assert "ba70" not in shown(OTHER)
    for removed in ("root", "clsact"):
        tool("tc", "qdisc", "del", "dev", PORT, removed)
        assert not kept(PORT)
        until(lambda: kept(PORT))
        until(lambda: f"{PORT}: the " in process.log)
    assert process.log.count("put right") >= 2
    assert process.end() == 0
    assert shown(PORT) == before


def test_a_port_that_appears_later_or_again_gets_its_queues(keeper: Callable[..., Keeper]) -> None:
    process = keeper(ALL)
    until(lambda: kept(PORT) and kept(OTHER))
    tool("ip", "link", "del", PORT)
    add(PORT)
    until(lambda: kept(PORT))
    assert process.end() == 0
    assert "ba70" not in shown(PORT) + shown(OTHER)


def test_a_name_that_no_port_has_is_told_once_and_that_one_has_it_now(ports: None, caplog: pytest.LogCaptureFixture) -> None:
    names = (NamedPort("kp9", 100_000_000), NamedPort(PORT, 100_000_000), NamedPort("kp[1]", 200_000_000))
    kept = keeping.Keeper(KeeperSettings(ports=names, queues=SwitchQueues()))
    caplog.set_level("INFO", logger="baton.queues")
    try:
        for _ in range(keeping.PATIENT_CHECKS - 1):
            kept.check()
        assert "kp9" not in caplog.text, "a switch may make its ports later than this machine starts"
        for _ in range(3):
            kept.check()
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert told == [
            "switch_queues.ports: kp9: no interface of this machine has such a name; correct it, or make the interface",
            "switch_queues.ports: kp[1]: earlier lines name all its interfaces, and the first counts; "
            "correct it, or leave it out",
        ]
        add("kp9")
        kept.check()
        assert "switch_queues.ports: kp9: has an interface now" in caplog.text
    finally:
        kept.close()
        subprocess.run(["ip", "link", "del", "kp9"], check=False, capture_output=True)


def test_what_a_killed_one_left_the_next_takes_over_and_removes(keeper: Callable[..., Keeper]) -> None:
    before = shown(PORT)
    first = keeper(ALL)
    until(lambda: kept(PORT))
    first.end(signal.SIGKILL)
    assert kept(PORT)
    second = keeper(ALL)
    until(lambda: second.log.count(f"{PORT}: eight") == 2)
    assert second.end() == 0
    assert shown(PORT) == before


def test_the_queues_of_another_stay_and_the_log_says_once_what_to_do(keeper: Callable[..., Keeper]) -> None:
    tool("tc", "qdisc", "add", "dev", PORT, "root", "handle", "5:", "pfifo")
    before = shown(PORT)
    process = keeper(ALL)
    until(lambda: kept(OTHER) and "of another (pfifo 5:)" in process.log)
    time.sleep(2.5)
    assert shown(PORT) == before and process.log.count("of another") == 1
    tool("tc", "qdisc", "del", "dev", PORT, "root")
    until(lambda: kept(PORT) and "its queues are kept" in process.log)


def test_open_vswitch_leaves_a_kept_port_alone_and_has_it_back_afterwards(keeper: Callable[..., Keeper]) -> None:
    with OpenVSwitch() as ovs:
        ovs.vsctl("add-br", "kb", "--", "set", "Bridge", "kb", f"datapath_type={ovs.datapath_type}")
        ovs.vsctl("add-port", "kb", PORT, "--", "add-port", "kb", OTHER)
        ovs.vsctl("set", "Port", OTHER, "qos=@q", "--", "--id=@q", "create", "QoS", "type=linux-htb")
        process = keeper(ALL)
        until(lambda: kept(PORT))
        until(lambda: "has a QoS in Open vSwitch" in process.log)
        assert not kept(OTHER)
        assert ovs.vsctl("--bare", "--columns=type", "find", "QoS", "type=linux-noop").split() == ["linux-noop"]
        ovs.vsctl("set", "Interface", PORT, "mtu_request=1400")
        ovs.vsctl("set", "Bridge", "kb", "rstp_enable=true")
        ovs.vsctl("del-port", "kb", PORT)
        ovs.vsctl("add-port", "kb", PORT)
        until(lambda: kept(PORT))
        assert process.end() == 0
        assert "ba70" not in shown(PORT)
        assert "linux-noop" not in ovs.vsctl("list", "QoS") and "linux-htb" in ovs.vsctl("list", "QoS")


def test_a_port_that_is_none_any_more_by_its_name_is_given_back(keeper: Callable[..., Keeper]) -> None:
    before = shown(PORT)
    process = keeper(ALL)
    until(lambda: kept(PORT) and kept(OTHER))
    renamed = "lan1"
    tool("ip", "link", "set", PORT, "name", renamed)
    try:
        until(lambda: "ba70" not in shown(renamed))
        assert process.end() == 0
        assert shown(renamed) == before
    finally:
        tool("ip", "link", "set", renamed, "name", PORT)


def test_a_port_that_gets_the_name_of_another_keeps_its_queues(keeper: Callable[..., Keeper]) -> None:
    process, other = keeper(ALL), "kp3"
    until(lambda: kept(PORT) and kept(OTHER))
    tool("ip", "link", "set", PORT, "name", other)
    try:
        until(lambda: process.log.count(f"{other}: eight") == 1)
        assert kept(other) and "put right" not in process.log
        assert process.end() == 0
        assert "ba70" not in shown(other)
    finally:
        tool("ip", "link", "set", other, "name", PORT)


def test_open_vswitch_has_no_row_of_a_port_that_is_gone(keeper: Callable[..., Keeper]) -> None:
    with OpenVSwitch() as ovs:
        ovs.vsctl("add-br", "kb", "--", "set", "Bridge", "kb", f"datapath_type={ovs.datapath_type}")
        ovs.vsctl("add-port", "kb", PORT)
        process = keeper(ALL)
        until(lambda: kept(PORT))
        assert "linux-noop" in ovs.vsctl("list", "QoS")
        tool("ip", "link", "del", PORT)
        until(lambda: "linux-noop" not in ovs.vsctl("list", "QoS"))
        assert process.end() == 0


def test_baton_up_keeps_the_ports_of_its_configuration_and_down_gives_them_back(tmp_path: Path, ports: None) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = probe.getsockname()[1]
    config, run_dir, before = tmp_path / "baton.yaml", tmp_path / "run", shown(PORT)
    text = f"run_dir: {run_dir}\nopenflow: {{listen: '127.0.0.1:{listen}'}}\n"
    config.write_text(f"{text}switch_queues:\n  ports: {{{PORT}: 100Mbit}}\n")
    baton = [sys.executable, "-m", "cli.main"]
    tool(*baton, "up", "--config", str(config))
    try:
        until(lambda: kept(PORT))
        config.write_text(f"{text}switch_queues:\n  ports: {{{OTHER}: 50Mbit}}\n  buffer_packets: 60\n")
        until(lambda: kept(OTHER) and "ba70" not in shown(PORT))
        assert "limit 120p" in shown(OTHER) and "rate 50Mbit" in tool("tc", "class", "show", "dev", OTHER)
    finally:
        tool(*baton, "down", "--run-dir", str(run_dir))
    assert shown(PORT) == before and "ba70" not in shown(OTHER)
    assert not run_dir.exists()


def test_a_machine_with_switches_only_keeps_its_ports_and_tells_the_store(tmp_path: Path, ports: None) -> None:
    config, before = tmp_path / "baton.yaml", shown(PORT)
    config.write_text(f"switch_queues:\n  ports: {{{PORT}: 100Mbit}}\n")
    (tmp_path / "redis").mkdir()
    with PrivateRedis(tmp_path / "redis") as redis, (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "cli.main", "switch-queues", "--config", str(config), "--store", redis.url]
        process = subprocess.Popen(command, stderr=log)
        try:
            until(lambda: kept(PORT))
            store, name = Store(redis.url), f"{socket.gethostname()}: switch_queues: {PORT}: eight priorities"
            until(lambda: any(event["text"].startswith(name) for event in store.events(10)))
        finally:
            process.terminate()
            assert process.wait(20) == 0, (tmp_path / "log").read_text()
    assert shown(PORT) == before
