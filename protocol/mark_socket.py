"""For applications: marks a socket with its flow's size and deadline. An edge: a socket option."""

from __future__ import annotations

import socket
import sys

from protocol.flowmark import CoflowMark, FlowMark


def mark_socket(sock: socket.socket, *, size_bytes: int | None = None, deadline_ms: int | None = None) -> None:
    """Sets SO_MARK to what is known of the socket's next flow; with neither, back to a flow of type 3.

    Before connect() for a new connection; on an open one, for the message that is sent next.

    Raises:
        ValueError: out of the mark's range (protocol.flowmark); the socket stays as it was.
        PermissionError: SO_MARK needs CAP_NET_ADMIN or CAP_NET_RAW.
    """
    set_mark(sock, FlowMark(size_bytes, deadline_ms))


def set_mark(sock: socket.socket, mark: FlowMark | CoflowMark) -> None:
    """Sets SO_MARK to a mark that was made before, such as a coflow's. Raises PermissionError as `mark_socket`."""
    try:
        # As bytes: setsockopt takes an int for a signed one, and a deadline from 2,048 ms on sets the highest bit.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark.encode().to_bytes(4, sys.byteorder))
    except PermissionError as error:
        raise PermissionError(
            error.errno, "SO_MARK refused; give the program CAP_NET_ADMIN, or start it with `baton mark`"
        ) from None
