"""Keeps the processors from sleeping during a measurement. An edge: /dev/cpu_dma_latency, a process.

A virtual machine gives an idle processor back to its host, and gets it back up to milliseconds late when a timer or a frame
wakes it. An emulated host is then late as no real one would be. While a process holds the device open with 0 in it, the kernel
polls instead of sleeping (Documentation/power/pm_qos_interface.rst); it still counts idle time as idle. On a kernel without a
driver for idling (/sys/devices/system/cpu/cpuidle/current_driver says none) that does little, and `occupied` does more: a
program that a frame wakes then runs 20 us sooner.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")


@contextmanager
def wakeful(device: Path = DEVICE) -> Iterator[bool]:
    """No processor sleeps inside the block; yields whether the kernel offers that."""
    try:
        descriptor = os.open(device, os.O_WRONLY)
    except OSError:  # a kernel without PM QoS, or no right to use it: measures without
        yield False
        return
    try:
        os.write(descriptor, struct.pack("i", 0))
        yield True
    finally:
        os.close(descriptor)


SPIN = f"import os; os.sched_setscheduler(0, {os.SCHED_IDLE}, os.sched_param(0)); print(flush=True)\nwhile True: pass"
"""The program of `occupied`."""


@contextmanager
def occupied(processor: int | None) -> Iterator[None]:
    """Keeps a processor from idling inside the block, by a program that gives way to every other (sched(7), SCHED_IDLE).

    The kernel counts that program's time as nice, not as user (proc(5)), and `fidelity.CpuTimes` as idle. None: does nothing.
    """
    if processor is None:
        yield
        return
    argv = ["taskset", "--cpu-list", str(processor), "nice", "-n", "19", "setpriv", "--pdeathsig", "KILL", sys.executable]
    # A session of its own: in this process's autogroup (sched(7)) it would get as much of the processor as the other programs.
    process = subprocess.Popen([*argv, "-ISc", SPIN], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None, "a pipe"
        process.stdout.readline()
        with suppress(OSError):  # a kernel without autogroups
            Path(f"/proc/{process.pid}/autogroup").write_text("19")
        yield
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None, "a pipe"
        process.stdout.close()
