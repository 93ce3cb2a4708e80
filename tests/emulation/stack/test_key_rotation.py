"""A running fabric changes its key under traffic, with the real commands, and an agent and a key file for every host."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time

from emulation.stack.stack import Stack
from emulation.stack.star import BOTTLENECK, mixed_flows, star
from emulation.traffic import experiment
from protocol.auth import Key
from protocol.key_files import new_beside

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
            shutil.copy(baton.key_file, file)  # with its mode
            baton.start_agents(host, options=("--key", str(file)))
        old = Key.load(baton.key_file)
        began_ms = time.time_ns() // 1_000_000

        def change() -> None:
            said.append(rotate(baton).stdout)
            said.append(rotate(baton, "--wait", "1").stderr)  # no host has the new key yet
            for file in files.values():
                shutil.copy(new_beside(baton.key_file), new_beside(file))
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
        assert "copy it to every host" in said[0]
        assert all(host in said[1] for host in hosts), said[1]
        assert "takes the new key only" in said[2], said
        assert lost == [] and len(members) == len(hosts)
        assert "tag" not in status["refused"]
        assert not [name for name, member in members.items() if member["refused"].get(TAG)]
        assert sum("change of the key" in text for text in audit) >= 3
        new = Key.load(baton.key_file)
        assert new.fingerprint != old.fingerprint
        for file in files.values():
            assert Key.load(file).fingerprint == new.fingerprint and not new_beside(file).exists()
        assert status["key"]["sending"] == f"{new.fingerprint:016x}" and status["key"]["other"] is None
        assert outcome.goodput_mbps > 60
