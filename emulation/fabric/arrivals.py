"""Makes a packet leave its sender's socket when it leaves its host's interface, as on a wire. An edge: netlink, eBPF.

With the kernel's datapath a packet stays in its sender's buffer all the way through the fabric, so a full switch port would
hold back the sender instead of dropping: bpf/arrival.bpf.c, at every switch port that faces a host, ends that. The userspace
datapath copies packets anyway.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import closing

from agents.kernel.netlink import Netlink
from ebpf.build import BuildError, object_path
from ebpf.libbpf import BpfObject
from emulation.fabric import filters
from emulation.fabric.naming import EmulationError

NAME = "baton_arrival"


def release_senders(interfaces: Iterable[str]) -> BpfObject:
    """Attaches the program to the ingress of these switch ports; close what it returns when they are gone.

    Raises:
        EmulationError: the program cannot be built, or the kernel refuses it.
    """
    try:
        program = BpfObject(object_path("arrival", filters.SOURCES))
        with closing(Netlink()) as netlink:
            for name in interfaces:
                index, descriptor = socket.if_nametoindex(name), program.program_fd(NAME)
                filters.attach(netlink, index, filters.INGRESS, filters.ARRIVAL_PREFERENCE, descriptor, NAME)
    except (BuildError, OSError) as error:
        raise EmulationError(f"packets cannot leave their senders at the switch: {error}; see `baton doctor`") from None
    return program
