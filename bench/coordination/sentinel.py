"""A store of three Redis servers and three Sentinels: its master killed under load, and a client stuck on a demoted one.

Method: the emulated star, its five UDP senders under timeslices, with the Sentinels as its store (redis+sentinel://). The
master gets SIGKILL in the middle; tcpdump at the hosts counts the directives before, until another server is the master, and
after. Then the killed server is started again and made the master by command, without the Sentinels, which would cut the
connections of clients: a client of the demoted server finds itself on a read-only one. The benchmark measures how long it takes
until what that client writes is on the new master.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.coordination.grants import by_epoch, directives_per_s
from bench.coordination.two_controllers import HOSTS, SETTINGS, prioritise
from bench.coordination.under_load import run_under_load, traffic
from controller.store.store import Store, StoreUnavailable
from emulation.stack.control_capture import ControlCapture
from emulation.stack.sentinels import Sentinels
from emulation.stack.star import star
from protocol.units import SECOND_NS

KILL_AFTER_S = 2.0


def run(duration_s: float = 8.0) -> dict[str, Any]:
    """Times in ms."""
    with (
        tempfile.TemporaryDirectory(prefix="baton-sentinels-") as directory,
        Sentinels(Path(directory)) as sentinels,
        star(coordinator=SETTINGS, store=sentinels.url) as (emulated, baton),
    ):
        for pid in sentinels.pids():
            prioritise(pid)
        before = baton.status()
        masters = [sentinels.master()]
        times: dict[str, int] = {}

        def kill() -> None:
            assert masters[0] is not None
            times["killed"] = time.monotonic_ns()
            sentinels.kill(masters[0])
            sentinels.wait(lambda: _writes(baton.store), "a server that takes writes")
            times["written"] = time.monotonic_ns()
            masters.append(sentinels.master())

        with ControlCapture(emulated, HOSTS, baton.directory, baton.credentials) as capture:
            outcome = run_under_load(emulated, 5, duration_s, events=[(KILL_AFTER_S, kill)])
        frames, after = capture.frames(), baton.status()
        master = sentinels.master()
        renewed = master is not None and sentinels.client(master).hget("baton:leader", "epoch") == str(before["epoch"])
        stuck = _stuck(sentinels, masters)
    return {
        "master_ports": masters,
        "store_takes_writes_after_ms": round((times["written"] - times["killed"]) / 1e6, 1),
        "directives_per_s": {
            "before": directives_per_s(frames, times["killed"] - SECOND_NS, times["killed"]),
            "without_a_master": directives_per_s(frames, times["killed"], times["written"]),
            "after": directives_per_s(frames, times["written"], times["written"] + SECOND_NS),
        },
        "epochs": [before["epoch"], after["epoch"]],
        "lease_renewed_at_the_new_master": renewed,
        "granters": by_epoch(frames),
        "stuck_client": stuck,
        **traffic(outcome),
    }


def _writes(store: Store) -> bool:
    try:
        store.publish_event("bench", "debug", "the store takes writes")
    except StoreUnavailable:
        return False
    return True


def _stuck(sentinels: Sentinels, masters: list[int | None]) -> dict[str, Any]:
    """How a client fares whose server becomes read-only, and, for comparison, one that knows no Sentinels."""
    killed, present = masters[0], sentinels.master()
    assert killed is not None and present is not None
    sentinels.start(killed)
    sentinels.wait(lambda: sentinels.follows(killed), "the server that was killed to follow the new master")
    client, without = Store(sentinels.url), Store(f"redis://127.0.0.1:{present}/0")
    for each in (client, without):
        each.publish_event("bench", "debug", "connected")
    sentinels.hand_over(killed)
    begun_ns = time.monotonic_ns()
    refused = 0
    while not _writes(client):
        refused += 1
        time.sleep(0.01)
    took_ms = round((time.monotonic_ns() - begun_ns) / 1e6, 1)
    newest = sentinels.client(killed).xrevrange("baton:events", count=1)[0][1]["text"]
    try:
        without.publish_event("bench", "debug", "to a replica")
        said = "written"
    except StoreUnavailable as error:
        said = str(error)
    return {
        "recovers_after_ms": took_ms,
        "writes_refused": refused,
        "on_the_new_master": newest == "the store takes writes",
        "without_sentinels": said,
    }
