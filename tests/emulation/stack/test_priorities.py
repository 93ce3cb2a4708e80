"""Flow priorities end to end on real traffic: flows end, agents report sizes, thresholds reach every host's tagger.

What is in a tagger is read with bpftool, what is at an interface with tc.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from emulation.stack.star import RECEIVER, SENDERS, Star, star
from tests.emulation.namespaces import run

PREFERENCE = 47_808
PORT = 7_001
HOSTS = (*SENDERS, RECEIVER)
SIZES = (2_000, 20_000, 200_000)
SERVE = f"""
import socket
server = socket.create_server(("", {PORT}), backlog=256)
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    while connection.recv(1 << 16):
        pass
    connection.close()
"""
SEND = """
import json, socket, sys
target, port, sizes, times, deadline_ms = json.loads(sys.argv[1])
for _ in range(times):
    for size in sizes:
        with socket.socket() as connection:
            if deadline_ms:
                connection.setsockopt(socket.SOL_SOCKET, 36, deadline_ms << 20 | size >> 10)  # SO_MARK
            connection.connect((target, port))
            connection.sendall(bytes(size))
"""


@pytest.fixture(scope="module")
def fabric(priority_options: tuple[str, ...]) -> Iterator[Star]:
    with star(agents=False, priorities={"enabled": True, "bands": 4, "period": "500ms"}) as made:
        found = {host: at_interface(made, host) for host in HOSTS}
        made.baton.start_agents(options=priority_options)
        yield made
        made.baton.stop_agents()
        assert {host: at_interface(made, host) for host in HOSTS} == found


def at_interface(made: Star, host: str) -> str:
    """Everything that tc shows of a host's interface, without counters."""
    interface = made.emulated.interface(host)
    what = (("qdisc", "show", "dev", interface), ("filter", "show", "dev", interface, "egress"))
    return "".join(made.emulated.run_in(host, "tc", *each) for each in what)


def filters(made: Star, host: str) -> list[dict[str, Any]]:
    """The taggers' filters at a host's interface."""
    shown = made.emulated.run_in(host, "tc", "-j", "filter", "show", "dev", made.emulated.interface(host), "egress")
    return [each for each in json.loads(shown or "[]") if each["pref"] == PREFERENCE and "options" in each]


def thresholds(made: Star, host: str) -> dict[str, Any]:
    """The thresholds in a host's tagger now, as bpftool reads them from the program at the interface."""
    (found,) = filters(made, host)
    program = json.loads(run("bpftool", "-j", "prog", "show", "id", str(found["options"]["prog"]["id"])))
    maps = {}
    for number in program["map_ids"]:
        name = json.loads(run("bpftool", "-j", "map", "show", "id", str(number)))["name"]
        if name in ("thresholds", "active"):
            maps[name] = json.loads(run("bpftool", "-j", "map", "dump", "id", str(number)))
    slot = maps["active"][0]["formatted"]["value"]
    value: dict[str, Any] = maps["thresholds"][slot]["formatted"]["value"]
    return value


def send(made: Star, hosts: Sequence[str], times: int, deadline_ms: int = 0) -> None:
    """Sends flows of all sizes from some hosts to the receiver, those of each host one after the other."""
    target = str(made.emulated.endpoints()[RECEIVER])
    arguments = json.dumps((target, PORT, SIZES, times, deadline_ms))
    with ExitStack() as stack:
        server = made.emulated.popen(RECEIVER, [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
        stack.callback(server.wait)
        stack.callback(server.kill)
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        senders = [made.emulated.popen(host, [sys.executable, "-c", SEND, arguments]) for host in hosts]
        assert [sender.wait(30) for sender in senders] == [0] * len(senders)


def document(made: Star) -> dict[str, Any]:
    """The thresholds' document in the store."""
    return made.baton.store.thresholds() or {}


def up_to_date(made: Star, host: str) -> bool:
    return bool(thresholds(made, host)["version"] == document(made).get("version"))


def test_flows_that_end_are_reported_and_thresholds_reach_every_hosts_tagger(fabric: Star) -> None:
    fabric.baton.wait(lambda: all(thresholds(fabric, host)["version"] >= 1 for host in HOSTS), "the first version everywhere")
    send(fabric, SENDERS[:1], times=3, deadline_ms=1000)
    send(fabric, SENDERS[:3], times=30)
    fabric.baton.wait(lambda: document(fabric).get("thresholds") is not None, "thresholds")
    fabric.baton.wait(lambda: all(up_to_date(fabric, host) for host in HOSTS), "every host to have them")
    found = document(fabric)
    assert found["version"] > 1
    for host in HOSTS:
        there = thresholds(fabric, host)
        assert there["count"] == 3
        assert there["alpha"][:3] == found["thresholds"]["alpha"]
        assert there["beta"][:3] == found["thresholds"]["beta"]
    reported = [least for least, _, _ in found["sizes"]["3"]]
    for size in SIZES:
        assert any(least <= size <= 1.25 * least for least in reported), f"{size} is in no bin of {reported}"
    assert found["sizes"]["1"]
    assert any(event["kind"] == "thresholds" for event in fabric.baton.store.events())


def test_the_store_tells_who_has_which_version(fabric: Star) -> None:
    def all_have_it() -> bool:
        members = fabric.baton.store.members().values()
        newest = fabric.baton.status()["thresholds_version"]
        return len(members) == len(HOSTS) and all(member["thresholds_version"] == newest for member in members)

    fabric.baton.wait(all_have_it, "every member to have the version in force")


def test_a_filter_that_somebody_took_away_is_put_back_with_its_thresholds(fabric: Star) -> None:
    host = SENDERS[1]
    before = thresholds(fabric, host)
    interface = fabric.emulated.interface(host)
    fabric.emulated.run_in(host, "tc", "filter", "del", "dev", interface, "egress", "pref", str(PREFERENCE))
    assert filters(fabric, host) == []
    fabric.baton.wait(lambda: len(filters(fabric, host)) == 1, "the filter to be back")
    assert thresholds(fabric, host)["version"] >= before["version"]


def test_after_a_kill_the_next_start_takes_what_was_left_away_and_asks_for_what_it_missed(
    fabric: Star, priority_options: tuple[str, ...]
) -> None:
    host = SENDERS[2]
    process = fabric.baton.agents.pop(host)
    process.kill()
    process.wait()
    assert len(filters(fabric, host)) == 1
    fabric.baton.start_agents(host)
    fabric.baton.wait(lambda: not filters(fabric, host), "the tagger's filter to be gone")
    process = fabric.baton.agents.pop(host)
    process.terminate()
    process.wait()
    version = document(fabric)["version"]
    fabric.baton.start_agents(host, options=priority_options)
    fabric.baton.wait(lambda: len(filters(fabric, host)) == 1, "its tagger")
    # The coordinator does not send unchanged thresholds again; so the agent asked for them.
    fabric.baton.wait(lambda: thresholds(fabric, host)["version"] == version, "it to have the thresholds in force")
    assert document(fabric)["version"] == version


def test_a_killed_tuner_is_started_again_and_thresholds_stay(fabric: Star) -> None:
    before = document(fabric)
    (tuner,) = tuners(fabric)
    os.kill(tuner, signal.SIGKILL)
    fabric.baton.wait(lambda: tuners(fabric) not in ([], [tuner]), "another tuner")
    fabric.baton.wait(lambda: document(fabric)["reports"] and document(fabric) != before, "another period")
    assert document(fabric)["thresholds"] == before["thresholds"]
    assert document(fabric)["version"] == before["version"]


def tuners(made: Star) -> list[int]:
    """The process ids of the coordinator's tuners."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            parent = path.with_name("stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"controller.priorities.tuner" in words and int(parent) == made.baton.status()["pid"]:
            found.append(int(path.parent.name))
    return found
