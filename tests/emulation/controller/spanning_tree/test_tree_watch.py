"""From a cut link between switches that Baton does not control to the fabric in the store: real OVS with RSTP, real Redis.

The ring is of three bridges, 1 the root by its address: the link 2 - 3 is blocked, and forwards once 1 - 2 is down.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.config.settings import OpenFlowSettings, TreeSource
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from controller.supervision import runstate
from emulation.fabric.ovs import OpenVSwitch
from tests import needs
from tests.emulation.controller.spanning_tree.rstp_ring import PAIRS, run
from tests.emulation.operating import baton, free_port
from topology.fabric import Fabric, FabricBuilder

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes interfaces and bridges"),
    needs.REDIS,
    pytest.mark.skipif(shutil.which("ovs-vswitchd") is None, reason="ovs-vswitchd is not installed"),
]

GIGABIT = 10**9
CONVERGENCE_S = 30.0
REPOSITORY = Path(__file__).resolve().parents[4]
Watch = Callable[..., subprocess.Popen[bytes]]


def wait_for(condition: Callable[[], object], within_s: float) -> float:
    """The seconds until the condition held."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, f"not within {within_s} s"
        time.sleep(0.01)
    return time.monotonic() - began_s


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    with PrivateRedis(tmp_path) as server:
        yield server


@pytest.fixture
def fabric_file(prefix: str, tmp_path: Path) -> Path:
    """The ring, with a host at each switch."""
    ports = {(x, y): f"{prefix}p{x}{y}" for a, b in PAIRS for x, y in ((a, b), (b, a))}
    content = {
        "switches": [{"name": f"{prefix}s{x}"} for x in (1, 2, 3)],
        "hosts": [{"name": f"h{x}", "addresses": [f"10.0.0.{x}"]} for x in (1, 2, 3)],
        "links": [
            {"a": f"{prefix}s{x}", "b": f"{prefix}s{y}", "rate": "1gbit", "a_port": ports[x, y], "b_port": ports[y, x]}
            for x, y in PAIRS
        ]
        + [{"a": f"{prefix}s{x}", "b": f"h{x}", "rate": "1gbit"} for x in (1, 2, 3)],
    }
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def watch(tmp_path: Path, redis: PrivateRedis, fabric_file: Path) -> Iterator[Watch]:
    """Starts a watcher of these sources, as the supervisor does."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*sources: TreeSource) -> subprocess.Popen[bytes]:
        config = tmp_path / "openflow.json"
        config.write_text(OpenFlowSettings(fabric_file=fabric_file, sources=sources).to_json())
        with (tmp_path / "tree.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "controller.spanning_tree.watch", "--config", str(config)],
                env={**os.environ, "BATON_REDIS": redis.url, "PYTHONPATH": str(REPOSITORY)},
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.wait(5)


def blocked(store: Store) -> list[list[str]] | None:
    document = store.fabric()
    return None if document is None else document["blocked"]


def cpu_s(pid: int) -> float:
    """The processor time of a process and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def test_a_cut_link_is_in_the_store_and_in_the_events_within_two_seconds(
    ovs: OpenVSwitch, prefix: str, redis: PrivateRedis, watch: Watch
) -> None:
    store = Store(redis.url)
    process = watch(TreeSource("ovsdb", f"unix:{ovs.rundir}/db.sock"))
    wait_for(lambda: blocked(store) == [[f"{prefix}s2", f"{prefix}s3"]], CONVERGENCE_S)
    version = (store.fabric() or {})["version"]
    assert len((store.fabric() or {})["fabric"]["hosts"]) == 3

    run("ip", "link", "set", f"{prefix}p12", "down")
    down_s = wait_for(lambda: blocked(store) == [[f"{prefix}s1", f"{prefix}s2"]], 2.0)
    assert (store.fabric() or {})["version"] > version
    wait_for(lambda: f"blocked: {prefix}s1 - {prefix}s2" in _texts(store, "tree")[-1], 1.0)

    run("ip", "link", "set", f"{prefix}p12", "up")
    up_s = wait_for(lambda: blocked(store) == [[f"{prefix}s2", f"{prefix}s3"]], CONVERGENCE_S)

    before_s, began_s, version = cpu_s(process.pid), time.monotonic(), store.version("fabric")
    time.sleep(3)
    load = (cpu_s(process.pid) - before_s) / (time.monotonic() - began_s)
    assert store.version("fabric") == version, "a tree that has not changed was published again"
    print(f"cut link in the store after {down_s:.2f} s, mended after {up_s:.2f} s; load {load:.1%} of a processor")


def test_a_source_that_goes_keeps_the_tree_and_is_told_once_and_a_store_that_forgets_is_told_again(
    ovs: OpenVSwitch, prefix: str, redis: PrivateRedis, tmp_path: Path, watch: Watch
) -> None:
    store = Store(redis.url)
    link = tmp_path / "db.sock"
    link.symlink_to(ovs.rundir / "db.sock")
    watch(TreeSource("ovsdb", f"unix:{link}"))
    tree = [[f"{prefix}s2", f"{prefix}s3"]]
    wait_for(lambda: blocked(store) == tree, CONVERGENCE_S)

    link.unlink()
    wait_for(lambda: _texts(store, "tree_source"), 10)
    time.sleep(2.5)
    (problem,) = _texts(store, "tree_source")
    assert f"ovsdb:unix:{link} can't be read" in problem
    assert blocked(store) == tree
    link.symlink_to(ovs.rundir / "db.sock")
    wait_for(lambda: "can be read again" in _texts(store, "tree_source")[-1], 10)

    redis.stop()
    redis.start()
    wait_for(lambda: blocked(store) == tree, 5)


def test_what_the_application_publishes_is_joined_with_what_was_read(
    ovs: OpenVSwitch, prefix: str, redis: PrivateRedis, watch: Watch
) -> None:
    store = Store(redis.url)
    watch(TreeSource("openflow", ""), TreeSource("ovsdb", f"unix:{ovs.rundir}/db.sock"))
    wait_for(lambda: blocked(store) == [[f"{prefix}s2", f"{prefix}s3"]], CONVERGENCE_S)

    # the application knows s1 and s3, and that no link joins them any more
    theirs = FabricBuilder().add_switch(f"{prefix}s1").add_switch(f"{prefix}s3").build()
    application = Store(redis.url)
    for version in range(1, 21):  # as fast as it can: none of its documents may stay, none may be lost
        document = {"fabric": theirs.to_dict(), "blocked": [], "hosts": [], "version": version}
        application.publish_fabric(document)
    both = [[f"{prefix}s1", f"{prefix}s3"], [f"{prefix}s2", f"{prefix}s3"]]
    joined_s = wait_for(lambda: blocked(store) == both, 2)
    joined: dict[str, Any] = store.fabric() or {}
    assert len(Fabric.from_dict(joined["fabric"]).hosts) == 3
    assert joined["openflow"] == {"switches": [f"{prefix}s1", f"{prefix}s3"], "forwarding": []}
    print(f"the application's document was joined after {joined_s * 1000:.0f} ms")


@pytest.mark.parametrize("with_openflow", [True, False])
def test_up_starts_what_the_sources_need(with_openflow: bool, tmp_path: Path, fabric_file: Path) -> None:
    run_dir = tmp_path / "run"
    config = tmp_path / "baton.yaml"
    kinds = (["openflow"] if with_openflow else []) + [f"ovsdb:unix:{tmp_path}/no.sock"]
    listen = f"127.0.0.1:{free_port()}"
    text = {"run_dir": str(run_dir), "openflow": {"listen": listen}, "fabric": str(fabric_file), "sources": kinds}
    text["web"] = "none"
    config.write_text(json.dumps(text))
    try:
        assert baton("up", "--config", str(config)).returncode == 0
        state = runstate.load(run_dir)
        expected = {"redis", "tree", "openflow", "control"} if with_openflow else {"redis", "tree"}
        assert set(state.services) == expected and all(state.services.values())
        store = Store(state.store)
        wait_for(lambda: any("can't be read" in text for text in _texts(store, "tree_source")), 10)

        config.write_text(json.dumps({**text, "sources": ["openflow"]}))
        wait_for(lambda: set(runstate.load(run_dir).services) == {"redis", "openflow", "control"}, 15)
        config.write_text(json.dumps({**text, "sources": kinds, "fabric": None}))
        wait_for(lambda: "fabric: is missing" in runstate.load(run_dir).config_error, 5)
    finally:
        baton("down", "--run-dir", str(run_dir))


def _texts(store: Store, kind: str) -> list[str]:
    return [event["text"] for event in store.events() if event["kind"] == kind]
