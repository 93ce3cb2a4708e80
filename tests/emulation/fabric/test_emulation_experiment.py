"""Experiments on an emulated star: the results agree with an ideal switch."""

from __future__ import annotations

import heapq
import json
import random
import subprocess
import time
from collections import deque
from collections.abc import Iterator

import pytest

from emulation.fabric.fabric import EmulatedFabric, EmulationError
from emulation.traffic import workloads
from emulation.traffic.experiment import Flow, run
from topology import shapes
from topology.fabric import DirectedLink

pytestmark = pytest.mark.usefixtures("in_a_box")

BOTTLENECK = DirectedLink("s1", "h6")
SENDERS = ("h1", "h2", "h3", "h4", "h5")


@pytest.fixture(scope="module")
def star(in_a_box: None) -> Iterator[EmulatedFabric]:
    with EmulatedFabric(shapes.star(hosts=6), static_arp=True) as emulated:
        yield emulated


def ideal_goodput_mbps(senders: int, seconds: float = 2.0, buffer_packets: int = 100, seed: int = 1) -> float:
    """What an ideal output-queued drop-tail switch delivers of 60,000-byte datagrams that `senders` hosts send at full speed.

    All links 100 Mb/s, store and forward; a datagram is 41 frames and counts if all of them arrive.
    """
    draw = random.Random(seed)
    frames = [1538 * 80] * 40 + [866 * 80]  # ns on the wire, with preamble and gap: 40 full frames and the rest
    arrivals = [(draw.random() * sum(frames), sender, 0) for sender in range(senders)]
    heapq.heapify(arrivals)
    departures: deque[float] = deque()
    whole, delivered = [True] * senders, 0
    while arrivals[0][0] < seconds * 1e9:
        now, sender, frame = heapq.heappop(arrivals)
        while departures and departures[0] <= now:
            departures.popleft()
        if len(departures) < buffer_packets:
            departures.append(max(now, departures[-1] if departures else 0) + frames[frame])
        else:
            whole[sender] = False
        following = (frame + 1) % len(frames)
        if following == 0:
            delivered += 60_000 * whole[sender]
            whole[sender] = True
        jitter = draw.uniform(0, 2000) if following == 0 else 0
        heapq.heappush(arrivals, (now + frames[following] + jitter, sender, following))
    return delivered * 8 / seconds / 1e6


def test_five_floods_of_large_datagrams_collapse_as_on_an_ideal_switch(star: EmulatedFabric) -> None:
    outcome = run(star, [Flow("udp", host, "h6") for host in SENDERS], duration_s=2, bottlenecks=[BOTTLENECK])
    port = outcome.ports[BOTTLENECK]
    # The link is full, yet hardly a datagram arrives whole: of each, four frames in five are dropped.
    assert port.sent > 0.9 * 2 * 100e6 / 8 / 1514
    assert port.drop_fraction == pytest.approx(0.8, abs=0.1)
    assert ideal_goodput_mbps(5) < 10
    assert outcome.goodput_mbps < 25


def test_one_flood_alone_gets_the_whole_link_without_a_drop(star: EmulatedFabric) -> None:
    outcome = run(star, [Flow("udp", "h1", "h6")], duration_s=2, warmup_s=0.5, bottlenecks=[BOTTLENECK])
    assert outcome.goodput_mbps == pytest.approx(97.7, rel=0.1)
    assert ideal_goodput_mbps(1) == pytest.approx(96, rel=0.03)
    assert outcome.ports[BOTTLENECK].drop_fraction < 0.01


def test_five_long_tcp_flows_share_the_link_and_fill_it(star: EmulatedFabric) -> None:
    flows = [Flow("tcp", host, "h6") for host in SENDERS]
    outcome = run(star, flows, duration_s=4, warmup_s=2, bottlenecks=[BOTTLENECK], ping=("h1", "h6"))
    assert 70 < outcome.goodput_mbps < 97.7
    assert outcome.jain > 0.7
    assert outcome.tcp_mean_mbps == pytest.approx(outcome.goodput_mbps / 5)
    assert {flow.sender["congestion_control"] for flow in outcome.flows} == {"cubic"}
    # A full buffer of 100 packets is 12 ms.
    assert outcome.pings.sent == 400
    assert 2 < (outcome.pings.summary()["p50"] or 0) < 16


def test_a_paced_flow_has_its_rate_and_an_on_off_flow_its_phases(star: EmulatedFabric) -> None:
    paced = Flow("udp", "h1", "h5", rate_bps=5_000_000, size=1472)  # another path
    alternating = Flow("udp", "h2", "h6", on_ns=500_000_000, off_ns=500_000_000)
    outcome = run(star, [paced, alternating], duration_s=2, warmup_s=1, bottlenecks=[BOTTLENECK], bucket_ns=100_000_000)
    assert outcome.flows[0].goodput_mbps == pytest.approx(5, rel=0.05)
    buckets = outcome.flows[1].buckets
    assert len(buckets) == 20
    on, off = (sum(buckets[at] for at in range(20) if at % 10 in wanted) for wanted in (range(1, 5), range(6, 10)))
    assert on > 4 * 2 * 0.8 * 1_200_000 > 20 * off
    assert sum(buckets) == outcome.flows[1].received_bytes


def test_an_unknown_endpoint_is_named_and_nothing_is_started(star: EmulatedFabric) -> None:
    with pytest.raises(EmulationError, match="'h9' is no endpoint"):
        run(star, [Flow("udp", "h1", "h9")])


def test_events_happen_at_their_time_and_progress_is_told(star: EmulatedFabric) -> None:
    told: list[float] = []
    happened: list[int] = []
    flows = [Flow("udp", "h1", "h6", rate_bps=1_000_000, size=1000)]
    outcome = run(
        star,
        flows,
        duration_s=1,
        warmup_s=0.2,
        events=[(0.5, lambda: star.set_link("h1", "s1", up=False)), (0.6, lambda: happened.append(1))],
        bucket_ns=250_000_000,
        progress=told.append,
    )
    star.set_link("h1", "s1", up=True)
    assert happened == [1]
    assert told == sorted(told) and 1.0 < told[-1] < 1.3
    first, *_, last = outcome.flows[0].buckets
    assert first > 0 and last == 0


def test_round_trips_are_right_beyond_65536_pings() -> None:
    """The sequence number of ICMP has 16 bits. A slow machine sends fewer than one in each interval."""
    begin_ns = time.monotonic_ns() + 200_000_000
    times = ("--begin-ns", str(begin_ns), "--end-ns", str(begin_ns + 90_000 * 50_000))
    argv = (*workloads.COMMAND, "echo", "--to", "127.0.0.1", "--interval-ns", "50000", *times)
    found = json.loads(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)
    assert 70_000 < found["sent"] <= 90_000
    assert len({number for number, _ in found["rtt_ns"]}) > 0.98 * found["sent"]
    assert max(rtt for _, rtt in found["rtt_ns"]) < 1_000_000_000
