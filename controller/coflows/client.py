"""For applications: opens a coflow, marks its sockets and closes it. An edge: the store, a socket option.

    client = CoflowClient("redis://controller:6379/0")
    with client.open("shuffle 7", flows=[("h1", "h2", 5_000_000), ("h3", "h2", 2_000_000)]) as coflow:
        coflow.mark(sock, size_bytes=5_000_000)    # before connect(), on any host: client.find(coflow.id)

Its document in the store: `controller.coflows.coflow`. Instants are by the store's clock, so that all hosts mean the same. What
it does not say, the controller learns from the hosts, which count the bytes of marked sockets: so a coflow may be opened with
flows, with the sum of their bytes, or with nothing; flows may be added unless it was opened with their sum.

A deadline is admitted or refused when the coflow is opened; one that is refused may be admitted later, when others have ended
(`OpenCoflow.answered`). While one that is not refused is ahead, a socket has the mark of a flow with the time that is left:
type 1, so that its rate is controlled as Karuna's deadline flows are (SIGCOMM 2016, section 4.1) and it has queue 0. Any
other socket, also one that is opened after the deadline, has the coflow's own mark, and the queue that
`controller.coflows.order` says.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from controller.coflows.coflow import Flow, check_size, checked_flows
from controller.coflows.deadlines import REFUSED, UNCHECKED, Verdict
from controller.store.layout import EXPIRY_S
from controller.store.store import Store
from protocol.bodies.text import packed_text
from protocol.flowmark import COFLOW_MAX, DEADLINE_MAX_MS, CoflowMark, FlowMark
from protocol.mark_socket import set_mark
from protocol.units import MILLISECOND_NS

LIFETIME_NS = EXPIRY_S["coflow"] * 10**9
NAME_BYTES_MAX = 255
WAIT_S, LOOK_S = 1.0, 0.002
"""How long `open` waits for the controller's verdict on a deadline, and how often it looks."""


class NotOpen(LookupError):
    """There is no open coflow of this id; the text says what to do."""


@dataclass(frozen=True, slots=True)
class OpenCoflow:
    """A coflow that is open. As a context it is closed at the end.

    `asked_ns`: the deadline that it was opened with, by this host's CLOCK_MONOTONIC. `verdict`: whether that is kept, and why;
    None without a deadline.
    """

    store: Store
    id: int
    asked_ns: int | None = None
    verdict: Verdict | None = None

    @property
    def deadline_ns(self) -> int | None:
        """The deadline, unless it is refused."""
        return None if self.verdict is not None and self.verdict.deadline == REFUSED else self.asked_ns

    def marking(self, size_bytes: int | None = None, *, now_ns: int | None = None) -> FlowMark | CoflowMark:
        """The mark of a flow that begins now; its size counts only while a deadline is ahead.

        Raises:
            ValueError: a size out of the mark's range.
        """
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        if self.deadline_ns is None or now_ns >= self.deadline_ns:
            return CoflowMark(self.id)
        return FlowMark(size_bytes, min(-(-(self.deadline_ns - now_ns) // MILLISECOND_NS), DEADLINE_MAX_MS))

    def answered(self) -> OpenCoflow:
        """This coflow with the verdict on its deadline, if there is one by now. Raises StoreUnavailable.

        A client with `wait_s=0` does not wait for it: data flow meanwhile, under the mark of a deadline. Where it was refused,
        mark the sockets anew. Ask again now and then: where others have ended it may be admitted after all, and a socket that
        is marked anew, with the bytes that are left, is paced by its deadline from then on.
        """
        if self.asked_ns is None:
            return self
        found = self.store.verdict(self.id)  # none where the store has lost it: what was decided holds until it is again
        return self if found is None else _decided(self.store, self.id, self.asked_ns, found)

    def mark(self, sock: socket.socket, *, size_bytes: int | None = None) -> None:
        """Marks a socket for the flow that begins now: before connect(), or on an open connection for its next message.

        Raises:
            ValueError: a size out of the mark's range.
            PermissionError: SO_MARK needs CAP_NET_ADMIN or CAP_NET_RAW.
        """
        set_mark(sock, self.marking(size_bytes))

    def add(self, source: str, destination: str, size_bytes: int) -> None:
        """Tells of a flow more (or of more bytes of one), as `add_all`."""
        self.add_all([(source, destination, size_bytes)])

    def add_all(self, more: Iterable[tuple[str, str, int]]) -> tuple[Flow, ...]:
        """Tells of more flows (or of more bytes of some), of all or of none; returns all that there are now.

        Raises:
            ValueError: a flow that there cannot be, naming its field; or the coflow has a deadline, decided without them, or
                was opened with the sum of all.
            NotOpen: it has been closed.
        """
        added = tuple(more)
        flows: tuple[Flow, ...] = ()

        def make(document: dict[str, Any] | None) -> dict[str, Any]:
            nonlocal flows
            if document is None:
                raise NotOpen(f"coflow {self.id} is not open; `baton coflow list` shows those that are")
            if document["deadline_ns"] is not None:
                raise ValueError(f"flows: coflow {self.id} has a deadline, decided without this flow; open another coflow")
            if document["size_bytes"] is not None:
                raise ValueError(f"flows: coflow {self.id} was opened with its size; open another without it")
            flows = checked_flows([*document.get("flows", ()), *added])
            return document | {"flows": [list(flow) for flow in flows]}

        self.store.change_coflow(self.id, make)
        return flows

    def close(self) -> None:
        """Takes it out of the order; what its flows still send counts for no coflow. Raises StoreUnavailable."""
        self.store.forget_coflow(self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CoflowClient:
    """Opens and finds the coflows of a store, given the store or its URL. Every method raises StoreUnavailable."""

    def __init__(self, store: Store | str, *, wait_s: float = WAIT_S) -> None:
        """`wait_s`: how long `open` waits for the verdict on a deadline; 0: see `OpenCoflow.answered`."""
        self._store = Store(store) if isinstance(store, str) else store
        self._wait_s = wait_s

    def open(
        self,
        name: str = "",
        *,
        deadline_ms: int | None = None,
        size_bytes: int | None = None,
        flows: Iterable[tuple[str, str, int]] = (),
    ) -> OpenCoflow:
        """Opens a coflow. It expires after an hour, so that a coflow that is never closed ends, too.

        Args:
            deadline_ms: after now. With `flows` it is admitted or refused: see `OpenCoflow.verdict`.
            size_bytes: of all its flows together, if known.
            flows: (source, destination, bytes) of what it sends, hosts by their names in the fabric, if known.

        Raises:
            ValueError: a name that is no line of text, a deadline that no mark holds, a size that there cannot be, a flow that
                there cannot be, or both of the last two; the text names the field, and nothing is opened.
        """
        packed_text("name", name, NAME_BYTES_MAX)
        FlowMark(deadline_ms=deadline_ms)
        if size_bytes is not None:
            check_size("size_bytes", size_bytes)
        known = checked_flows(flows)
        if known and size_bytes is not None:
            raise ValueError("size_bytes: the flows say it already; leave it out")
        number, now_ns = self._store.next_coflow(COFLOW_MAX)
        after_ns = None if deadline_ms is None else deadline_ms * MILLISECOND_NS
        document = {
            "name": name,
            "opened_ns": now_ns,
            "expires_ns": now_ns + LIFETIME_NS,
            "deadline_ns": None if after_ns is None else now_ns + after_ns,
            "size_bytes": size_bytes,
            "flows": [list(flow) for flow in known],
        }
        self._store.publish_coflow(number, document)
        if after_ns is None:
            return OpenCoflow(self._store, number)
        deadline_ns = time.monotonic_ns() + after_ns
        return _decided(self._store, number, deadline_ns, self._verdict(number) if known else None)

    def find(self, coflow: int) -> OpenCoflow:
        """The open coflow of this id, on whatever host it was opened.

        Raises:
            NotOpen: there is none.
        """
        document = self._store.coflows().get(coflow)
        if document is None:
            raise NotOpen(f"coflow {coflow} is not open; `baton coflow list` shows those that are")
        if (deadline_ns := document["deadline_ns"]) is None:
            return OpenCoflow(self._store, coflow)
        deadline_ns += time.monotonic_ns() - self._store.time_ns()
        return _decided(self._store, coflow, deadline_ns, document.get("verdict"))

    def _verdict(self, coflow: int) -> dict[str, Any] | None:
        until = time.monotonic() + self._wait_s
        while (verdict := self._store.verdict(coflow)) is None and time.monotonic() < until:
            time.sleep(LOOK_S)
        return verdict


def _decided(store: Store, coflow: int, asked_ns: int, found: dict[str, Any] | None) -> OpenCoflow:
    if found is None:
        verdict = Verdict(UNCHECKED, "the controller has not decided, or knows no flows")
    else:
        verdict = Verdict(found["deadline"], found["why"])
    return OpenCoflow(store, coflow, asked_ns, verdict)
