"""Who needs permission, and saying so: contended links become REGULATE messages. Sends only through what it is given.

A lost REGULATE leaves a host free on a contended link, so a change is told three times, and all is told again each second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.config.settings import CoordinatorSettings
from controller.members.registry import Member, Members
from controller.scheduling.congestion import Congestion
from protocol.messages import Message, Regulate
from protocol.paging import paginate
from protocol.timers import Timers


class Regulation:
    """The regulated pairs as last concluded from `congestion`, and as told to every member."""

    def __init__(
        self, settings: CoordinatorSettings, members: Members, timers: Timers, send: Callable[[Message, bytes], None]
    ) -> None:
        self.congestion = Congestion.from_settings(settings)
        self.regulated: dict[int, frozenset[int]] = {}
        self.version = 0
        self._members = members
        self._timers = timers
        self._send = send

    def update(self, now_ns: int, *, free: bool) -> bool:
        """Draws the conclusions (`free`: nobody needs permission) and tells whom they concern; whether anything changed."""
        wanted = {} if free else self.congestion.regulated(now_ns=now_ns)
        if wanted == self.regulated:
            return False
        changed = [n for n in wanted.keys() | self.regulated.keys() if wanted.get(n) != self.regulated.get(n)]
        self.regulated = dict(wanted)
        self.version += 1
        self._timers.repeat(now_ns, lambda _: self._tell_nodes(changed))
        return True

    def left(self, node: int, now_ns: int) -> None:
        """Forgets a member."""
        self.congestion.left(node, now_ns=now_ns)
        self.regulated.pop(node, None)

    def contended_links(self) -> list[tuple[str, str]]:
        """The links that need permission now."""
        return [link for link in self.congestion.contended() if isinstance(link, tuple)]

    def refresh(self, _: int) -> None:
        """Tells everybody again."""
        self._tell_nodes(member.node for member in self._members.present())

    def tell(self, member: Member) -> None:
        """Tells one member in full."""
        destinations = tuple(sorted(self.regulated.get(member.node, frozenset())))
        for page in paginate(Regulate(self.version, 0, 1, destinations)):
            self._send(page, member.mac)

    def _tell_nodes(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if (member := self._members.get(node)) is not None:
                self.tell(member)
