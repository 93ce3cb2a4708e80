"""The order in which waiting flows are granted steps. Pure.

*Order.* A flow goes to the end of the queue when its turn is over: when it was granted as many steps as its weight, relative
to the least weight, allows (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995), or all that it wants. Who is first in
the queue is granted the next step.

*Work.* Only so many flows of a link are awake in the queue as can fill it several times over; the others are parked at the
link, first come, first served. So a step costs time by the links' capacity, and not by the number of flows that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from controller.policies.base import Weights
from controller.policies.steps.flows import Flow, Resource

ROUNDS, SPARE = 16, 10
"""So many times a link's capacity, and so many flows more, are awake there: as many as fill the longest window."""


class Queue:
    """The flows that wait: those that are awake, in their order, and those that are parked.

    Args:
        turn: the steps of a turn of the least weight.
    """

    def __init__(self, weights: Weights, turn: int) -> None:
        self._weights, self._turn = weights, turn
        self.awake: deque[Flow] = deque()
        self._crowded: dict[Resource, None] = {}
        """Where flows are parked."""

    @property
    def empty(self) -> bool:
        """Whether no flow waits."""
        return not self.awake and not self._crowded

    def clear(self) -> list[Flow]:
        """Forgets all, because the links are others now. Returns the flows in the order of their turns, awake ones first."""
        flows = [*self.awake, *(flow for resource in self._crowded for flow in resource.parked)]
        self.awake, self._crowded = deque(), {}
        return flows

    def enter(self, flow: Flow) -> None:
        """Puts a flow at the end of the queue, or parks it where enough are awake. Its turn begins."""
        self._renew(flow)
        self.enter_again(flow)

    def enter_again(self, flow: Flow) -> None:
        """The same of a flow that was here before `clear`, and has what is left of its turn."""
        flow.queued = True
        for resource, need in flow.takes:
            if resource.parked or _crowded(resource, need):
                self._park(flow, resource)
                return
        self._rouse(flow)

    def go_through(self, serve: Callable[[Flow], bool]) -> None:
        """Offers flows their turns in order; `serve` says whether one's turn is over.

        Such a flow goes to the end of the queue, or behind those that are parked at a link of its, and is offered another turn.
        It leaves if it is wanted no more.
        """
        self._wake_all()
        staying: deque[Flow] = deque()
        while self.awake:
            flow = self.awake.popleft()
            if serve(flow):
                self._served(flow)
            else:
                staying.append(flow)
        self.awake = staying

    def _served(self, flow: Flow) -> None:
        if not flow.wanted:
            self._leave(flow)
            flow.credit = 0.0
            return
        self._renew(flow)
        crowded = next((resource for resource, _ in flow.takes if resource.parked), None)
        if crowded is None:
            self.awake.append(flow)
            return
        self._leave(flow)
        flow.queued = True
        self._park(flow, crowded)
        self._wake(crowded)

    def _wake_all(self) -> None:
        for resource in list(self._crowded):
            self._wake(resource)

    def _wake(self, resource: Resource) -> None:
        """Rouses flows that are parked there if there is room again."""
        parked = resource.parked
        while parked:
            flow = parked[0]
            if flow.wanted:
                need = next(need for of, need in flow.takes if of is resource)
                if _crowded(resource, need):
                    return
                self._rouse(flow)
            else:
                flow.queued, flow.credit = False, 0.0
            parked.popleft()
        del self._crowded[resource]

    def forget(self, gone: Collection[Flow]) -> None:
        """These flows are no more."""
        for flow in gone:
            if flow.awake:
                self._leave(flow)
        self.awake = deque(flow for flow in self.awake if flow not in gone)
        for resource in list(self._crowded):
            resource.parked = deque(flow for flow in resource.parked if flow not in gone)
            if not resource.parked:
                del self._crowded[resource]

    def _renew(self, flow: Flow) -> None:
        """A turn begins."""
        weight = self._weights.of(flow.node, flow.destination) / self._weights.least()
        flow.credit = min(flow.credit, 1) + self._turn * weight

    def _park(self, flow: Flow, resource: Resource) -> None:
        resource.parked.append(flow)
        self._crowded[resource] = None

    def _leave(self, flow: Flow) -> None:
        flow.queued = flow.awake = False
        for resource, need in flow.takes:
            resource.awake -= need

    def _rouse(self, flow: Flow) -> None:
        flow.awake = True
        self.awake.append(flow)
        for resource, need in flow.takes:
            resource.awake += need


def _crowded(resource: Resource, need: int) -> bool:
    """Whether enough flows of a resource are awake."""
    return resource.awake >= ROUNDS * resource.capacity + SPARE * need
