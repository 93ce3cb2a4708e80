"""A running fabric changes its master key, and a host its own, under traffic, with the real commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time

from cli.hosts.host import next_directory
from emulation.stack.stack import Stack
from emulation.stack.star import BOTTLENECK, mixed_flows, star
from emulation.traffic import experiment
from protocol.key import Key
from protocol.key_files import new_beside
from protocol.keys import host_file

TAG = "5"
"""Cause TAG's number, in the members' documents."""


def rotate(baton: Stack, *options: str) -> subprocess.CompletedProcess[str]:
    run_dir = str(baton.directory / "run")
    command = [sys.executable, "-m", "cli.main", "key", "rotate", str(baton.key_file), "--run-dir", run_dir, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=40)


def test_no_member_is_lost_and_no_directive_refused_while_the_key_changes() -> None:
    said: list[str] = []
    with star(agents=False, coordinator={"slice": "10ms"}) as (emulated, baton):
        hosts = list(emulated.fabric.hosts)
        files = {host: baton.directory / host / "key" for host in hosts}
        for host, file in files.items():
            file.parent.mkdir()
            shutil.copy(baton.host_file(host), file)  # with its mode
            baton.start_agents(host, options=("--key", str(file)))
        old = Key.load(baton.key_file)
        began_ms = time.time_ns() // 1_000_000

        def change() -> None:
            said.append(rotate(baton).stdout)
            said.append(rotate(baton, "--wait", "1").stderr)  # no host has the new key yet
            for host, file in files.items():
                shutil.copy(next_directory(baton.key_file) / host, new_beside(file))
            said.append(rotate(baton).stdout)

        thread = threading.Thread(target=change)
        outcome = experiment.run(
            emulated,
            mixed_flows(4),
            duration_s=9,
            warmup_s=2,
            bottlenecks=[BOTTLENECK],
            host_queues=False,
            events=[(0.0, thread.start)],
        )
        thread.join()
        print(said, outcome.goodput_mbps, outcome.drops)
        status, members = baton.status(), baton.store.members()
        lost = [e["text"] for e in baton.store.events(1000) if e["kind"] == "member" and e["at_ms"] >= began_ms]
        audit = [e["text"] for e in baton.store.feeds.audit()]
        assert "to the host of its name" in said[0]
        assert all(host in said[1] for host in hosts), said[1]
        assert "takes the new key only" in said[2], said
        assert lost == [] and len(members) == len(hosts)
        assert "tag" not in status["refused"]
        assert not [name for name, member in members.items() if member["refused"].get(TAG)]
        assert sum("change of the key" in text for text in audit) >= 3
        new = Key.load(baton.key_file)
        assert new.fingerprint != old.fingerprint
        for file in files.values():
            assert host_file.load(file).fingerprint == new.fingerprint and not new_beside(file).exists()
        assert not next_directory(baton.key_file).exists()
        assert status["key"]["sending"] == f"{new.fingerprint:016x}" and status["key"]["other"] is None
        assert outcome.goodput_mbps > 60


def host_command(baton: Stack, *words: str) -> str:
    run_dir = str(baton.directory / "run")
    options = ("--key", str(baton.key_file), "--run-dir", run_dir)
    command = [sys.executable, "-m", "cli.main", "host", *words, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


def test_no_member_is_lost_and_no_directive_refused_while_a_host_gets_a_newer_key() -> None:
    with star(agents=False, coordinator={"slice": "10ms"}) as (emulated, baton):
        hosts = list(emulated.fabric.hosts)
        baton.start_agents()
        before, began_ms = host_file.load(baton.host_file("h1")), time.time_ns() // 1_000_000

        def change() -> None:
            fresh = new_beside(baton.host_file("h1"))
            said = host_command(baton, "enroll", "h1", "--out", str(fresh))
            assert "older key" in said
            baton.wait(lambda: not fresh.exists(), "the agent to take the newer key")
            assert "1 key revoked" in host_command(baton, "revoke", "h1", "--but-newest")

        thread = threading.Thread(target=change)
        outcome = experiment.run(
            emulated, mixed_flows(4), duration_s=7, warmup_s=1, bottlenecks=[BOTTLENECK], host_queues=False,
            events=[(0.0, thread.start)],
        )  # fmt: skip
        thread.join()
        status, members = baton.status(), baton.store.members()
        lost = [e["text"] for e in baton.store.events(1000) if e["kind"] == "member" and e["at_ms"] >= began_ms]
        now = host_file.load(baton.host_file("h1"))
        print(outcome.goodput_mbps, status["refused"], lost)
        assert now.enrolment != before.enrolment and now.fingerprint == before.fingerprint
        assert lost == [] and len(members) == len(hosts)
        assert not status["refused"].keys() & {"tag", "revoked", "unknown_sender"}
        assert not [name for name, member in members.items() if member["refused"].get(TAG)]
        assert outcome.goodput_mbps > 60
