"""Decides on requests for marks: who speaks, for what, and whether there is room. Pure.

    desk.of_guest(datagram, sender, now_ns=now)     # -> the answer's fields
    desk.of_operator(datagram, now_ns=now)

A guest has to show by a cookie that its address is its own, and the address must be behind a port of the bridge, as the
kernel's tables say. Its marks count for packets that come by that port only, so nobody gains by another's address. The
operator, who is whoever may write to the agent's socket on the host, speaks for every guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents.addresses.found import Found
from agents.guests.cookies import ANSWER_TIMES, Cookies
from agents.guests.flows import Flows
from agents.guests.marks import OPERATOR, Marks, Tagging
from agents.guests.rates import Rates
from agents.guests.requests import Cause, Request, RequestRefused, Verb, check_link, encode, load, parse
from agents.queues.classifier import Address

SHOWN = 8
"""Marks in an answer: it fits into a frame."""


class Desk:
    """Requests for one host's marks. Times are its monotonic clock, in ns.

    Args:
        found: returns what is known of the guests' addresses now.
        link_bps: the rate of the host's link; 0: not known.
        secret: random bytes, of which cookies are made.
    """

    def __init__(self, tagging: Tagging, found: Callable[[], Found], link_bps: int, secret: bytes) -> None:
        self.marks = Marks(tagging)
        self.refused: Counter[Cause] = Counter()
        self.challenged = 0
        self._found = found
        self._link_bps = link_bps
        self._cookies = Cookies(secret)
        self._rates = Rates()

    def of_guest(self, data: bytes, sender: Address, *, now_ns: int) -> dict[str, Any]:
        """The answer to a datagram from `sender`; empty: it gets none."""
        try:
            fields = load(data)
        except RequestRefused as error:
            return _bounded(self._refuse(error), data)
        cookie = fields.get("cookie")
        if not (isinstance(cookie, str) and self._cookies.valid(cookie, sender, now_ns)):
            self.challenged += 1
            return _bounded({"cookie": self._cookies.make(sender, now_ns)}, data)
        try:
            if not (port := self._found().ports.get(sender, 0)):
                raise RequestRefused(
                    Cause.UNKNOWN, f"{sender} is not known behind this host's bridge; a new guest is known after two seconds"
                )
            if not self._rates.take(port, now_ns):
                raise RequestRefused(Cause.RATE, "too many requests; mark flows for longer, and leave ports out")
            request = parse(fields)
            if request.source not in (None, sender):
                raise RequestRefused(Cause.FOREIGN, f"from: {request.source} is not your address; you speak from {sender}")
            return self._do(request, sender, port, port, now_ns)
        except RequestRefused as error:
            return self._refuse(error)

    def of_operator(self, data: bytes, *, now_ns: int) -> dict[str, Any]:
        """The answer to a datagram of the operator's."""
        try:
            request = parse(load(data))
            if request.verb is Verb.STATUS and request.source is None:
                return self._status(None, now_ns)
            if request.source is None:
                raise RequestRefused(Cause.MALFORMED, "from: missing; name the guest's address")
            return self._do(request, request.source, self._port(request), OPERATOR, now_ns)
        except RequestRefused as error:
            return self._refuse(error)

    def _port(self, request: Request) -> int:
        """The guest's port of the bridge; 0 (any) while it is not known. The address must not be the host's own."""
        found = self._found()
        if request.source in found.own:
            raise RequestRefused(
                Cause.FOREIGN, f"from: {request.source} is this host's own; mark its programs' flows by `baton mark`"
            )
        return found.ports.get(request.source, 0) if request.source is not None else 0

    def _do(self, request: Request, source: Address, port: int, owner: int, now_ns: int) -> dict[str, Any]:
        if request.verb is Verb.STATUS or request.target is None:
            return self._status(source, now_ns)
        if request.target.version != source.version:
            raise RequestRefused(Cause.MALFORMED, f"to: {request.target} is not of IPv{source.version}, as {source} is")
        flows = Flows(source, request.target, request.source_port, request.target_port, port)
        if request.verb is Verb.UNMARK:
            if owner == OPERATOR and flows not in self.marks.held:  # marked while the guest was known at another port, or none
                flows = next((one for one in self.marks.held if replace(one, bridge_port=port) == flows), flows)
            described = self.marks.held[flows].described(flows, now_ns) if flows in self.marks.held else {}
            self.marks.unmark(flows, owner)
            return {"unmarked": described}
        check_link(request.mark, self._link_bps)
        self.marks.mark(flows, request.mark, now_ns + request.for_ns, owner)
        return {"marked": self.marks.held[flows].described(flows, now_ns)}

    def _status(self, source: Address | None, now_ns: int) -> dict[str, Any]:
        """A guest hears of its own marks, the operator of all, and of what was refused."""
        self.marks.expire(now_ns)
        held = [(flows, one) for flows, one in self.marks.held.items() if source in (None, flows.source)]
        answer: dict[str, Any] = {"held": len(held), "marks": [one.described(flows, now_ns) for flows, one in held[:SHOWN]]}
        if source is None:
            answer |= self.counts()
        return answer

    def counts(self) -> dict[str, Any]:
        """What is held, and what was done and refused since the agent's start."""
        marks = self.marks
        return {
            "held": len(marks.held),
            "marked": marks.marked,
            "expired": marks.expired,
            "removed": marks.removed,
            "challenged": self.challenged,
            "refusals": {str(cause): count for cause, count in self.refused.items()},
        }

    def _refuse(self, error: RequestRefused) -> dict[str, Any]:
        self.refused[error.cause] += 1
        return {"refused": str(error.cause), "why": str(error)}


def _bounded(answer: dict[str, Any], data: bytes) -> dict[str, Any]:
    """What may be sent to an address that is not shown to be the sender's."""
    return answer if len(encode(answer)) <= ANSWER_TIMES * len(data) else {}
