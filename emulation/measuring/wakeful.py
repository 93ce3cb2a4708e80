"""Keeps the processors from sleeping while something is measured. An edge: /dev/cpu_dma_latency, a process.

On a virtual machine a processor that went idle is given back to the host, and is late by up to milliseconds when a timer or a
frame wakes it. An emulated host is late then as no real one would be. While the device is held open with 0 in it, the kernel
polls instead of sleeping (Documentation/power/pm_qos_interface.rst); idle time is still counted as idle. Where the kernel has
no driver for idling (/sys/devices/system/cpu/cpuidle/current_driver says none) that does little, and `occupied` does more:
whoever a frame wakes runs 20 us sooner then.
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
    """While entered no processor sleeps; gives whether that could be asked for."""
    try:
        descriptor = os.open(device, os.O_WRONLY)
    except OSError:  # a kernel without PM QoS, or no right to it: measured as it is
        yield False
        return
    try:
        os.write(descriptor, struct.pack("i", 0))
        yield True
    finally:
        os.close(descriptor)


SPIN = f"import os; os.sched_setscheduler(0, {os.SCHED_IDLE}, os.sched_param(0)); print(flush=True)\nwhile True: pass"
"""What it runs there."""


@contextmanager
def occupied(processor: int | None) -> Iterator[None]:
    """While entered a processor is never idle: a program runs there that gives way to everything else (sched(7), SCHED_IDLE).

    What it runs is counted as nice, not as user (proc(5)), and by `fidelity.CpuTimes` as idle. None: nothing is done.
    """
    if processor is None:
        yield
        return
    argv = ["taskset", "--cpu-list", str(processor), "nice", "-n", "19", "setpriv", "--pdeathsig", "KILL", sys.executable]
    # A session of its own, or it would share its processor as an equal of its maker's other programs: sched(7), autogroup.
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
