"""The fabric of most experiments, XCo's Figure 1(a): five senders and a receiver at one switch. An edge: processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from emulation.fabric.fabric import EmulatedFabric
from emulation.stack import stack
from emulation.stack.stack import Stack
from emulation.traffic.experiment import Flow
from topology import shapes

SENDERS = tuple(f"h{number}" for number in range(1, 6))
RECEIVER = "h6"
SWITCH = "s1"
BOTTLENECK = (SWITCH, RECEIVER)
RATE_BPS = 100_000_000
BUFFER_PACKETS = 100


class Star(NamedTuple):
    """A running fabric with Baton's controller side over it."""

    emulated: EmulatedFabric
    baton: Stack


@contextmanager
def star(
    *,
    agents: bool = True,
    coordinator: Mapping[str, Any] | None = None,
    agent_settings: Mapping[str, Any] | None = None,
    priorities: Mapping[str, Any] | None = None,
    framework: str = "ryu",
    store: str | None = None,
    rate_bps: int = RATE_BPS,
    buffer_packets: int = BUFFER_PACKETS,
) -> Iterator[Star]:
    """Builds the star and starts the controller side; enters the block when every host was reached and, if wanted, has its
    agent.

    Args:
        agents: whether to start the hosts' agents.
        store: the URL of a store that runs already; None: Baton starts its own.
        coordinator, agent_settings, priorities: fields of the configuration's sections `coordinator`, `agents`, `priorities`.

    Raises:
        EmulationError, StackError: the fabric or Baton did not come up; says what failed.
    """
    fabric = shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=rate_bps)
    with (
        EmulatedFabric(fabric, controller=stack.OPENFLOW, buffer_packets=buffer_packets) as emulated,
        Stack(
            emulated, framework=framework, store=store, coordinator=coordinator, agents=agent_settings, priorities=priorities
        ) as baton,
    ):
        reach(emulated, baton)
        if agents:
            baton.start_agents()
        yield Star(emulated, baton)


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


def mixed_flows(k: int) -> list[Flow]:
    """K senders of 60 KB UDP datagrams at full speed; the other senders have long TCP flows."""
    return [Flow("udp" if number < k else "tcp", host, RECEIVER) for number, host in enumerate(SENDERS)]
