"""Records how exactly packets follow one another on each link of an emulated fabric. An edge: netlink, eBPF.

bpf/spacing.bpf.c runs at both ends of a link, in real time as in virtual time; it costs a few hundred nanoseconds a packet. It
has preferences of its own at the clsact hooks: agents and switch queues leave programs alone that are not theirs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from agents.kernel.netlink import Netlink
from ebpf.build import BuildError, object_path
from ebpf.libbpf import BpfObject
from emulation.fabric import filters
from emulation.measuring.spacing import LinkSpacing, of_counts
from topology.fabric import DirectedLink

BUCKETS = 480  # bpf/links.h
_HEAD = struct.Struct("=8Q")  # struct link_spacing, before its buckets
_COUNTS = struct.Struct(f"={BUCKETS}Q")
_KEY = bytes(4)

End = tuple[Netlink, int]
"""An interface: a netlink socket of its namespace, and its index there."""


class SpacingRecorder:
    """The recorder of one directed link."""

    def __init__(self, rate_bps: int, *, exact: bool) -> None:
        """Loads the programs. Raises BuildError, BpfError: they cannot be built or loaded.

        Args:
            exact: whether the sending port is an `ExactPort`, which itself says which packets follow another.
        """
        self._rate_bps, self._exact = rate_bps, exact
        self._object = BpfObject(object_path("spacing", filters.SOURCES))
        self._map = self._object.map("spacing", 4, _HEAD.size + _COUNTS.size)
        self._ends: list[Callable[[], None]] = []
        self.reset()

    def attach(self, sender: End, receiver: End) -> None:
        """Attaches the programs to both ends. Raises NetlinkError: the kernel refuses."""
        if not self._exact:
            self._add(sender, filters.EGRESS, filters.WAITS_PREFERENCE, "baton_waits")
        self._add(receiver, filters.INGRESS, filters.SPACING_PREFERENCE, "baton_spacing")

    def _add(self, end: End, hook: int, preference: int, name: str) -> None:
        netlink, index = end
        program = self._object.program_fd(name)
        self._ends.append(lambda: filters.attach(netlink, index, hook, preference, program, name))
        self._ends[-1]()

    def restore(self) -> None:
        """Attaches the programs again, which may have gone with a hook. Raises NetlinkError: an end is gone."""
        for attach in self._ends:
            attach()

    def reset(self) -> None:
        """Begins anew, with no packet counted."""
        self._map[_KEY] = _HEAD.pack(self._rate_bps, self._exact, 0, 0, 0, 0, 0, 0) + bytes(_COUNTS.size)

    def read(self) -> LinkSpacing:
        """What was recorded since `reset`."""
        data = self._map.get(_KEY) or bytes(_HEAD.size + _COUNTS.size)
        _, _, _, _, packets, back_to_back, worst, worst_ns = _HEAD.unpack_from(data)
        return of_counts(packets, back_to_back, worst, worst_ns, _COUNTS.unpack_from(data, _HEAD.size))

    def close(self) -> None:
        """Frees what this process holds; the programs go with their interfaces."""
        self._object.close()



class SpacingRecorders:
    """The recorders of all links of a fabric. Where the kernel or the compiler refuses them, there are none."""

    def __init__(self) -> None:
        self.refused = ""
        self._recorders: dict[DirectedLink, SpacingRecorder] = {}

    def record(self, link: DirectedLink, rate_bps: int, sender: End, receiver: End, *, exact: bool) -> None:
        """Begins to record a link; if that is refused, no link is recorded, and `refused` says why."""
        if self.refused:
            return
        try:
            self._recorders[link] = recorder = SpacingRecorder(rate_bps, exact=exact)
            recorder.attach(sender, receiver)
        except (BuildError, OSError) as error:
            self.close()
            self.refused = str(error)

    def restore(self) -> None:
        """Attaches all programs again, which may have gone with a hook. Raises NetlinkError: an interface is gone."""
        for recorder in self._recorders.values():
            recorder.restore()

    def reset(self) -> None:
        """Begins anew at every link, with no packet counted."""
        for recorder in self._recorders.values():
            recorder.reset()

    def read(self) -> dict[DirectedLink, LinkSpacing]:
        """What was recorded of each link since `reset`."""
        return {link: recorder.read() for link, recorder in self._recorders.items()}

    def close(self) -> None:
        """Frees what this process holds; nothing is recorded afterwards."""
        for recorder in self._recorders.values():
            recorder.close()
        self._recorders.clear()
