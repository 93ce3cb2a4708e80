"""Runs in virtual time, in a box: a star that is idle but for short transfers; prints what processes and store held over time.

Its periods are long, as an operator may configure them: the fewer wake-ups, the more virtual hours in a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from emulation import box
from emulation.stack.running import Running, with_baton
from topology import shapes

SAMPLES = 8
SENDERS, RECEIVER = ("h1", "h2"), "h3"
PORT = 5001
COORDINATOR = {
    "slice": "10ms", "mode": "always", "heartbeat": "2.5s", "fail_open": "10s", "silence": "1min", "lease": "60s",
}  # fmt: skip
AGENTS = {"report": "10s", "mice_bytes": "16KB"}
OPENFLOW = {"poll": "60s", "lldp": "30s"}
SWITCH = {"stats-update-interval": 60_000, "max-revalidator": 10_000, "max-idle": 30_000}
"""Of Open vSwitch (ovs-vswitchd.conf.db(5)), in ms: how often it writes counters, looks at its flows, and forgets idle ones."""
PROBE_MS = 60_000
"""How long switch and controller may be silent before the switch asks."""
RECEIVE = """
import socket, sys
with socket.create_server(("", int(sys.argv[1])), backlog=16) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 20):
                pass
"""
SEND = """
import socket, sys, time
while True:
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
        connection.sendall(bytes(2_000_000))
    time.sleep(float(sys.argv[3]))
"""
"""Both senders at once: they share the receiver's link by slots for a third of a second, fifty slots."""
BURSTS = 64.5
"""So many times in the run, at other moments than the samples."""


def main() -> None:
    seconds = float(sys.argv[1])
    box.enter([sys.executable, *sys.argv])
    fabric = shapes.build("star", hosts=3, rate_bps=100_000_000)
    sections: dict[str, Any] = {"coordinator": COORDINATOR, "agents": AGENTS, "openflow": OPENFLOW}
    with with_baton(fabric, buffer_packets=100, **sections) as running:
        calm(running)
        target = str(running.emulated.endpoints()[RECEIVER])
        running.emulated.popen(RECEIVER, [sys.executable, "-ISc", RECEIVE, str(PORT)], stdin=subprocess.DEVNULL)
        time.sleep(1)
        for sender in SENDERS:
            words = [sys.executable, "-ISc", SEND, target, str(PORT), str(seconds / BURSTS)]
            running.emulated.popen(sender, words, stdin=subprocess.DEVNULL)
        found = []
        for _ in range(SAMPLES):
            time.sleep(seconds / SAMPLES)
            found.append(sample(running))
    print(json.dumps(found))


def calm(running: Running) -> None:
    """Sets Open vSwitch's periods."""
    ovs = running.emulated.ovs
    ovs.vsctl("set", "Open_vSwitch", ".", *(f"other_config:{name}={value}" for name, value in SWITCH.items()))
    for switch in running.emulated.fabric.switches:
        ovs.vsctl("set", "Controller", switch, f"inactivity_probe={PROBE_MS}")


def sample(running: Running) -> dict[str, Any]:
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
