"""Baton's TCP congestion control in the kernel: registered, found registered, taken away. An edge: eBPF and /proc.

A congestion control belongs to the kernel, not to a network namespace: agents of several emulated hosts share one. The first
registers it; the others, and an agent that follows one that was killed, find it there and leave it there.
"""

from __future__ import annotations

from pathlib import Path

from agents.bpf.build import object_path
from agents.libbpf import BpfObject

DCTCP = "baton_dctcp"
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available() -> frozenset[str]:
    """The names that TCP_CONGESTION takes in this kernel now (a module that may still be loaded is not among them)."""
    return frozenset(AVAILABLE.read_text().split())


class CongestionControl:
    """baton_dctcp, there until `close` at the least. Connections that use it at the close keep it until they end."""

    def __init__(self) -> None:
        """Registers it, unless it is registered.

        Raises:
            BuildError: it cannot be compiled here; says what is missing.
            BpfError: the kernel does not take it (it needs CONFIG_BPF_JIT and BTF), or this process may not.
        """
        self._object: BpfObject | None = None
        if DCTCP in available():
            return
        loaded = BpfObject(object_path("congestion"))
        try:
            loaded.attach_struct_ops(DCTCP)
        except BaseException:
            loaded.close()
            raise
        self._object = loaded

    @property
    def owner(self) -> bool:
        """Whether this process registered it."""
        return self._object is not None

    def close(self) -> None:
        """Takes it away, if this process registered it. May be called again."""
        if self._object is not None:
            self._object.close()
            self._object = None
