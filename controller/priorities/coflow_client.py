"""For applications: opens a coflow, marks its sockets and closes it. An edge: the store, a socket option.

    client = CoflowClient("redis://controller:6379/0")
    with client.open("shuffle 7", deadline_ms=200) as coflow:
        coflow.mark(sock, size_bytes=5_000_000)    # before connect(), on any host: client.find(coflow.id)

Its document in the store: {"name", "opened_ns", "expires_ns", "deadline_ns" or null, "size_bytes" or null}; instants are by
the store's clock, so that all hosts mean the same, and coflows are in the order in which the store opened them.

A socket of a coflow whose deadline is ahead has the mark of a flow with the time that is left: type 1, so that its rate is
controlled as Karuna's deadline flows are (SIGCOMM 2016, section 4.1) and it has queue 0; the coordinator distributes nothing
for it. Any other socket, also one that is opened after the deadline, has the coflow's own mark, and the queue that
`controller.priorities.coflows` says.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from controller.store.layout import EXPIRY_S
from controller.store.store import Store
from protocol.flowmark import COFLOW_MAX, DEADLINE_MAX_MS, CoflowMark, FlowMark
from protocol.mark_socket import set_mark
from protocol.units import MILLISECOND_NS

LIFETIME_NS = EXPIRY_S["coflow"] * 10**9


class NotOpen(LookupError):
    """There is no open coflow of this id; the text says what to do."""


@dataclass(frozen=True, slots=True)
class OpenCoflow:
    """A coflow that is open; `deadline_ns` by this host's CLOCK_MONOTONIC. As a context it is closed at the end."""

    store: Store
    id: int
    deadline_ns: int | None = None

    def marking(self, size_bytes: int | None = None, *, now_ns: int | None = None) -> FlowMark | CoflowMark:
        """The mark of a flow that begins now; its size counts only while a deadline is ahead.

        Raises:
            ValueError: a size out of the mark's range.
        """
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        if self.deadline_ns is None or now_ns >= self.deadline_ns:
            return CoflowMark(self.id)
        return FlowMark(size_bytes, min(-(-(self.deadline_ns - now_ns) // MILLISECOND_NS), DEADLINE_MAX_MS))

    def mark(self, sock: socket.socket, *, size_bytes: int | None = None) -> None:
        """Marks a socket for the flow that begins now: before connect(), or on an open connection for its next message.

        Raises:
            ValueError: a size out of the mark's range.
            PermissionError: SO_MARK needs CAP_NET_ADMIN or CAP_NET_RAW.
        """
        set_mark(sock, self.marking(size_bytes))

    def close(self) -> None:
        """Takes it out of the order; its flows still send, in the last queue. Raises StoreUnavailable."""
        self.store.forget_coflow(self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CoflowClient:
    """Opens and finds the coflows of a store, given the store or its URL. Every method raises StoreUnavailable."""

    def __init__(self, store: Store | str) -> None:
        self._store = Store(store) if isinstance(store, str) else store

    def open(self, name: str = "", *, deadline_ms: int | None = None, size_bytes: int | None = None) -> OpenCoflow:
        """Opens a coflow, last in the order. It expires after an hour, so that a coflow that is never closed ends, too.

        Args:
            deadline_ms: after now; with it the coflow is of type 1 until then.
            size_bytes: of all its flows together, if known.

        Raises:
            ValueError: a deadline that no mark holds, or a size that is not above 0; nothing is opened.
        """
        FlowMark(deadline_ms=deadline_ms)
        if size_bytes is not None and size_bytes <= 0:
            raise ValueError(f"size_bytes must be above 0, not {size_bytes}; leave it out if it is not known")
        number, now_ns = self._store.next_coflow(COFLOW_MAX)
        after_ns = None if deadline_ms is None else deadline_ms * MILLISECOND_NS
        document = {
            "name": name,
            "opened_ns": now_ns,
            "expires_ns": now_ns + LIFETIME_NS,
            "deadline_ns": None if after_ns is None else now_ns + after_ns,
            "size_bytes": size_bytes,
        }
        self._store.publish_coflow(number, document)
        return OpenCoflow(self._store, number, None if after_ns is None else time.monotonic_ns() + after_ns)

    def find(self, coflow: int) -> OpenCoflow:
        """The open coflow of this id, on whatever host it was opened.

        Raises:
            NotOpen: there is none.
        """
        document = self._store.coflows().get(coflow)
        if document is None:
            raise NotOpen(f"coflow {coflow} is not open; `baton coflow list` shows those that are")
        deadline_ns = document["deadline_ns"]
        if deadline_ns is not None:
            deadline_ns += time.monotonic_ns() - self._store.time_ns()
        return OpenCoflow(self._store, coflow, deadline_ns)
