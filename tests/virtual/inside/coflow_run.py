"""Runs in virtual time, in a box: bursts of coflows in an order, and in none; prints how long they took by place in a burst."""

from __future__ import annotations

import json
import sys

from agents.priorities.congestion_control import DCTCP
from bench.karuna.coflow import DeepPort, coflow_star
from controller.coflows.client import CoflowClient
from controller.coflows.coflow import Flow
from controller.coflows.links import BigSwitch
from controller.coflows.order import CoflowOrder
from controller.coflows.service_limits import NO_LIMIT
from emulation import box
from emulation.stack import schemes
from emulation.stack.star import RATE_BPS, RECEIVER, SENDERS
from emulation.traffic import coflow_load
from emulation.traffic.coflow_control import InProcess, ThroughStore, Told
from emulation.traffic.coflow_load import CoflowResult, ScheduledCoflow

Times = dict[str, list[float]]


def bursts(heavy_first: bool) -> list[ScheduledCoflow]:
    """Four times: five of 0.5 MB at once; or one of 6 MB, and while it sends, four of 0.6 MB."""
    found: list[ScheduledCoflow] = []
    for burst in range(4):
        for place in range(5):
            size, start_ns = 125_000, place * 5_000_000
            if heavy_first:
                size, start_ns = (150_000, 150_000_000 + place * 5_000_000) if place else (1_500_000, 0)
            flows = tuple(Flow(sender, RECEIVER, size) for sender in SENDERS[:4])
            found.append(ScheduledCoflow(len(found) + 1, burst * 1_600_000_000 + start_ns, flows))
    return found


def means(found: tuple[CoflowResult, ...]) -> list[float]:
    """The mean completion time (ms) by place in a burst."""
    times = [one.cct_ns / 1e6 for one in found if one.cct_ns is not None]
    assert len(times) == len(found)
    return [sum(times[place::5]) / len(times[place::5]) for place in range(5)]


def first_in_first_out() -> Times:
    """All of a size, by an order in the process itself, and by none."""
    times = {}
    for name in ("none", "fifo"):
        port = DeepPort("dctcp", DCTCP, ordered=name == "fifo")
        with schemes.on_star(port) as laid, coflow_load.taggers_at(laid.emulated) as taggers:
            hosts = {address: host for host, address in laid.emulated.endpoints().items()}
            control = InProcess(CoflowOrder(BigSwitch(lambda _: RATE_BPS), NO_LIMIT), taggers, hosts, Told.NOTHING)
            times[name] = means(coflow_load.run(laid.emulated, bursts(False), control=control if name == "fifo" else None))
    return times


def light_and_heavy() -> Times:
    """A heavy one and light ones, through the controller: by no order, by known sizes, and by what was sent."""
    times = {}
    with coflow_star() as (emulated, baton):
        for name, told in (("none", None), ("known", Told.FLOWS), ("unknown", Told.NOTHING)):
            control = None if told is None else ThroughStore(CoflowClient(baton.store), told)
            times[name] = means(coflow_load.run(emulated, bursts(True), control=control, host_queues=False))
    return times


def main() -> None:
    box.enter([sys.executable, *sys.argv])
    print(json.dumps({"fifo": first_in_first_out, "controller": light_and_heavy}[sys.argv[1]]()))


if __name__ == "__main__":
    main()
