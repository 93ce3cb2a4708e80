"""The bypass of control frames whose table of paths is full: what was written nevertheless goes when it is wanted no more."""

from __future__ import annotations

from typing import Any

import pytest

from controller.switch_queues.control_bypass import Bypass, ControlBypass
from ebpf.libbpf import BpfError


class Table(dict[bytes, bytes]):
    """A map in the kernel that holds so many entries."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def __setitem__(self, key: bytes, value: bytes) -> None:
        if key not in self and len(self) == self.room:
            raise BpfError(7, "map is full or gone")
        super().__setitem__(key, value)

    def remove(self, key: bytes) -> None:
        self.pop(key, None)


def path(port: int) -> Bypass:
    return Bypass(port, b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", 9)


def test_paths_that_were_written_before_the_table_was_full_are_removed_later() -> None:
    bypass: Any = ControlBypass.__new__(ControlBypass)
    bypass._ports, bypass._coordinators, bypass._paths, bypass._written = Table(9), Table(9), Table(2), {}
    with pytest.raises(BpfError):
        bypass.follow([], [path(1), path(2), path(3)], [])
    assert len(bypass._paths) == 2
    bypass.follow([], [path(3)], [])
    assert len(bypass._paths) == 1
    bypass.follow([], [], [])
    assert not bypass._paths
