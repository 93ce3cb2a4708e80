"""Which ports hear each other's LLDP, and so which links there are. Pure.

* A link counts when each end has received LLDP of the other.
* A port has one neighbour: while its LLDP comes, that of another port on the same segment is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from controller.openflow.intake.hosts import PortRef
from controller.openflow.view import Link


class _Neighbour(NamedTuple):
    source: PortRef
    last_ns: int


class Heard(NamedTuple):
    """That `at` heard `source`; `linked`: `source` heard `at` as well."""

    source: PortRef
    at: PortRef
    linked: bool


class Neighbours:
    """The ports that have heard another one; its length is their number."""

    def __init__(self) -> None:
        self._heard: dict[PortRef, _Neighbour] = {}  # by the port that received

    def __len__(self) -> int:
        return len(self._heard)

    def hear(self, source: PortRef, at: PortRef, now_ns: int, silence_ns: Callable[[], int]) -> bool:
        """LLDP of `source` came in by `at`. Returns whether `at` has another neighbour now: it had none, or that one has been
        silent for `silence_ns()`."""
        before = self._heard.get(at)
        is_new = before is None or before.source != source
        if before is not None and is_new and now_ns - before.last_ns < silence_ns():
            return False
        self._heard[at] = _Neighbour(source, now_ns)
        return is_new

    def linked(self, one: PortRef, other: PortRef) -> bool:
        """Whether each of two ports has heard the other."""
        there, back = self._heard.get(other), self._heard.get(one)
        return there is not None and back is not None and there.source == one and back.source == other

    def links(self) -> Iterator[Link]:
        """The links between two switches."""
        for at, heard in self._heard.items():
            if heard.source < at and heard.source.dpid != at.dpid and self.linked(heard.source, at):
                yield Link(heard.source, at)

    def joined(self, one: int, other: int, bridged: Iterable[Link] = ()) -> bool:
        """Whether links lead from one switch to another, or both are the same. `bridged`: ports that count as linked."""
        reached, left = {one}, [*self.links(), *bridged]
        while other not in reached:
            near = [link for link in left if (link.a.dpid in reached) != (link.b.dpid in reached)]
            if not near:
                return False
            reached.update(end.dpid for link in near for end in link)
        return True

    def unheard(self, since_ns: int) -> set[PortRef]:
        """The ports that their neighbours have not heard after `since_ns`."""
        return {heard.source for heard in self._heard.values() if heard.last_ns <= since_ns}

    def drop_silent(self, since_ns: int, alive_ns: Callable[[PortRef], int]) -> list[Heard]:
        """Forgets what ports heard up to `since_ns`, unless `alive_ns` says of such a port that it received something later.
        Returns what is forgotten."""
        return self._drop(lambda at, heard: heard.last_ns <= since_ns and alive_ns(at) <= since_ns)

    def drop(self, ref: PortRef) -> list[Heard]:
        """Forgets what a port that is down heard, and that it was heard. Returns what is forgotten."""
        return self._drop(lambda at, heard: ref in (at, heard.source))

    def _drop(self, ends: Callable[[PortRef, _Neighbour], bool]) -> list[Heard]:
        dropped = []
        for at, heard in list(self._heard.items()):
            if ends(at, heard):
                dropped.append(Heard(heard.source, at, self.linked(heard.source, at)))
                del self._heard[at]
        return dropped
