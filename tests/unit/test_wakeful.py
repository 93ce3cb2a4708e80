"""Processors are asked to stay awake while something is measured, and only then."""

from __future__ import annotations

import struct
from pathlib import Path

from emulation.wakeful import wakeful


def test_a_latency_of_zero_is_asked_for_and_held_open_only_meanwhile(tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.touch()

    def held_open() -> bool:
        links = Path("/proc/self/fd").iterdir()
        return str(device) in {str(link.readlink()) for link in links if link.is_symlink()}

    with wakeful(device) as asked:
        assert asked
        assert struct.unpack("i", device.read_bytes()) == (0,)
        assert held_open()
    assert not held_open()


def test_a_machine_without_the_device_is_measured_as_it_is(tmp_path: Path) -> None:
    with wakeful(tmp_path / "none") as asked:
        assert not asked
