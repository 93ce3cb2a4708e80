"""What root on h1 can do with h1's file: every message, either way, as h1, as another host, as the leader, and replays.

    python -m tests.emulation.keys.forger --file FILE --interface IF --leader MAC --epoch N --victim MAC=NODE

It listens on the interface and sends raw frames. It prints how many of each it sent, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from bench.fuzz.seeds import SEEDS
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.heartbeats import SEQUENCE_FROM, SEQUENCE_UNTIL, VALUE_BYTES
from protocol.keys.hosts import Master
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Heartbeat, Kind, Override, Register, encode
from protocol.wire import BODY, TYPE, Prover

FREE = Heartbeat(Override.FREE, 1, 1)


class Short:
    """A tag of another kind's length, from h1's keys."""

    def __init__(self, key: Prover, size: int) -> None:
        self._key, self._size = key, size

    def tag(self, data: bytes) -> bytes:
        return (self._key.tag(data) * 8)[: self._size]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--interface", required=True)
    parser.add_argument("--leader", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--victim", required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    mac, node = options.victim.split("=")
    victim, leader = (bytes.fromhex(text.replace(":", "")) for text in (mac, options.leader))
    secret, link = host_file.load(options.file), ControlSocket(options.interface)
    us, here, there = link.address, secret.at(link.address), secret.at(victim)
    pretended = Master(Key(secret.secret))  # h1's own key in the place of the master key
    provers: dict[str, Prover] = {
        "to leader": here.to_leader,
        "to leader, at the victim": there.to_leader,
        "from leader": here.from_leader,
        "from leader, at the victim": there.from_leader,
        "signed by h1": pretended.signer,
        "long": Short(here.from_leader, 112),
        "short": Short(here.to_leader, 16),
    }
    sent: Counter[str] = Counter()
    sequence, heard = time.time_ns(), list[bytes]()

    def send(frame: bytes, what: str) -> None:
        sent[what] += 1
        link.send(frame)

    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        for message in (*SEEDS, FREE, Register("h2", 1, 10**8, (), SEEDS[0].gates, "1")):
            for how, prover in provers.items():
                for destination, source, sender, epoch in (
                    (victim, leader, COORDINATOR, options.epoch),
                    (victim, us, COORDINATOR, options.epoch),
                    (victim, leader, COORDINATOR, options.epoch + 1024),
                    (HEARTBEAT_MAC, leader, COORDINATOR, options.epoch),
                    (HEARTBEAT_MAC, leader, COORDINATOR, options.epoch + 1024),
                    (leader, victim, int(node), options.epoch),
                    (leader, victim, 0, options.epoch),
                    (leader, us, int(node), options.epoch),
                    (leader, us, COORDINATOR, options.epoch + 1024),
                    (leader, victim, COORDINATOR, options.epoch),
                ):
                    if type(message) is Register and source == us and destination == leader and message.name == secret.name:
                        continue  # about h1 itself
                    sequence += 1
                    words = {"source": source, "sender": sender, "epoch": epoch, "sequence": sequence}
                    for version in (NEWEST, NEWEST - 1):
                        send(encode(message, key=prover, destination=destination, version=version, **words), how)
            while (raw := link.receive()) is not None:
                if raw[6:12] == leader:
                    heard = [*heard[-40:], raw]
            for raw in heard[-4:]:
                send(raw, "replayed")
                send(victim + raw[6:], "replayed to the victim")
                if raw[TYPE] == Kind.HEARTBEAT:
                    place = int.from_bytes(raw[SEQUENCE_FROM:SEQUENCE_UNTIL])
                    free = raw[:BODY] + bytes((Override.FREE,)) + raw[BODY + 1 :]
                    send(free, "heard value, other content")
                    for other in (place + 1, place + 200, (1 << 64) - 1):
                        at = other.to_bytes(8)
                        send(free[:SEQUENCE_FROM] + at + free[SEQUENCE_UNTIL:], "heard value, other content, later")
                        send(raw[:SEQUENCE_FROM] + at + raw[SEQUENCE_UNTIL:], "heard value, later")
                    send(raw[:-VALUE_BYTES] + bytes(VALUE_BYTES), "made-up value")
            time.sleep(0.002)
    print(json.dumps(sent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
