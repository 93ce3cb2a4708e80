"""A host whose agent has a newer key beside the older one registers with it until the leader has taken it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.membership.keys import AGAIN_NS, MOST_AGAIN_NS, Keys, of_host
from protocol.key import Key
from protocol.key_files import new_beside
from protocol.keyring import KeyRing
from protocol.keys import host_file
from protocol.keys.hosts import Credentials, Master

MAC = b"\x02\0\0\0\0\x01"
SECOND_NS = 1_000_000_000


def test_it_is_announced_again_and_again_ever_less_often_until_it_is_taken(tmp_path: Path) -> None:
    master, path, said_ns = Master(Key(bytes(32))), tmp_path / "h1.host", []
    host_file.save(master.enroll("h1", b"1" * 8), path)
    newer = master.enroll("h1", b"2" * 8)

    def load(file: Path) -> Credentials:
        return host_file.load(file).at(MAC)

    ring = KeyRing(load(path))
    keys = Keys(cast(Any, SimpleNamespace()), ring, path, load, said_ns.append)
    keys.advance(0)
    assert said_ns == []
    host_file.save(newer, new_beside(path))
    for second in range(2, 600):
        keys.advance(second * SECOND_NS)
    pauses = [after - before for before, after in pairwise(said_ns)]
    assert said_ns[0] <= 3 * SECOND_NS and pauses[0] <= AGAIN_NS + SECOND_NS
    assert pauses == sorted(pauses) and len(pauses) > 8 and pauses[-1] <= MOST_AGAIN_NS + SECOND_NS
    ring.sending, ring.other = cast(Credentials, ring.other), ring.sending  # as when a frame of the leader proves itself by it
    count = len(said_ns)
    for second in range(600, 1200):
        keys.advance(second * SECOND_NS)
    assert len(said_ns) == count and not new_beside(path).exists()


def test_a_file_of_another_host_is_refused_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    master, path, said_ns = Master(Key(bytes(32))), tmp_path / "h1.host", list[int]()
    host_file.save(master.enroll("h1"), path)
    load = of_host("h1", lambda: MAC)
    ring = KeyRing(load(path))
    keys = Keys(cast(Any, SimpleNamespace()), ring, path, load, said_ns.append)
    host_file.save(master.enroll("h2"), new_beside(path))
    for second in range(2, 5):
        keys.advance(second * SECOND_NS)
    assert ring.other is None and said_ns == []
    assert caplog.text.count(f"{new_beside(path)}: h2 was enrolled with it, and this agent is h1; restart") == 1
