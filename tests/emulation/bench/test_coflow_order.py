"""How long coflows take in their order, on real traffic: each test needs the machine for itself."""

from __future__ import annotations

import time

from agents.priorities.congestion_control import DCTCP
from bench.karuna.coflow import DeepPort, coflow_star
from controller.coflows.client import CoflowClient
from controller.coflows.coflow import Flow as HostFlow
from controller.coflows.order import CoflowOrder
from controller.coflows.service_limits import NO_LIMIT
from emulation.stack import schemes
from emulation.stack.star import RATE_BPS, RECEIVER, SENDERS
from emulation.traffic import coflow_load
from emulation.traffic.coflow_control import Control, InProcess, ThroughStore, Told
from emulation.traffic.coflow_load import CoflowResult, ScheduledCoflow


def bursts(heavy_first: bool) -> list[ScheduledCoflow]:
    """Four times: five of 0.5 MB at once; or one of 6 MB, and while it sends, four of 0.6 MB."""
    found: list[ScheduledCoflow] = []
    for burst in range(4):
        for place in range(5):
            size, start_ns = 125_000, place * 5_000_000
            if heavy_first:
                size, start_ns = (150_000, 150_000_000 + place * 5_000_000) if place else (1_500_000, 0)
            flows = tuple(HostFlow(sender, RECEIVER, size) for sender in SENDERS[:4])
            found.append(ScheduledCoflow(len(found) + 1, burst * 1_600_000_000 + start_ns, flows))
    return found


def means(found: tuple[CoflowResult, ...]) -> list[float]:
    """The mean completion time (ms) by place in a burst."""
    times = [one.cct_ns / 1e6 for one in found if one.cct_ns is not None]
    assert len(times) == len(found)
    return [sum(times[place::5]) / len(times[place::5]) for place in range(5)]


class Stopped(Control):
    """Stands still for a while at the beginning, as does a process without a processor."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def serve(self, now_ns: int) -> int:
        time.sleep(self._seconds)
        self._seconds = 0.0
        return super().serve(now_ns)


def test_a_coflow_that_is_opened_late_is_told_to_be_late() -> None:
    coflow = ScheduledCoflow(1, 0, (HostFlow(SENDERS[0], RECEIVER, 1_500),))
    with schemes.on_star(DeepPort("dctcp", DCTCP)) as laid:
        (found,) = coflow_load.run(laid.emulated, [coflow], control=Stopped(0.2))
    assert found.cct_ns is not None and found.late_ns > 150_000_000


def test_first_in_first_out_the_first_is_through_first_and_the_mean_is_less_than_when_all_share() -> None:
    by_place = {}
    for name in ("none", "fifo"):
        port = DeepPort("dctcp", DCTCP, ordered=name == "fifo")
        with schemes.on_star(port) as laid, coflow_load.taggers_at(laid.emulated) as taggers:
            hosts = {address: host for host, address in laid.emulated.endpoints().items()}
            control = InProcess(CoflowOrder(lambda _: RATE_BPS, NO_LIMIT), taggers, hosts, Told.NOTHING)
            found = coflow_load.run(laid.emulated, bursts(False), control=control if name == "fifo" else None)
        by_place[name] = means(found)
    print({name: [round(time) for time in times] for name, times in by_place.items()})
    assert sum(by_place["fifo"]) < 0.9 * sum(by_place["none"])
    assert by_place["fifo"][0] < 0.6 * by_place["fifo"][-1]


def test_light_coflows_pass_a_heavy_one_through_the_controller_whether_or_not_sizes_are_known() -> None:
    by_place = {}
    with coflow_star() as (emulated, baton):
        for name, told in (("none", None), ("known", Told.FLOWS), ("unknown", Told.NOTHING)):
            control = None if told is None else ThroughStore(CoflowClient(baton.store), told)
            by_place[name] = means(coflow_load.run(emulated, bursts(True), control=control, host_queues=False))
    print({name: [round(time) for time in times] for name, times in by_place.items()})
    for name, most in (("known", 0.85), ("unknown", 0.95)):
        assert sum(by_place[name][1:]) < most * sum(by_place["none"][1:]), name
        assert sum(by_place[name]) < sum(by_place["none"]), name
