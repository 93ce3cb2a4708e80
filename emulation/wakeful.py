"""Keeps the processors from sleeping while something is measured. An edge: /dev/cpu_dma_latency.

On a virtual machine a processor that went idle is given back to the host, and is late by up to milliseconds when a timer or a
frame wakes it. An emulated host is late then as no real one would be. While the device is held open with 0 in it, the kernel
polls instead of sleeping (Documentation/power/pm_qos_interface.rst); idle time is still counted as idle.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
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
