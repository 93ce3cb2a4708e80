"""The tree of managed switches: real SNMP agents on loopback, asked as the watcher asks them, checked with snmpwalk."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.config.reading import load
from controller.config.settings import TreeSource
from controller.spanning_tree import snmp_switch
from controller.spanning_tree.port_states import Neighbour, PortState, TreeSourceError
from controller.spanning_tree.snmp_credentials import parse
from controller.spanning_tree.snmp_switch import SnmpSwitch
from controller.spanning_tree.sources import read, tree_from_port_states
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests.emulation.controller.spanning_tree.snmp_agents import (
    AUTH,
    BLOCKING,
    COMMUNITY,
    DOWN,
    PRIV,
    USER,
    Port,
    SnmpAgent,
    missing,
)
from tests.emulation.namespaces import inside, run
from topology import files

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
ROOT = Path(__file__).parents[4]
V2C = f"{{version: 2c, community: {COMMUNITY}}}"
V3 = f"{{version: 3, user: {USER}, auth: sha, auth_password: {AUTH}, priv: aes, priv_password: {PRIV}}}"
WALK_V2C = ("-v2c", "-c", COMMUNITY)
WALK_V3 = ("-v3", "-l", "authPriv", "-u", USER, "-a", "SHA", "-A", AUTH, "-x", "AES", "-X", PRIV)
_numbers = itertools.count()
Agents = Callable[[str, list[Port]], SnmpAgent]


def aes() -> None:
    """Skips the test where pysnmp can't encrypt."""
    try:
        importlib.import_module("cryptography.hazmat.decrepit.ciphers.modes")
    except ImportError:
        pytest.skip("pysnmp encrypts with cryptography 47 or newer only (make setup)")


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"bs{os.getpid()}-{next(_numbers)}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        run("ip", "netns", "del", name)


@pytest.fixture
def agents(namespace: str, tmp_path: Path) -> Iterator[Agents]:
    started: list[SnmpAgent] = []

    def start(name: str, ports: list[Port]) -> SnmpAgent:
        started.append(SnmpAgent(namespace, tmp_path / name, ports))
        return started[-1]

    yield start
    for agent in started:
        agent.close()


PORTS = [
    Port("Ethernet1/1", neighbour=("s2.example.net", "swp7")),
    Port("Ethernet1/2", BLOCKING),
    Port("Ethernet1/3", oper=DOWN),
]


@pytest.mark.parametrize(("credentials", "walk"), [(V2C, WALK_V2C), (V3, WALK_V3)], ids=["v2c", "v3"])
def test_a_port_forwards_when_bridge_mib_and_if_mib_say_so(
    credentials: str, walk: tuple[str, ...], agents: Agents, namespace: str
) -> None:
    if credentials is V3:
        aes()
    agent = agents("s1", PORTS)
    with inside(namespace):
        switch = SnmpSwitch("s1", agent.address, parse(credentials, "x"))
        states = switch.read()
        agent.set([Port("Ethernet1/1", BLOCKING), *PORTS[1:]])
        after = switch.read()
        switch.close()
    assert states == {
        PortState("s1", "Ethernet1/1", True, Neighbour("s2.example.net", "swp7")),
        PortState("s1", "Ethernet1/2", False),
        PortState("s1", "Ethernet1/3", False),
    }
    assert not any(state.forwarding for state in after)
    # as net-snmp's own tool reads it now
    stp, index = (agent.walk(f".1.3.6.1.2.1.17.{oid}", *walk) for oid in ("2.15.1.3", "1.4.1.2"))
    names, oper = (agent.walk(f".1.3.6.1.2.1.{oid}", *walk) for oid in ("31.1.1.1.1", "2.2.1.8"))
    walked = {(names[index[at]], stp[at] == "5" and oper[index[at]] == "1") for at in stp}
    assert walked == {(state.port, state.forwarding) for state in after}


@pytest.mark.parametrize(
    ("credentials", "says"),
    [
        ("{version: 2c, community: a-wrong-word}", "no answer within 1 s; check its address, the community"),
        ("{version: 2c, community: narrow-view}", "give this reader a view of "),
        (V3.replace(USER, "somebody"), "does not know the user; "),
        (V3.replace(AUTH, "another-password"), "refuses auth_password; "),
        (V3.replace(PRIV, "another-password"), "no answer within 1 s; check its address, priv_password"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_remedy_and_without_a_secret(
    credentials: str, says: str, agents: Agents, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "user" in credentials:
        aes()
    if "no answer" in says:
        monkeypatch.setattr(snmp_switch, "RETRIES", 0)
    agent = agents("s1", PORTS)
    with inside(namespace):
        switch = SnmpSwitch("s1", agent.address, parse(credentials, "x"))
        with pytest.raises(TreeSourceError) as caught:
            switch.read()
        switch.close()
    text = str(caught.value)
    assert text.startswith(f"tree source snmp:{agent.address} (s1) ")
    assert says in text
    assert "\n" not in text
    assert not any(secret in text for secret in ("a-wrong-word", "narrow-view", "another-password", AUTH, PRIV))


def test_a_switch_without_spanning_tree_or_without_an_agent_is_told_apart(
    agents: Agents, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agents("s1", [])
    with inside(namespace):
        for address, says in ((agent.address, "shows no BRIDGE-MIB (dot1dStpPortState)"), ("127.0.0.1:9", "no answer")):
            monkeypatch.setattr(snmp_switch, "RETRIES", 0 if says == "no answer" else 2)
            switch = SnmpSwitch("s1", address, parse(V2C, "x"))
            with pytest.raises(TreeSourceError) as caught:
                switch.read()
            switch.close()
            assert says in str(caught.value)


def test_several_kinds_of_sources_in_one_fabric_file_make_one_tree_and_no_secret_leaves_its_file(
    agents: Agents, namespace: str, tmp_path: Path
) -> None:
    """A ring: s1 and s2 by SNMP, s3 a Linux bridge. The file lacks two names of ports, which LLDP tells."""
    one = agents("s1", [Port("p12", neighbour=("s2", "p21")), Port("p13", neighbour=("s3", "p31"))])
    two = agents("s2", [Port("p21", neighbour=("s1", "p12")), Port("p23", BLOCKING, neighbour=("s3", "p32"))])
    for name in ("p31", "p32"):
        run("ip", "-n", namespace, "link", "add", name, "type", "veth", "peer", "name", f"{name}x")
    made = ("ip", "-n", namespace, "link", "add", "br0", "type", "bridge")
    if subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("the kernel has no bridges")
    for name in ("br0", "p31x", "p32x"):
        run("ip", "-n", namespace, "link", "set", name, "up")
    for name in ("p31", "p32"):
        run("ip", "-n", namespace, "link", "set", name, "master", "br0", "up")
    (tmp_path / "snmp.yaml").touch(mode=0o600)
    (tmp_path / "snmp.yaml").write_text(V2C)
    switches = [
        {"name": "s1", "source": "snmp", "address": one.address, "credentials": "snmp.yaml"},
        {"name": "s2", "source": "snmp", "address": two.address, "credentials": "snmp.yaml"},
        {"name": "s3", "source": "bridge", "address": "br0"},
    ]
    links = [
        {"a": "s1", "b": "s2", "rate": "1G", "b_port": "p21"},
        {"a": "s1", "b": "s3", "rate": "1G", "b_port": "p31"},
        {"a": "s2", "b": "s3", "rate": "1G", "a_port": "p23", "b_port": "p32"},
    ]
    (tmp_path / "fabric.yaml").write_text(json.dumps({"switches": switches, "links": links}))
    (tmp_path / "baton.yaml").write_text("fabric: fabric.yaml\n")
    config = load(tmp_path / "baton.yaml")
    kinds = [(source.kind, source.switch) for source in config.sources]
    assert kinds == [("snmp", "s1"), ("snmp", "s2"), ("bridge", "s3")]
    with inside(namespace):
        states = read(*config.sources)
    assert tree_from_port_states(files.load(tmp_path / "fabric.yaml"), states).blocked == {("s2", "s3")}

    settings = config.openflow_settings(tmp_path / "fabric.yaml").to_json()
    (tmp_path / "openflow.json").write_text(settings)
    (tmp_path / "redis").mkdir()
    watch = (sys.executable, "-m", "controller.spanning_tree.watch", "--config", str(tmp_path / "openflow.json"))
    with PrivateRedis(tmp_path / "redis") as redis, (tmp_path / "tree.log").open("wb") as log:
        watcher = subprocess.Popen(
            ("nsenter", f"--net=/run/netns/{namespace}", *watch),
            env={**os.environ, "BATON_REDIS": redis.url, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )
        try:
            store = Store(redis.url)
            wait_for(lambda: (store.fabric() or {}).get("blocked") == [["s2", "s3"]], tmp_path)
            links = {(link["a"], link["b"]): link for link in (store.fabric() or {})["fabric"]["links"]}
            assert links["s1", "s2"]["a_port"] == "p12"
            assert links["s1", "s3"]["a_port"] == "p13"

            one.set([Port("p12", BLOCKING, neighbour=("s2", "p21")), Port("p13", neighbour=("s2", "p23"))])
            two.set([Port("p21", BLOCKING), Port("p23")])
            wait_for(lambda: (store.fabric() or {}).get("blocked") == [["s1", "s2"]], tmp_path)
            one.close()
            wait_for(lambda: any("no answer" in event["text"] for event in store.events(50)), tmp_path)
            told = json.dumps([store.fabric(), store.events(100)])
            assert f"snmp:{one.address}" in told
            assert (store.fabric() or {})["blocked"] == [["s1", "s2"]]  # the last word stays
            assert COMMUNITY not in told + settings + (tmp_path / "tree.log").read_text()
            store.close()
        finally:
            watcher.terminate()
            watcher.wait(5)


def wait_for(condition: Callable[[], bool], directory: Path, within_s: float = 25.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, (directory / "tree.log").read_text()
        time.sleep(0.05)


def test_a_source_by_snmp_of_a_missing_file_is_told_with_the_field(tmp_path: Path) -> None:
    with pytest.raises(TreeSourceError, match=r"^tree source snmp:127.0.0.1 can't be read: credentials .*none: No such file"):
        read(TreeSource("snmp", "127.0.0.1", "s1", str(tmp_path / "none")))
