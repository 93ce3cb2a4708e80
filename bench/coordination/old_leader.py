"""Sends grants as a replaced leader would that has noticed nothing. An edge: a raw socket.

    python -m bench.coordination.old_leader --interface IF --key FILE --epoch N MAC=NODE=NAME...

FILE is the controllers' key; without it the grants are worth nothing: agents refuse them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from controller.members.enrolments import EnrolmentFile, Enrolments
from protocol.keys.hosts import Master
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, Directive, Grant, encode

SLICE_NS = 2_000_000
CREDIT_BYTES = 25_000


def main() -> int:
    """Sends `--count` grants to each host, each for the next slice and for the node after the host's own."""
    parser = argparse.ArgumentParser(prog="old_leader")
    parser.add_argument("--interface", required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("hosts", nargs="+")
    options = parser.parse_args()
    master, link, enrolments = Master.load(options.key), ControlSocket(options.interface), Enrolments()
    enrolments.merge(EnrolmentFile(options.key).read())
    salts = {one.name: salt for salt, one in enrolments.valid()}
    hosts = []
    for mac, node, name in (host.split("=") for host in options.hosts):
        address = bytes.fromhex(mac.replace(":", ""))
        hosts.append((address, int(node), master.enroll(name, salts[name]).at(address).from_leader))
    sequence = time.time_ns()
    for number in range(options.count):
        now_ns = time.monotonic_ns()
        for mac, node, key in hosts:
            sequence += 1
            grant = Grant(node + 1, sequence + number, now_ns, now_ns + SLICE_NS, CREDIT_BYTES, 0)
            link.send(
                encode(
                    Directive((grant,)),
                    key=key,
                    destination=mac,
                    source=link.address,
                    sender=COORDINATOR,
                    epoch=options.epoch,
                    sequence=sequence,
                )
            )
        time.sleep(SLICE_NS / 1e9)
    return 0


if __name__ == "__main__":
    sys.exit(main())
