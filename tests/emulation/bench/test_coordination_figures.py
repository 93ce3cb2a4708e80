"""The benchmarks' own runs, shortened: each brings up its fabric, and its figures keep their order on a busy machine too."""

from __future__ import annotations

import pytest

from bench.coordination import conservation, failure, latency, loss, override
from emulation.fabric.fabric import EmulatedFabric
from emulation.stack.running import reach
from emulation.stack.stack import OPENFLOW, Stack
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from topology import shapes
from topology.fabric import FabricBuilder

LINK_MBPS = 97.7


def test_a_round_in_which_a_host_never_came_so_far_is_the_worst_of_all() -> None:
    assert override.summary([8.0, 9.0, 7.0, 8.5]) == {"all": [8.0, 9.0, 7.0, 8.5], "p50": 8.5, "worst": 9.0}
    assert override.summary([8.0, None, 7.0, 8.5]) == {"all": [8.0, None, 7.0, 8.5], "p50": 8.5, "worst": None}
    assert override.summary([None, None, 7.0]) == {"all": [None, None, 7.0], "p50": None, "worst": None}
    assert override.summary([]) == {"all": [], "p50": None, "worst": None}


def test_a_measurement_that_began_before_its_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "START_NS", 0)
    with EmulatedFabric(shapes.build("star", hosts=2, rate_bps=10_000_000)) as emulated:
        flows = [Flow("udp", "h1", "h2", size=1400, rate_bps=1_000_000 + at) for at in range(4)]
        found = experiment.run(emulated, flows, duration_s=0.5, warmup_s=0.0)
    told = found.confidence().to_dict()
    assert told["level"] in ("indicative", "poor")
    assert any("programs were still being started" in text for text in told["disturbed"]), told


def test_permission_comes_within_milliseconds_and_the_warm_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "WARMUP_S", 3.0)
    found = latency.run(duration_s=2)
    print({name: found[name] for name in ("backlog_to_directive_us", "directive_to_gate_us")})
    most = 2 / latency.PERIOD_S
    assert 50 < found["backlog_to_directive_us"]["samples"] <= 1.1 * most
    assert 50 < found["directive_to_gate_us"]["samples"] <= 1.1 * most
    assert found["backlog_to_directive_us"]["p50"] < 5_000
    assert found["directive_to_gate_us"]["p50"] < 2_000


def test_a_killed_coordinator_frees_every_host_and_its_successor_coordinates_them() -> None:
    found = failure.run(duration_s=12)
    print(found)
    assert found["free_after_ms"] < 200
    assert found["coordinated_again_after_ms"] is not None
    assert found["coordinated_again_after_ms"] < 10_000
    assert found["epochs"][1] > found["epochs"][0]
    assert found["agents_restarted"] == 0


def test_lost_directives_cost_their_slices_only() -> None:
    found = loss.run(duration_s=4)
    assert 0.1 < found["directives_lost"] < 0.3
    assert found["with"]["drop_fraction"] < 0.01
    assert found["with"]["longest_silence_ms"] < 1_000
    assert found["with"]["goodput_mbps"] > 0.55 * LINK_MBPS


def test_unused_slots_are_given_to_others() -> None:
    found = conservation.run(duration_s=3)
    assert found["with_yields"]["link_use"] > 0.8
    assert found["without_yields"]["link_use"] > 0.7, "slots are as long as they are used, also where none is given back early"


def test_a_node_with_six_vms_behind_a_bridge_is_coordinated_with_another() -> None:
    builder = FabricBuilder().add_switch("s1")
    builder.add_host("h1", [f"10.0.1.{number}" for number in range(1, 7)])
    builder.add_host("h2", ["10.0.0.2"])
    builder.add_host("h3", ["10.0.0.3"])
    for host in ("h1", "h2", "h3"):
        builder.add_link("s1", host, 100_000_000)
    with (
        EmulatedFabric(builder.build(), controller=OPENFLOW) as emulated,
        Stack(emulated, coordinator={"slice": "10ms"}) as baton,
    ):
        reach(emulated, baton)
        baton.start_agents()
        flows = [Flow("udp", vm, "h3") for vm in ("h1v1", "h1v4")] + [Flow("udp", "h2", "h3")]
        outcome = experiment.run(
            emulated, flows, duration_s=3, warmup_s=2, bottlenecks=[("s1", "h3")], host_queues=False
        )
        members = {member["name"]: member for member in baton.store.members().values()}
    first, second, other = (flow.goodput_mbps for flow in outcome.flows)
    print(first, second, other)
    assert len(members["h1"]["addresses"]) == 6
    assert outcome.goodput_mbps > 0.6 * LINK_MBPS
    assert 0.5 < first / second < 2
    assert 0.6 < (first + second) / other < 1.6
