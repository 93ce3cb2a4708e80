"""What a managed switch answers, from a file: a helper of net-snmp's snmpd by its pass_persist protocol (snmpd.conf(5)).

    pass_persist -p 1 .1.3.6.1.2.1.17 /usr/bin/python3 snmp_recorded.py FILE

Each line of FILE is "OID|type|value"; a type is named as snmpd names it: integer, string, octet (in hexadecimal), objectid.
The file is read again when it has changed, so that a test can block a port of a running switch.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from pathlib import Path

Oid = tuple[int, ...]


def parse(text: str) -> dict[Oid, tuple[str, str]]:
    """The objects of a recording, by OID."""
    objects = {}
    for line in filter(None, text.splitlines()):
        oid, kind, value = line.split("|", 2)
        objects[number(oid)] = (kind, value)
    return objects


def number(oid: str) -> Oid:
    return tuple(int(part) for part in oid.strip(".").split("."))


class Recording:
    """The objects of a file as it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = (0, 0)
        self._objects: dict[Oid, tuple[str, str]] = {}
        self._order: list[Oid] = []

    def _look(self) -> None:
        stat = self._path.stat()
        if (stamp := (stat.st_mtime_ns, stat.st_ino)) != self._stamp:
            self._objects, self._stamp = parse(self._path.read_text()), stamp
            self._order = sorted(self._objects)

    def answer(self, oid: Oid, *, following: bool) -> list[str]:
        """The lines that snmpd expects for one object, or for the next after it."""
        self._look()
        if following:
            at = bisect_right(self._order, oid)
            if at == len(self._order):
                return ["NONE"]
            oid = self._order[at]
        if oid not in self._objects:
            return ["NONE"]
        return ["." + ".".join(map(str, oid)), *self._objects[oid]]


def main() -> None:
    recording = Recording(Path(sys.argv[1]))
    while line := sys.stdin.readline():
        command = line.strip()
        if command == "PING":
            answer = ["PONG"]
        elif command in ("get", "getnext"):
            answer = recording.answer(number(sys.stdin.readline().strip()), following=command == "getnext")
        else:
            answer = ["NONE"] if not command else ["not-writable"]
        sys.stdout.write("\n".join(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
