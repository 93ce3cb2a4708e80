"""Runs in virtual time, in a box: a lightly loaded star; prints what processes and store held over time, as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from emulation import box
from emulation.stack.star import RECEIVER, SENDERS, Star, star

SAMPLES = 8
LOAD = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    while True:
        sender.sendto(bytes(20_000), (sys.argv[1], 9))
        time.sleep(0.05)
"""
"""3.2 Mb/s from each sender, in datagrams that are too large for the mice's allowance."""


def main() -> None:
    seconds = float(sys.argv[1])
    box.enter([sys.executable, *sys.argv])
    with star(coordinator={"slice": "10ms", "mode": "always"}, agent_settings={"mice_bytes": "16KB"}) as running:
        target = str(running.emulated.endpoints()[RECEIVER])
        for sender in SENDERS:
            running.emulated.popen(sender, [sys.executable, "-ISc", LOAD, target], stdin=subprocess.DEVNULL)
        found = []
        for _ in range(SAMPLES):
            time.sleep(seconds / SAMPLES)
            found.append(sample(running))
    print(json.dumps(found))


def sample(running: Star) -> dict[str, Any]:
    """What there is now: KB and descriptors by process, keys and memory of the store, epoch, slots."""
    status = running.baton.status()
    store = running.baton.store.connection.call(lambda client: (client.dbsize(), client.info("memory")["used_memory"]))
    return {
        "processes": processes(),
        "keys": store[0],
        "store_bytes": store[1],
        **{name: status[name] for name in ("epoch", "members", "slots", "late_slots", "lost")},
    }


def processes() -> dict[str, tuple[int, int]]:
    """{pid and command: (resident KB, open descriptors)} of all long-running programs of Baton here."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_text().replace("\0", " ").strip()
            status = (directory / "status").read_text()
            descriptors = len(list((directory / "fd").iterdir()))
        except OSError:
            continue  # it has ended meanwhile
        resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
        if resident and any(word in command for word in ("cli.main agent", "controller.", "redis-server", "ovs-vswitchd")):
            found[f"{directory.name} {command[:60]}"] = int(resident[0]), descriptors
    return found


if __name__ == "__main__":
    main()
