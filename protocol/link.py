"""The raw socket that control frames pass, the same at both ends. An edge: AF_PACKET."""

from __future__ import annotations

import socket
import struct

from protocol.messages import ETHERTYPE, HEARTBEAT_MAC

SOL_PACKET = 263  # linux/socket.h
PACKET_ADD_MEMBERSHIP = 1  # linux/if_packet.h
PACKET_MR_MULTICAST = 0
RECEIVE_BYTES = 2048


class ControlSocket:
    """Frames of Baton's EtherType on one interface. Sending passes the interface's queues, in the control band."""

    def __init__(self, interface: str) -> None:
        """Raises OSError: no such interface, or no right to open a packet socket (CAP_NET_RAW)."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        self._socket.bind((interface, ETHERTYPE))
        self._socket.setblocking(False)
        membership = struct.pack(
            "iHH8s", socket.if_nametoindex(interface), PACKET_MR_MULTICAST, 6, HEARTBEAT_MAC + bytes(2)
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
