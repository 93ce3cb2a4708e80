"""The gate before one destination's queues: a qdisc of the kernel's, `tbf` (credit) or `plug` (time). An edge: netlink.

Each action is one prebuilt netlink message, patched in place. The kernel does not look at a changed gate before the next packet
passes the interface: the caller sends one (the acknowledgement of a directive is such a packet).
"""

from __future__ import annotations

import errno
import struct
from abc import ABC, abstractmethod

from agents.kernel.netlink import RTM_GETQDISC, Netlink, NetlinkError, query
from agents.kernel.qdiscs import NEW, TICK_NS, plug, shut_tbf, tbf

IDLE_RATE_BPS = 32_000
"""The rate of a TBF whose grant is spent: 4 kB/s. Less would overflow the 32 bits of ticks that hold burst over rate."""
ONE_PACKET = 1600
"""The smallest bucket, unless the interface has longer frames: one full frame. sch_tbf drops, at enqueue, a packet longer than
the bucket."""
MOST_PACKET = 65_000
"""The largest such bucket: a closed gate counts every packet as 64 KB (agents/kernel/qdiscs.py), which must not fit into it."""
FREE_RATE_BPS = 400_000_000_000
FREE_BURST = 1 << 24
QUEUE_BYTES = 3_000_000
RATE_WINDOW_NS = 500_000
"""At a limited rate the bucket holds what the rate passes in this time. The kernel's timers manage it. All senders into a link
together can have this much of the link's capacity in its buffer: a third of 100 packets at 1 Gb/s."""

TCQ_PLUG_BUFFER, TCQ_PLUG_RELEASE_INDEFINITE, NO_ACTION = 0, 2, 99


class Gate(ABC):
    """One gate. Every action is one message to the kernel; raises NetlinkError when the qdisc is gone."""

    open_message: bytes
    """The message that `open` sends."""
    shut_message: bytes
    """The message that `close` sends."""
    refused_message: bytes
    """Takes the same path through the kernel, which refuses it at the end: a rehearsal keeps that path in the caches."""

    def __init__(self, netlink: Netlink, ifindex: int, handle: int, parent: int, packet_bytes: int = ONE_PACKET) -> None:
        """`packet_bytes`: the longest packet of the interface, with its headers (kernel/offload.py, `longest_frame`)."""
        self._netlink = netlink
        self.packet_bytes = max(ONE_PACKET, packet_bytes)
        self._ifindex, self.handle, self.parent = ifindex, handle, parent
        self.query = query(RTM_GETQDISC, ifindex, handle=handle)

    @abstractmethod
    def creation(self) -> bytes:
        """The message that makes the gate's qdisc, open."""

    @abstractmethod
    def grant(self, credit_bytes: int, link_bps: int) -> int | None:
        """Lets so many bytes pass. None: the gate closes itself after them. Else: the caller must close it after so many ns."""

    @abstractmethod
    def rate(self, rate_bps: int) -> bool:
        """Lets traffic pass at a rate; False if this kind of gate cannot."""

    @abstractmethod
    def bucket_bytes(self, rate_bps: int) -> int:
        """What passes at once when `rate` is called with this rate."""

    @abstractmethod
    def open(self) -> None:
        """Lets everything pass."""

    @abstractmethod
    def close(self) -> None:
        """Lets nothing pass."""

    def state(self) -> tuple[int, int]:
        """(bytes passed since the gate was made, bytes that wait)."""
        return self._netlink.state(self.query)


class TbfGate(Gate):
    """Credit gate: changing a TBF fills its bucket, so one message with a bucket of the granted bytes is the grant.

    With segmentation offload a packet is up to 64 KB, and sch_tbf cuts those longer than the bucket into frames (software
    segmentation): grants stay exact, at the price of that work.
    """

    def __init__(self, netlink: Netlink, ifindex: int, handle: int, parent: int, packet_bytes: int = ONE_PACKET) -> None:
        super().__init__(netlink, ifindex, handle, parent, packet_bytes)
        packet = self.packet_bytes
        change = tbf(ifindex, handle, parent, rate_bps=IDLE_RATE_BPS, burst=packet, limit=QUEUE_BYTES)
        self.shut_message = shut_tbf(ifindex, handle, parent, rate_bps=IDLE_RATE_BPS, burst=packet, limit=QUEUE_BYTES)
        self.open_message = tbf(ifindex, handle, parent, rate_bps=FREE_RATE_BPS, burst=FREE_BURST, limit=QUEUE_BYTES)
        self.refused_message = tbf(ifindex, handle, parent, rate_bps=FREE_RATE_BPS, burst=0, limit=QUEUE_BYTES)
        self.change = bytearray(change)
        # The attribute TCA_TBF_BURST is the last; the ticks in TCA_TBF_PARMS (before the mtu) are what a dump shows.
        self.burst_at = len(change) - 4
        self.ticks_at = len(change) - 4 - 4 - 8

    def creation(self) -> bytes:
        return tbf(
            self._ifindex, self.handle, self.parent,
            rate_bps=FREE_RATE_BPS, burst=FREE_BURST, limit=QUEUE_BYTES, flags=NEW,
        )  # fmt: skip

    def grant(self, credit_bytes: int, link_bps: int) -> int | None:
        """The bucket holds exactly `credit_bytes` (at least one packet)."""
        burst = max(self.packet_bytes, credit_bytes)
        struct.pack_into("I", self.change, self.burst_at, burst)
        ticks = min(0xFFFFFFFF, burst * 8 * 10**9 // IDLE_RATE_BPS // TICK_NS)
        struct.pack_into("I", self.change, self.ticks_at, ticks)
        self._netlink.post(self.change)
        return None

    def rate(self, rate_bps: int) -> bool:
        """A plain token bucket at `rate_bps`."""
        burst = self.bucket_bytes(rate_bps)
        self._netlink.request(
            tbf(self._ifindex, self.handle, self.parent, rate_bps=rate_bps, burst=burst, limit=QUEUE_BYTES)
        )
        return True

    def bucket_bytes(self, rate_bps: int) -> int:
        """The bucket, which is full whenever it is changed."""
        return max(2 * self.packet_bytes, rate_bps * RATE_WINDOW_NS // 8 // 10**9)

    def open(self) -> None:
        """A rate above any link's."""
        self._netlink.post(self.open_message)

    def close(self) -> None:
        """Every packet counts as more than the bucket holds."""
        self._netlink.post(self.shut_message)


class PlugGate(Gate):
    """Time gate: sch_plug holds packets or lets them pass. Exact in time, not in bytes; its state cannot be read back.

    Starts plugged; only BUFFER and RELEASE_INDEFINITE are used (RELEASE_ONE frees what was counted at the last BUFFER only).
    """

    def __init__(self, netlink: Netlink, ifindex: int, handle: int, parent: int, packet_bytes: int = ONE_PACKET) -> None:
        super().__init__(netlink, ifindex, handle, parent, packet_bytes)
        self.shut_message = plug(ifindex, handle, parent, action=TCQ_PLUG_BUFFER, limit=0)
        self.open_message = plug(ifindex, handle, parent, action=TCQ_PLUG_RELEASE_INDEFINITE, limit=0)
        self.refused_message = plug(ifindex, handle, parent, action=NO_ACTION, limit=0)

    def creation(self) -> bytes:
        """The plug with its limit; the kernel ignores the action of a new one and starts plugged."""
        return plug(
            self._ifindex, self.handle, self.parent, action=TCQ_PLUG_RELEASE_INDEFINITE, limit=QUEUE_BYTES, flags=NEW
        )

    def grant(self, credit_bytes: int, link_bps: int) -> int | None:
        """Opens for the time the link needs for the bytes."""
        self._netlink.request(self.open_message)
        return credit_bytes * 8 * 10**9 // link_bps

    def rate(self, rate_bps: int) -> bool:
        """False: a plug cannot limit a rate."""
        return False

    def bucket_bytes(self, rate_bps: int) -> int:
        """None: it has no bucket."""
        return 0

    def open(self) -> None:
        """Releases until closed."""
        self._netlink.request(self.open_message)

    def close(self) -> None:
        """Holds every packet that comes from now on."""
        self._netlink.request(self.shut_message)


GATE_KINDS: dict[str, type[Gate]] = {"tbf": TbfGate, "plug": PlugGate}


def gone(error: NetlinkError) -> bool:
    """Whether the kernel says that there is no such qdisc."""
    return error.errno in (errno.ENOENT, errno.EINVAL, errno.ENODEV)
