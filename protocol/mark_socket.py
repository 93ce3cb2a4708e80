"""For applications: marks a socket with its flow's size and deadline. An edge: a socket option."""

from __future__ import annotations

import socket
import sys

from protocol.flowmark import CoflowMark, FlowMark


def mark_socket(sock: socket.socket, *, size_bytes: int | None = None, deadline_ms: int | None = None) -> None:
    """Announces the size and deadline of a socket's next flow by SO_MARK; with neither, resets it to a flow of type 3.

    Call it before connect() for a new connection, or on an open one for the next message.

    Raises:
        ValueError: a value is out of the mark's range (protocol.flowmark); the socket stays as it was.
        PermissionError: SO_MARK needs CAP_NET_ADMIN or CAP_NET_RAW.
    """
    set_mark(sock, FlowMark(size_bytes, deadline_ms))


def set_mark(sock: socket.socket, mark: FlowMark | CoflowMark) -> None:
    """Sets SO_MARK to a given mark, such as a coflow's. Raises PermissionError as `mark_socket`."""
    try:
        # As bytes, because setsockopt takes ints as signed, and a deadline of 2,048 ms or more sets the highest bit.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark.encode().to_bytes(4, sys.byteorder))
    except PermissionError as error:
        raise PermissionError(
            error.errno, "SO_MARK refused; give the program CAP_NET_ADMIN, or start it with `baton mark`"
        ) from None
