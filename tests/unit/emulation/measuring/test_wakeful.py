"""Processors are asked to stay awake while something is measured, and only then."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from emulation.measuring.wakeful import SPIN, occupied, wakeful


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


def spinners() -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if SPIN.encode() in process.read_bytes().split(b"\0"):
                found.append(int(process.parent.name))
        except OSError:  # it has ended
            continue
    return found


def test_a_processor_is_occupied_by_what_gives_way_to_everything_and_only_meanwhile() -> None:
    before, processor = set(spinners()), min(os.sched_getaffinity(0))
    with occupied(processor):
        (spinner,) = set(spinners()) - before
        assert os.sched_getscheduler(spinner) == os.SCHED_IDLE
        assert os.getpriority(os.PRIO_PROCESS, spinner) == 19
        assert os.sched_getaffinity(spinner) == {processor}
    assert set(spinners()) <= before


def test_a_machine_with_one_processor_is_left_alone() -> None:
    before = set(spinners())
    with occupied(None):
        assert set(spinners()) <= before
