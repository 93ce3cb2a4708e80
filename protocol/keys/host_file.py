"""The file that makes a machine one of the fabric's hosts: its name and keys (`baton host enroll`). An edge: a file, mode 0600.

It is JSON: {"baton": "host", "name", "enrolment", "key", "leader", "master"}; all but the first two in hexadecimal digits.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from protocol.bodies.text import packed_text
from protocol.key import SECRET_BYTES, KeyFileError, read_secret, write_secret
from protocol.keys.hosts import ENROLMENT_BYTES, HostSecret
from protocol.keys.signing import PUBLIC_BYTES

NAME_BYTES_MAX = 255
_SIZES = {"enrolment": ENROLMENT_BYTES, "key": SECRET_BYTES, "leader": PUBLIC_BYTES, "master": 8}
MADE = "by `baton host enroll NAME` on a controller"


def load(path: str | os.PathLike[str]) -> HostSecret:
    """Reads a host's file. Raises KeyFileError: missing, open to others, the controllers' master key, or damaged."""
    text = read_secret(path, "host file", MADE)
    if len(text) == 2 * SECRET_BYTES and all(digit in "0123456789abcdefABCDEF" for digit in text):
        remedy = "enroll this host there by `baton host enroll NAME`, and name the file which that writes"
        raise KeyFileError(f"host file {path}: holds a key of the whole fabric, which only controllers may have; {remedy}")
    try:
        fields = json.loads(text)
        if fields["baton"] != "host":
            raise ValueError
        parts = {name: bytes.fromhex(fields[name]) for name in _SIZES}
        if {name: len(part) for name, part in parts.items()} != _SIZES:
            raise ValueError
        if not packed_text("name", fields["name"], NAME_BYTES_MAX):
            raise ValueError
        found = HostSecret(
            fields["name"], parts["enrolment"], parts["key"], parts["leader"], int.from_bytes(parts["master"])
        )
        found.at(bytes(6))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KeyFileError(f"host file {path}: is no host's file; make one {MADE}") from None
    return found


def save(host: HostSecret, path: Path) -> None:
    """Writes a host's file, mode 0600; never overwrites one. Raises KeyFileError: it exists, or cannot be written."""
    fields = {
        "baton": "host",
        "name": host.name,
        "enrolment": host.enrolment.hex(),
        "key": host.secret.hex(),
        "leader": host.leader.hex(),
        "master": f"{host.fingerprint:016x}",
    }
    write_secret(path, json.dumps(fields) + "\n", "host file", "remove it, or name another by --out")
