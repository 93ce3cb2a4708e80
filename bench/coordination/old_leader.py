"""Sends grants as a replaced leader would that has noticed nothing. An edge: a raw socket.

    python -m bench.coordination.old_leader --interface IF --key FILE --epoch N MAC=NODE...

Without the fabric's key the grants are worth nothing: agents refuse them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from protocol.auth import Key
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
    key, link = Key.load(options.key), ControlSocket(options.interface)
    named = (host.partition("=") for host in options.hosts)
    hosts = [(bytes.fromhex(mac.replace(":", "")), int(node)) for mac, _, node in named]
    sequence = time.time_ns()
    for number in range(options.count):
        now_ns = time.monotonic_ns()
        for mac, node in hosts:
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
