"""The raw socket that control frames pass, the same at both ends. An edge: AF_PACKET."""

from __future__ import annotations

import ctypes
import socket
import struct

from protocol.messages import ETHERTYPE, HEARTBEAT_MAC

SOL_PACKET = 263  # linux/socket.h
PACKET_ADD_MEMBERSHIP, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING = 1, 20, 23  # linux/if_packet.h
PACKET_MR_MULTICAST = 0
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
# Classic BPF (linux/filter.h): load the EtherType; if it is ours take the whole frame, else nothing.
_LOAD, _EQUAL, _RETURN = 0x28, 0x15, 0x06


def _only(ethertype: int) -> bytes:
    instructions = ((_LOAD, 0, 0, 12), (_EQUAL, 0, 1, ethertype), (_RETURN, 0, 0, 0xFFFF), (_RETURN, 0, 0, 0))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)


RECEIVE_BYTES = 2048


class ControlSocket:
    """Frames of one EtherType, Baton's, on one interface. Sending passes the interface's queues, in the control band.

    It listens where all frames pass and filters: a port of a bridge hands frames to the bridge before any socket that asked
    for one EtherType sees them.
    """

    def __init__(
        self, interface: str, ethertype: int = ETHERTYPE, group: bytes = HEARTBEAT_MAC, *, bypass: bool = False
    ) -> None:
        """Listens to `group`, too. With `bypass` what is sent passes no queues.

        Raises OSError: no such interface, or no right to open a packet socket (CAP_NET_RAW).
        """
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        instructions = _only(ethertype)
        code = ctypes.create_string_buffer(instructions)
        program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, int(bypass))
        self._socket.bind((interface, ETH_P_ALL))
        self._socket.setblocking(False)
        membership = struct.pack(
            "iHH8s", socket.if_nametoindex(interface), PACKET_MR_MULTICAST, 6, group + bytes(2)
        )
        self._socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
        self.address: bytes = self._socket.getsockname()[4][:6]
        self.interface = interface

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def send(self, frame: bytes) -> bool:
        """Sends a whole frame; False if the interface could not take it (a lost frame is the protocol's to survive)."""
        try:
            self._socket.send(frame)
        except OSError:
            return False
        return True

    def receive(self) -> bytes | None:
        """The next frame, or None when there is none (or the interface is down just now)."""
        try:
            return self._socket.recv(RECEIVE_BYTES)
        except OSError:
            return None

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()
