"""Baton end to end on real traffic: Open vSwitch, Ryu, Redis, the coordinator, an agent on every host, TCP and UDP.

Orderings and generous bounds only: the machine may be busy. The figures are printed by the benchmarks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, Star, mixed_flows, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow, Outcome

LINK_MBPS = 97.7


def traffic(made: Star, k: int, duration_s: float = 3.0) -> Outcome:
    return experiment.run(
        made.emulated,
        mixed_flows(k),
        duration_s=duration_s,
        warmup_s=2,
        bottlenecks=[BOTTLENECK],
        ping=(SENDERS[0], RECEIVER),
        host_queues=False,
    )


UNCOORDINATED: dict[int, Outcome] = {}


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    """A fabric with agents; UNCOORDINATED has what the same fabric did without them."""
    with star(agents=False, coordinator={"slice": "10ms"}) as made:
        for k in (0, 3, 5):
            UNCOORDINATED[k] = experiment.run(
                made.emulated, mixed_flows(k), duration_s=3, warmup_s=1, bottlenecks=[BOTTLENECK], ping=("h1", "h6")
            )
        made.baton.start_agents()
        yield made


@pytest.mark.parametrize("policy", ["timeslice", "rate_limit", "hybrid"])
def test_five_floods_share_the_link_without_loss_where_uncoordinated_they_collapse(fabric: Star, policy: str) -> None:
    fabric.baton.set_policy(policy)
    outcome = traffic(fabric, 5)
    print(policy, outcome.goodput_mbps, outcome.drops, "uncoordinated", UNCOORDINATED[5].goodput_mbps)
    assert outcome.goodput_mbps > 0.75 * LINK_MBPS
    assert outcome.goodput_mbps > 1.3 * UNCOORDINATED[5].goodput_mbps
    assert outcome.jain > 0.9
    assert max(port.drop_fraction for port in outcome.ports.values()) < 0.02
    assert not [line for member in fabric.baton.store.members().values() for line in member["suspect"]]


def test_tcp_gets_its_share_beside_floods(fabric: Star) -> None:
    fabric.baton.set_policy("timeslice")
    outcome = traffic(fabric, 3)
    assert outcome.tcp_mean_mbps is not None
    assert UNCOORDINATED[3].tcp_mean_mbps is not None
    assert outcome.tcp_mean_mbps > 10
    assert outcome.tcp_mean_mbps > 2 * UNCOORDINATED[3].tcp_mean_mbps
    assert outcome.jain > 0.8


def test_tcp_alone_loses_little(fabric: Star) -> None:
    fabric.baton.set_policy("timeslice")
    assert traffic(fabric, 0).goodput_mbps > 0.75 * UNCOORDINATED[0].goodput_mbps


def test_pings_are_answered_sooner_than_uncoordinated(fabric: Star) -> None:
    fabric.baton.set_policy("timeslice", slice_ns=2_000_000)
    outcome = traffic(fabric, 5)
    fabric.baton.set_policy("timeslice", slice_ns=10_000_000)
    assert outcome.pings.lost <= outcome.pings.sent * 0.02
    assert UNCOORDINATED[5].pings.lost > outcome.pings.lost


def test_below_the_threshold_nobody_is_regulated(fabric: Star) -> None:
    fabric.baton.set_policy("timeslice")
    time.sleep(2.5)  # until the links of the last test are released
    slots = fabric.baton.status()["slots"]
    flows = [Flow("udp", host, RECEIVER, rate_bps=12_000_000, size=1400) for host in SENDERS]
    outcome = experiment.run(
        fabric.emulated, flows, duration_s=2, warmup_s=1, bottlenecks=[BOTTLENECK], host_queues=False
    )
    assert fabric.baton.status()["slots"] == slots
    assert outcome.goodput_mbps > 55


def test_the_override_opens_every_gate_and_coordinate_shuts_them_again(fabric: Star) -> None:
    fabric.baton.set_policy("timeslice")
    try:
        fabric.baton.store.set_override("free")
        fabric.baton.wait(lambda: fabric.baton.status()["override"] == "free", "the override")
        free = traffic(fabric, 5, 2)
    finally:
        fabric.baton.store.set_override("coordinate")
    fabric.baton.wait(lambda: fabric.baton.status()["override"] == "coordinate", "the end of the override")
    assert free.drops > 1000
    assert traffic(fabric, 5, 2).drops < free.drops / 10


def test_no_control_frame_is_refused_for_what_it_says(fabric: Star) -> None:
    """On a busy machine a coordinator may lose an agent; but no frame may be damaged, replayed or malformed."""
    assert set(fabric.baton.status()["refused"]) <= {"old_epoch", "unknown_sender"}


def test_agents_put_their_interfaces_back(fabric: Star) -> None:
    fabric.baton.stop_agents()
    assert "htb" not in fabric.emulated.run_in("h1", "tc", "qdisc", "show", "dev", fabric.emulated.interface("h1"))
    assert fabric.emulated.verify() == []
    fabric.baton.start_agents()
