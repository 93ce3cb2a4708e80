"""A fabric with the whole of Baton over it, and one experiment on it under one policy. An edge: processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from emulation.fabric.fabric import EmulatedFabric
from emulation.stack import stack
from emulation.stack.stack import Stack
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow, Outcome
from topology.fabric import Fabric

UNCOORDINATED = "uncoordinated"
"""The policy of a fabric whose hosts have no agents."""


class Running(NamedTuple):
    """A running fabric with Baton's controller side over it."""

    emulated: EmulatedFabric
    baton: Stack


class UnderPolicy(NamedTuple):
    """What flows got under a policy, and the slots that the coordinator granted meanwhile."""

    outcome: Outcome
    slots: int
    late_slots: int
    yields: int = 0
    lost_slots: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The run in the record of a result."""
        outcome = self.outcome
        return {
            **outcome.to_dict(),
            "jain": round(outcome.jain, 4) if outcome.goodput_mbps > 0.05 else None,  # flows that get nothing share nothing
            "slots": self.slots,
            "late_slots": self.late_slots,
            "yields": self.yields,
            "lost_slots": self.lost_slots,
            "confidence": outcome.confidence(self.slots, self.late_slots).to_dict(),
        }


@contextmanager
def with_baton(
    fabric: Fabric,
    *,
    buffer_packets: int,
    start_agents: bool = True,
    emulation: Mapping[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 -- of Stack
) -> Iterator[Running]:
    """Builds a fabric and starts the controller side; enters the block when every host was reached and, if wanted, has its
    agent.

    Args:
        start_agents: whether to start the hosts' agents.
        emulation: more arguments of `EmulatedFabric`.
        settings: the arguments of `Stack` besides the fabric.

    Raises:
        EmulationError, StackError: the fabric or Baton did not come up; says what failed.
    """
    with (
        EmulatedFabric(
            fabric, controller=stack.OPENFLOW, buffer_packets=buffer_packets, **(emulation or {})
        ) as emulated,
        Stack(emulated, **settings) as baton,
    ):
        reach(emulated, baton)
        if start_agents:
            baton.start_agents()
        yield Running(emulated, baton)


def reach(emulated: EmulatedFabric, baton: Stack) -> None:
    """Makes every host send a packet, so that the switches know where it is before a measurement."""
    target = str(emulated.endpoints()[next(reversed(emulated.endpoints()))])

    def answered() -> bool:
        probes = [
            emulated.popen(name, ["ping", "-q", "-c", "1", "-W", "0.3", target], stdout=-3, stderr=-3)
            for name in emulated.endpoints()
        ]
        ended = [probe.wait() for probe in probes]
        return not any(ended)

    baton.wait(answered, "every host to reach the last one")


def run_under(
    running: Running,
    policy: str,
    flows: Sequence[Flow],
    *,
    changes: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 -- of experiment.run
) -> UnderPolicy:
    """Runs flows under a policy; starts the agents for the first that needs them.

    Args:
        policy: a policy of the coordinator, or `UNCOORDINATED`, which is only possible before any other.
        changes: other fields of the policy document.
        options: the arguments of `experiment.run`, without events.

    Raises:
        EmulationError, StackError: Baton did not come up, or a program failed.
    """
    emulated, baton = running
    coordinated = policy != UNCOORDINATED
    if coordinated:
        if not baton.agents:
            baton.start_agents()
        baton.set_policy(policy, **(changes or {}))
    counts: list[dict[str, Any]] = []
    events = [(0.0, lambda: counts.append(baton.status()))] if coordinated else []
    outcome = experiment.run(emulated, flows, host_queues=not coordinated, events=events, **options)
    if not coordinated:
        return UnderPolicy(outcome, 0, 0)
    counts.append(baton.status())
    slots, late, yields, lost = (
        int(counts[-1][name] - counts[0][name]) for name in ("slots", "late_slots", "yields", "lost")
    )
    return UnderPolicy(outcome, slots, late, yields, lost)
