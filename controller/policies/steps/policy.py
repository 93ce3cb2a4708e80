"""The steps policy: time is cut into aligned steps of a slice, and each step is a maximal matching of senders and links. Pure.

As Fastpass's arbiter (Perry et al., SIGCOMM 2014, section 3) it goes through the waiting flows in the order in which they were
served last, and grants a flow the first step in which its sender is idle and every link of its path has room. All slots of a
step end together, so room is a number for each link and step, and no time is ever searched for.

*Window.* All steps that a plan reaches are filled in one pass through the queue. A flow that was granted one goes to the end of
the queue, and is asked again in the same pass. So each step that is planned is a maximal matching of the flows that are awake.

*Rest of a step.* When a slot is given back, or a flow begins to wait, the rest of the steps that are planned already is tried
at once for the flows of that sender and that destination. This counts for nothing in the order.

*Counts.* Where hosts tell how many bytes wait (`counted`), a flow is granted the slots that carry them, and then nothing until
its node tells more; so a plan may reach far ahead though demands are small. A turn is of several steps then: that costs one
look at the flow.

*Pieces.* A plan stops after some steps where there are many grants in each; the start of the next step is the next event then,
though the horizon is beyond it.

A slot takes the lesser of its node's rate and the least capacity of its path. Deadlines are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import islice

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers, Weights
from controller.policies.pairs import BYTE, NOWHERE, PPM, Terms
from controller.policies.steps.flows import UNKNOWN, Flow, Resource, Step
from controller.policies.steps.queue import Queue
from protocol.units import FRAME_BYTES

AHEAD = 16
"""No step is planned sooner than so many steps before the one that runs."""
TRIES = 16
"""So many flows of a sender or a destination are looked at for the rest of a step."""
LEAST_PART = 8
"""A slot is at least this part of a step."""
AT_ONCE = 8_192
"""A plan goes on to another step only if it may grant no more slots than these."""


TURN = 8
"""So many steps are a turn where hosts tell how many bytes wait."""


class Steps(Policy):
    """Grants each node one destination a step.

    Args:
        at_once: a plan grants about so many slots at most.
        counted: hosts tell how many bytes wait, whenever more do; else it counts only whether any do.
    """

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        burst_bytes: int = 32 * FRAME_BYTES,
        at_once: int = AT_ONCE,
        counted: bool = False,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        if at_once < 1:
            raise ValueError("at_once must be at least 1")
        self.at_once, self.counted = at_once, counted
        self.terms = Terms(
            slice_ns=slice_ns, minimum_active_ns=minimum_active_ns, headroom=headroom, minimum_fraction=1.0,
            burst_bytes=burst_bytes,
        )  # fmt: skip
        self.step_ns = max(slice_ns, minimum_active_ns)
        self._least_ns = self.step_ns // LEAST_PART
        self.numbers = SlotNumbers()
        self._weights = Weights()
        self._network: Network | None = None
        self._regulated: Regulated = {}
        self._resources: dict[Hashable, Resource] = {}
        self._from: dict[int, dict[int, Flow]] = {}
        self._to: dict[int, dict[int, Flow]] = {}
        self._out: dict[int, dict[int, Flow]] = {}
        """By node: the flows that wait there, in the order in which they began to."""
        self._in: dict[int, dict[int, Flow]] = {}
        """The same by destination."""
        self._delays: dict[int, int] = {}
        self._carries: dict[int, int] = {}
        self._queue = Queue(self._weights, TURN if counted else 1)
        self._loose: list[Flow] = []
        self._fresh: list[Flow] = []
        """Flows that may be wanted now, which are queued before anything else happens."""
        self._steps: dict[int, Step] = {}
        """Those planned and not over, in their order."""
        self._next = 0
        """The first step that is not planned."""
        self._filled = at_once
        """How many slots were granted in a step when steps were matched last; at first, that it may be many."""
        self._now_ns = self._lead_ns = 0
        self._granted: list[Slot] = []
        self._revoked: list[Slot] = []

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Keeps a slot, as it is, where its new path has room for it. Flows keep their turns: a fabric may change more often
        than all of them come to theirs."""
        self._advance(now_ns)
        self._network, self._resources = network, {}
        turns = self._queue.clear()
        flows = self._flows()
        for flow in flows:
            flow.queued = flow.awake = False
            self._place(flow)
        for step in self._steps.values():
            step.taken.clear()
            for node, (slot, flow) in in_order(step):
                if flow.need_bps == slot.reserved_bps and step.fits(flow):
                    step.take(flow)
                else:
                    self._revoked.append(slot)
                    del step.slots[node]
                    if self.counted:
                        flow.left_bytes = UNKNOWN
                        self._count_waiting(flow, waiting=True)
        for flow in turns:
            if flow.wanted:
                self._queue.enter_again(flow)
                self._loosen(flow)
        self._refresh()

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes slots of pairs that are no longer regulated."""
        self._advance(now_ns)
        self._regulated = pairs
        for flow in self._flows():
            flow.regulated = flow.destination in pairs.get(flow.node, NOWHERE)
        self._refresh()
        self._revoke(lambda slot, flow: not flow.regulated)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Gives a pair more or fewer steps in a row, from its next turn on."""
        self._weights.set(node, destination, weight)

    def set_delay(self, node: int, delay_ns: int) -> None:
        """Slots of the node begin no sooner than a directive reaches it."""
        self._delays[node] = delay_ns

    def delay_ns(self, node: int) -> int | None:
        """What `set_delay` said of the node; None: nothing yet."""
        return self._delays.get(node)

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Slots of a destination that waits no more are revoked if they have not begun."""
        self._advance(now_ns)
        waiting = {destination: size for destination, size in backlog.items() if size > 0}
        for destination, size in waiting.items():
            self._wait(self._flow(node, destination), size)
        for flow in list(reversed(self._out.get(node, {}).values())):
            if flow.destination not in waiting:
                self._wait_no_more(flow)
        for step in self._steps.values():
            if (held := step.slots.get(node)) is not None and held[0].destination not in waiting:
                self._revoke_ahead(step, node)

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """The rest of the slot is free from now on."""
        self._advance(now_ns)
        for step in self._steps.values():
            held = step.slots.get(node)
            if held is not None and held[0].slot == slot and held[0].destination == destination:
                self._drop(step, node)
        if backlog_bytes > 0:
            self._wait(self._flow(node, destination), backlog_bytes)
        elif (flow := self._from.get(node, {}).get(destination)) is not None:
            self._wait_no_more(flow)

    def left(self, node: int, *, now_ns: int) -> None:
        """Slots towards the node are revoked, and its own: their links are free from now on."""
        self._advance(now_ns)
        self._revoke(lambda slot, flow: node in (slot.node, slot.destination))
        gone = [*self._from.pop(node, {}).values(), *self._to.pop(node, {}).values()]
        for flow in gone:
            self._count_waiting(flow, waiting=False)
            self._to.get(flow.destination, {}).pop(flow.node, None)
            self._from.get(flow.node, {}).pop(flow.destination, None)
        self._queue.forget(gone)
        self._loose = [flow for flow in self._loose if flow not in gone]
        self._delays.pop(node, None)
        self._carries.pop(node, None)

    def _flows(self) -> list[Flow]:
        return [flow for flows in self._from.values() for flow in flows.values()]

    def _flow(self, node: int, destination: int) -> Flow:
        flow = self._from.get(node, {}).get(destination)
        if flow is None:
            flow = Flow(node, destination, regulated=destination in self._regulated.get(node, NOWHERE))
            self._from.setdefault(node, {})[destination] = self._to.setdefault(destination, {})[node] = flow
            self._place(flow)
        return flow

    def _place(self, flow: Flow) -> None:
        flow.takes, flow.need_bps, network = (), 0, self._network
        if network is None:
            return
        path = network.path(flow.node, flow.destination)
        try:
            rate_bps = network.node_rate_bps(flow.node)
        except KeyError:
            return
        if not path:
            return
        capacities = [network.capacity_bps(name) for name in path]
        flow.sends_bps, need = min(rate_bps, capacities[0]), min(rate_bps, *capacities)
        capacities[0] = 1
        links = [self._resources.setdefault(name, Resource(most)) for name, most in zip(path, capacities, strict=True)]
        if need > 0:
            flow.need_bps = need
            flow.takes = ((links[0], 1), *((link, need) for link in links[1:]))

    def _wait(self, flow: Flow, size: int) -> None:
        """So many bytes wait for a destination, those of its slots included."""
        flow.left_bytes = size - self._promised(flow) if self.counted and size < UNKNOWN else UNKNOWN
        self._count_waiting(flow, waiting=flow.left_bytes > 0)
        if flow.waiting and self.counted and flow.queued:
            self._loosen(flow)
        elif flow.waiting:
            self._fresh.append(flow)

    def _promised(self, flow: Flow) -> int:
        """What the slots carry that a flow has from now on."""
        steps = (step for step in self._steps.values() if (held := step.slots.get(flow.node)) is not None and held[1] is flow)
        return sum(
            self._carried(flow, (step.number + 1) * self.step_ns - max(step.slots[flow.node][0].start_ns, self._now_ns))
            for step in steps
        )

    def _use(self, flow: Flow, step: Step) -> None:
        """A flow has a slot for some of its bytes."""
        if self.counted and flow.left_bytes < UNKNOWN:
            flow.left_bytes -= self._carried(flow, (step.number + 1) * self.step_ns - self._start(flow, step))
            if flow.left_bytes <= 0:
                self._count_waiting(flow, waiting=False)

    def _count_waiting(self, flow: Flow, *, waiting: bool) -> None:
        if flow.waiting != waiting:
            flow.waiting = waiting
            out = self._out.setdefault(flow.node, {})
            into = self._in.setdefault(flow.destination, {})
            if waiting:
                out[flow.destination] = into[flow.node] = flow
            else:
                del out[flow.destination], into[flow.node]

    def _wait_no_more(self, flow: Flow) -> None:
        self._count_waiting(flow, waiting=False)
        for step in self._steps.values():
            if (held := step.slots.get(flow.node)) is not None and held[1] is flow:
                self._revoke_ahead(step, flow.node)

    def _revoke_ahead(self, step: Step, node: int) -> None:
        """Revokes a node's slot if it has not begun."""
        slot, _ = step.slots[node]
        if slot.start_ns >= self._now_ns:
            self._revoked.append(slot)
            self._drop(step, node)

    def _refresh(self) -> None:
        self._fresh = sorted(self._flows(), key=lambda flow: (flow.node, flow.destination))

    def _settle(self) -> None:
        """Queues the flows that are wanted now."""
        for flow in self._fresh:
            if flow.wanted and not flow.queued:
                self._queue.enter(flow)
                self._loosen(flow)
        self._fresh = []

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Fills what is free in planned steps, and plans those that begin until the horizon."""
        self._advance(now_ns)
        self._lead_ns = horizon_ns - now_ns
        loose, self._loose = self._loose, []
        for flow in loose:
            flow.loose = False
            for step in self._steps.values():
                if self._may(flow, step):
                    step.take(flow)
                    self._use(flow, step)
                    self._grant(flow, step)
        running = now_ns // self.step_ns
        first = max(self._next, running)
        count = min(horizon_ns // self.step_ns, running + AHEAD - 1) + 1 - first
        if count > 0:
            likely = min(self._filled, len(self._queue.awake))
            count = min(count, max(1, self.at_once // max(1, likely)))
            self._match([Step(number) for number in range(first, first + count)])
            self._next = first + count
        plan = Plan(self._granted, self._revoked)
        self._granted, self._revoked = [], []
        return plan

    def next_event_ns(self) -> int | None:
        """The start of the first step that is not planned, while anything waits; later, if it may not be planned by then."""
        self._settle()
        if self._queue.empty:
            return None
        return max(self._next * self.step_ns, (self._next - AHEAD + 1) * self.step_ns + self._lead_ns)

    def _match(self, steps: list[Step]) -> None:
        """Fills steps that follow one another. The slots of a node are granted side by side."""
        self._steps |= {step.number: step for step in steps}
        chosen: dict[int, list[tuple[Step, Flow]]] = {}

        def serve(flow: Flow) -> bool:
            fitting = [step for step in steps if step.fits(flow)]
            if not flow.wanted:
                return bool(fitting)
            for step in fitting:
                if not self._in_time(flow, step):
                    continue
                step.take(flow)
                chosen.setdefault(flow.node, []).append((step, flow))
                self._use(flow, step)
                flow.credit -= 1
                if flow.credit < 1 or not flow.wanted:
                    return True
            return False

        self._queue.go_through(serve)
        for slots in chosen.values():
            for step, flow in sorted(slots, key=lambda slot: slot[0].number):
                self._grant(flow, step)
        self._filled = sum(map(len, chosen.values())) // len(steps)

    def _may(self, flow: Flow, step: Step) -> bool:
        return flow.wanted and step.fits(flow) and self._in_time(flow, step)

    def _in_time(self, flow: Flow, step: Step) -> bool:
        return (step.number + 1) * self.step_ns - self._start(flow, step) >= self._least_ns

    def _start(self, flow: Flow, step: Step) -> int:
        return max(step.number * self.step_ns, self._now_ns + self._delays.get(flow.node, 0))

    def _grant(self, flow: Flow, step: Step) -> None:
        start_ns, end_ns = self._start(flow, step), (step.number + 1) * self.step_ns
        size, rate_bps = self._amount(flow, end_ns - start_ns)
        number = self.numbers.take(self._now_ns)
        slot = Slot(number, flow.node, flow.destination, start_ns, end_ns, size, rate_bps, flow.need_bps)
        step.slots[flow.node] = slot, flow
        self._granted.append(slot)

    def _amount(self, flow: Flow, length_ns: int) -> tuple[int, int]:
        """(credit in bytes, 0), with the remainder carried to the node's next; or (0, rate in bit/s)."""
        terms = self.terms
        due, packet = self._due(flow, length_ns), terms.packet_bytes * BYTE
        if self._by_rate(flow, due):
            return 0, max(1, flow.need_bps * terms.headroom_ppm // PPM)
        packets, self._carries[flow.node] = divmod(due + self._carries.get(flow.node, 0), packet)
        return packets * terms.packet_bytes, 0

    def _carried(self, flow: Flow, length_ns: int) -> int:
        """The bytes that a slot carries at least: a carried remainder may add a packet."""
        due, packet_bytes = self._due(flow, length_ns), self.terms.packet_bytes
        return due // BYTE if self._by_rate(flow, due) else due // (packet_bytes * BYTE) * packet_bytes

    def _due(self, flow: Flow, length_ns: int) -> int:
        return flow.need_bps * length_ns * self.terms.headroom_ppm

    def _by_rate(self, flow: Flow, due: int) -> bool:
        """Whether a slot has a rate."""
        return self.terms.by_rate(due, flow.sends_bps, flow.need_bps)

    # -- giving back --------------------------------------------------------------------------------------------------

    def _advance(self, now_ns: int) -> None:
        self._settle()
        self._now_ns = now_ns
        for number in [number for number in self._steps if (number + 1) * self.step_ns <= now_ns]:
            del self._steps[number]

    def _revoke(self, chosen: Callable[[Slot, Flow], bool]) -> None:
        """Revokes some slots."""
        for step in self._steps.values():
            for node, (slot, flow) in in_order(step):
                if chosen(slot, flow):
                    self._revoked.append(slot)
                    self._drop(step, node)

    def _drop(self, step: Step, node: int) -> None:
        """Ends a node's slot now, and has the rest of the step tried for others if there is enough of it."""
        _, flow = step.slots.pop(node)
        step.take(flow, -1)
        if (step.number + 1) * self.step_ns - max(step.number * self.step_ns, self._now_ns) < self._least_ns:
            return
        others: Iterable[dict[int, Flow]] = (self._out.get(node, {}), self._in.get(flow.destination, {}))
        for flows in others:
            for other in islice(reversed(flows.values()), TRIES):
                self._loosen(other)

    def _loosen(self, flow: Flow) -> None:
        if not flow.loose:
            flow.loose = True
            self._loose.append(flow)


def in_order(step: Step) -> list[tuple[int, tuple[Slot, Flow]]]:
    """The slots of a step by node, in the order of their numbers."""
    return sorted(step.slots.items(), key=lambda held: held[1][0].slot)
