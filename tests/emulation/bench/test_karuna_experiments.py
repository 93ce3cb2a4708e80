"""The experiments on flow priorities, short: orderings that hold on any machine, and nothing left behind."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from agents.priorities.congestion_control import DCTCP, MCP, available
from bench.karuna import deadlines, microbench, record, throughput
from bench.karuna.combined import empty_cgroup
from bench.karuna.record import Options, arrivals
from bench.record import write
from controller.priorities.completion_model import Thresholds
from controller.priorities.flow_sizes import FlowSizes
from emulation.fabric.ports import BURST_BYTES
from emulation.stack import schemes
from emulation.stack.star import BOTTLENECK, RATE_BPS
from emulation.traffic import flow_run
from emulation.traffic.flow_schedule import Mixture, Schedule, ScheduledFlow
from protocol.bodies.flows.size_bins import EDGES
from tests.emulation.patience import timed

pytestmark = pytest.mark.usefixtures("in_a_box")

SIZES = FlowSizes((200.0, 60_000.0), (0.0, 1.0))


def quietly(what: str, done: float) -> None:
    assert what and done >= 0


def test_every_flow_of_a_list_arrives_whole_with_its_type_told_to_the_switch() -> None:
    before = available()
    mixture = Mixture()
    flows = arrivals(SIZES, 0.3, 1.5, mixture, Options(seed=2))
    scheme = schemes.karuna(tagger=dataclasses.replace(schemes.TAGGER, short_bytes=0))  # all flows here are short
    with schemes.on_star(scheme) as (emulated, given_up, _, _, tuning):
        assert tuning is not None
        assert {DCTCP, MCP} <= available()
        found = flow_run.run(
            emulated,
            flows,
            port=BOTTLENECK,
            given_up=given_up,
            progress=lambda seconds: tuning.advance(time.monotonic_ns()),
            **scheme.choices(flows.flows),
        )
        learnt = tuning.in_force
    assert learnt is not None and learnt.bands == 7, "the tuner found no thresholds in the hosts' reports"
    most = next(edge for edge in EDGES if edge > 60_000)  # hosts report by bins: flows of 60 KB may be as large as this
    assert 0 < learnt.beta[0] <= learnt.beta[-1] < most
    assert available() == before, "a congestion control was left registered"
    assert [result.end for result in found.results] == ["complete"] * len(flows.flows)
    for result in found.results:
        assert result.received_bytes == result.flow.size_bytes
        # Each of the two queues on the way lets a burst of three frames pass at once.
        assert result.fct_ns is not None and result.fct_ns > (result.flow.size_bytes - 2 * BURST_BYTES) * 8e9 / RATE_BPS
    chosen = {result.congestion_control for result in found.results if result.flow.flow_type != 1}
    assert chosen == {DCTCP}
    # The chooser's choice, by the mark; a flow that is late goes on with DCTCP.
    assert {result.congestion_control for result in found.results if result.met} == {MCP}
    measured = [one.flow for one in found.results if one.flow.start_ns >= flows.warm_up_ns]
    by_type = {kind: sum(flow.size_bytes for flow in measured if flow.flow_type == kind) for kind in (1, 2, 3)}
    sent = [queue.sent_bytes for queue in found.queues]
    assert by_type[1] < sent[0] < 1.3 * by_type[1], "type 1 is not what the first queue has sent"
    rest = by_type[2] + by_type[3]
    assert rest < sum(sent[1:]) < 1.3 * rest


def test_what_the_port_and_the_taggers_did_in_the_warm_up_is_not_measured() -> None:
    long = [ScheduledFlow(at, 0, f"h{1 + at}", "h6", 6_000_000, 2) for at in range(2)]
    starved = [ScheduledFlow(2 + at, 100_000_000, f"h{3 + at % 3}", "h6", 300_000, 3) for at in range(4)]
    small = ScheduledFlow(6, 4_100_000_000, "h2", "h6", 14_000, 3)
    schedule = Schedule((*long, *starved, small), 4_200_000_000, 4_000_000_000)
    scheme = schemes.karuna(Thresholds((500_000_000,), (50_000,)), marking_packets=None)
    case = record.Case({}, scheme, schedule)
    (run,) = record.measure("", {}, [case], Options(), quietly, edges=(100_000,)).record["runs"]
    assert run["flows"] == 1 and run["completion"]["all"]["incomplete"] == 0
    assert run["trust"]["sent_packets"] < 30 and sum(queue["sent_packets"] for queue in run["port"]) < 30
    assert run["trust"]["drops"] == sum(queue["drops"] for queue in run["port"]) == 0
    assert (run["retransmits"], run["timeouts"], run["promotions"]) == (0, 0, 0)


@timed
def test_dctcp_keeps_the_queue_short_where_cubic_fills_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microbench, "WARMUP_S", 1.0)
    found = microbench.run(Options(quick=True), quietly)
    dctcp, cubic = (entry["queue_packets"] for entry in found.record["runs"])
    assert dctcp["p50"] < 30 < cubic["p50"]
    assert dctcp["mean"] < cubic["mean"]
    assert all(entry["goodput_mbps"] > 50 for entry in found.record["runs"])


@timed
def test_the_tightest_deadline_flow_takes_its_time_under_karuna_and_is_later_under_dctcp(tmp_path: Path) -> None:
    found = throughput.run(Options(), quietly)
    times = {entry["scheme"]["name"]: [each["fct_ms"] for each in entry["each"]] for entry in found.record["runs"]}
    tightest = throughput.FLOWS[1]  # a lost packet may make the other late on a busy machine
    assert tightest.deadline_ms is not None
    assert 0.7 < times["karuna"][1] / tightest.deadline_ms < 1.3
    assert times["edf"][1] < times["dctcp"][1]
    assert times["karuna"][1] < times["dctcp"][1]
    paths = write(found, tmp_path / "throughput.json")
    throughput.draw(found, tmp_path / "throughput.png")
    written = json.loads(paths[0].read_text())
    assert written["raw"] == paths[1].name and len(paths[1].read_text().splitlines()) == len(found.raw) == 12
    assert (tmp_path / "throughput.png").read_bytes().startswith(b"\x89PNG")


@timed
def test_a_deadline_flow_takes_its_time_with_mcp_and_goes_first_by_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "DEADLINES", ((250_000, 100), (500_000, 200)))
    monkeypatch.setattr(record, "DRAIN_S", 0.3)
    runs = {run["scheme"]["name"]: run for run in deadlines.run(Options(quick=True), quietly).record["runs"]}
    ratios = {name: run["completion_over_deadline"] for name, run in runs.items()}
    assert all(None not in found for found in ratios.values())
    assert max(ratios["edf"]) < min(ratios["mcp"]), "strict priority takes the whole link first"
    assert min(ratios["mcp"] + ratios["karuna"]) > 0.7
    assert all(run["background_of_what_is_left"] > 0.7 for run in runs.values())


def test_an_interrupted_experiment_leaves_no_cgroup_and_two_at_once_have_their_own() -> None:
    with pytest.raises(KeyboardInterrupt), empty_cgroup() as one, empty_cgroup() as other:
        names = {one.name, other.name}
        raise KeyboardInterrupt
    assert len(names) == 2
    with empty_cgroup() as now:
        assert not names & {group.name for group in now.parent.iterdir()}
