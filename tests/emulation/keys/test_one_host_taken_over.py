"""Root on one host forges what it can with that host's file, against another host and the leader; and its key is revoked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from emulation.stack.stack import Stack
from emulation.stack.star import Star, star
from protocol.key import Key
from protocol.keys import host_file

LIAR, VICTIM = "h1", "h2"
SECONDS = 3.0
REVOKED_WITHIN_S = 1.0


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with star(agents=False, coordinator={"silence": "2s"}) as made:
        made.baton.start_agents()
        yield made


def member(baton: Stack, name: str) -> dict | None:
    return next((found | {"node": node} for node, found in baton.store.members().items() if found["name"] == name), None)


def let_pass(made: Star) -> None:
    """Has the switch pass what the liar sends on to all, whatever Baton's rules say of it: the keys alone must hold."""
    bridge = made.emulated.coordinator_switch
    rule = f"priority=65535,in_port={bridge}-eth{LIAR[1:]},dl_type=0x88b5,actions=flood"
    subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", "--names", "add-flow", bridge, rule], check=True, capture_output=True)


def test_with_one_hosts_key_nothing_is_believed_but_what_is_about_that_host(fabric: Star) -> None:
    emulated, baton = fabric
    victim, status, liar = member(baton, VICTIM), baton.status(), member(baton, LIAR)
    assert victim is not None and liar is not None
    refused_before = dict(victim["refused"])
    began_ms = time.time_ns() // 1_000_000
    command = [
        sys.executable, "-m", "tests.emulation.keys.forger", "--file", str(baton.host_file(LIAR)),
        "--interface", emulated.interface(LIAR), "--leader", status["mac"], "--epoch", str(status["epoch"]),
        "--victim", f"{victim['mac']}={victim['node']}", "--seconds", str(SECONDS),
    ]  # fmt: skip
    process = emulated.popen(LIAR, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    half = time.monotonic() + SECONDS / 2
    while time.monotonic() < half:
        let_pass(fabric)  # again and again: the controller removes what is not its own
    amid = member(baton, VICTIM)
    while process.poll() is None:
        let_pass(fabric)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    sent = json.loads(said)
    time.sleep(1.0)
    after, now = member(baton, VICTIM), baton.status()
    events = [event for event in baton.store.events(1000) if event["at_ms"] >= began_ms]
    print(sent, now["refused"], amid and amid["refused"], after and after["refused"], sep="\n")
    print([event["text"] for event in events])
    assert min(sent.values()) > 10 and sum(sent.values()) > 3_000
    # the leader: still that one, of that epoch, with the same members at the same addresses
    assert (now["epoch"], now["leader"], now["mac"]) == (status["epoch"], status["leader"], status["mac"])
    assert now["members"] == len(emulated.fabric.hosts) and now["override"] == status["override"]
    assert after is not None and amid is not None
    for what in ("node", "name", "mac", "addresses", "rate_bps"):
        assert amid[what] == victim[what] == after[what], what
    assert not [event["text"] for event in events if event["kind"] in ("member", "suspect") and VICTIM in event["text"]]
    # both have refused thousands of frames, for their tags among other causes
    assert now["refused"]["tag"] - status["refused"].get("tag", 0) > 100
    assert sum(after["refused"].values()) - sum(refused_before.values()) > 500
    # the victim has not opened its gates, nor registered again
    log = (baton.directory / "run" / f"agent-{VICTIM}.log").read_text()
    assert "override" not in log and log.count("member ") == log.count("leader with epoch") == 1, log[:2000]
    assert "every gate is open" not in log, log[:2000]


def test_a_revoked_host_is_no_member_within_a_second_and_is_told_nothing(fabric: Star) -> None:
    baton = fabric.baton
    baton.wait(lambda: member(baton, LIAR) is not None, "the host to be a member")
    at_others = baton.status()["members"]
    log = baton.directory / "run" / f"agent-{LIAR}.log"
    before = log.stat().st_size
    command = [sys.executable, "-m", "cli.main", "host", "revoke", LIAR, "--key", str(baton.key_file)]
    subprocess.run([*command, "--run-dir", str(baton.directory / "run")], check=True, capture_output=True, timeout=20)
    began = time.monotonic()
    baton.wait(lambda: baton.status()["members"] == at_others - 1, "the host to be no member")
    took_s = time.monotonic() - began
    print(f"{took_s:.3f} s")
    assert took_s < REVOKED_WITHIN_S
    time.sleep(2.0)
    assert member(baton, LIAR) is None and baton.status()["refused"]["revoked"] > 0
    assert any("revoked" in event["text"] for event in baton.store.events(1000))
    said = log.read_bytes()[before:].decode().splitlines()
    assert not [line for line in said if "the coordinator says" in line or "is member" in line], said[:9]
    command = [sys.executable, "-m", "cli.main", "host", "list", "--key", str(baton.key_file)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert any(line.startswith(LIAR) and "revoked" in line for line in listed.splitlines())


def test_an_agent_with_the_master_key_does_not_start(fabric: Star) -> None:
    emulated, baton = fabric
    assert Key.load(baton.key_file) and host_file.load(baton.host_file(VICTIM)).name == VICTIM
    command = [sys.executable, "-m", "cli.main", "agent", "--interface", emulated.interface("h3"), "--rate", "100mbit"]
    done = subprocess.run([*command, "--key", str(baton.key_file)], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 1 and "baton host enroll" in done.stderr and done.stderr.count("\n") == 1
