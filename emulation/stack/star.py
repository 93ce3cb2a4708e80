"""The fabric of most experiments, XCo's Figure 1(a): five senders and a receiver at one switch. An edge: processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from emulation.stack.running import Running, with_baton
from emulation.traffic.experiment import Flow
from topology import shapes

SENDERS = tuple(f"h{number}" for number in range(1, 6))
RECEIVER = "h6"
SWITCH = "s1"
BOTTLENECK = (SWITCH, RECEIVER)
RATE_BPS = 100_000_000
BUFFER_PACKETS = 100


Star = Running


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
    with with_baton(
        fabric,
        buffer_packets=buffer_packets,
        start_agents=agents,
        framework=framework,
        store=store,
        coordinator=coordinator,
        agents=agent_settings,
        priorities=priorities,
    ) as running:
        yield running


def mixed_flows(k: int) -> list[Flow]:
    """K senders of 60 KB UDP datagrams at full speed; the other senders have long TCP flows."""
    return [Flow("udp" if number < k else "tcp", host, RECEIVER) for number, host in enumerate(SENDERS)]
