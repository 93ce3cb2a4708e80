"""simulation/xco.py, coordination.py: XCo's Figures 23 to 27 with Baton's policy in the loop; the runs need ns-3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from simulation import toolchain, xco
from simulation.coordination import SETTINGS, Coordination, Network
from simulation.toolchain import why_missing
from simulation.xco import BUFFER_BYTES, FIGURES, MS, case_text, rows, simulate, star, uplink

MISSING = why_missing()
needs_ns3 = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def coordination(senders: int, control_ns: int = 50_000) -> Coordination:
    return Coordination(Network(star(5, 0).fabric), [(sender, 5) for sender in range(senders)], control_ns)


def slots_of(answer: str) -> list[list[int]]:
    """Flow, number, start, end and bytes of each slot."""
    return [[int(word) for word in line.split()[1:]] for line in answer.splitlines() if line.startswith("slot ")]


class TestTheCoordinator:
    """What it answers a simulation."""

    def test_grants_one_at_a_time_no_sooner_than_the_slot_can_be_there(self) -> None:
        said = coordination(2)
        first = slots_of(said.answer({"now_ns": 0, "told": [[0, 0, 5000], [1, 0, 5000]]}))
        assert [slot[0] for slot in first] == [0] and first[0][2] == 50_000
        due = int(said.answer({"now_ns": 10, "told": []}).split()[-1])
        (second,) = slots_of(said.answer({"now_ns": due, "told": []}))
        assert second[0] == 1 and first[0][3] - second[2] == SETTINGS.slice_ns // 10  # the grace

    def test_a_slot_that_is_given_back_goes_to_the_next(self) -> None:
        said = coordination(2)
        (first,) = slots_of(said.answer({"now_ns": 0, "told": [[0, 0, 5000], [1, 0, 5000]]}))
        (second,) = slots_of(said.answer({"now_ns": 500_000, "told": [[0, first[1], first[4] - 5000]]}))
        assert second[0] == 1 and second[2] == 550_000 and said.yields == 1

    def test_a_slot_that_nobody_needs_is_revoked(self) -> None:
        said = coordination(1)
        (slot,) = slots_of(said.answer({"now_ns": 0, "told": [[0, 0, 5000]]}))
        assert slots_of(said.answer({"now_ns": 10, "told": [[0, 0, 0]]})) == [[*slot[:4], 0]]


class TestTheCase:
    """What the program reads."""

    def test_every_flow_names_its_whole_way(self) -> None:
        lines = case_text(rows(2), FIGURES[27], coordinated=True).splitlines()
        flows = [line.split() for line in lines if line.startswith("flow ")]
        assert len(flows) == 200 and all(flow[1:3] == ["udp", "1"] and len(flow) == 3 + 7 for flow in flows)
        assert f"buffer {BUFFER_BYTES}" in lines
        assert len([line for line in lines if line.startswith("link ")]) == 400 + 20 + 2

    @pytest.mark.parametrize("experiment", [star(5, 2), uplink(13, 4)])
    def test_the_first_send_datagrams_and_the_others_tcp(self, experiment: xco.Experiment) -> None:
        lines = case_text(experiment, FIGURES[25], coordinated=False).splitlines()
        kinds = [line.split()[1] for line in lines if line.startswith("flow ")]
        assert kinds == ["udp"] * experiment.datagrams + ["tcp"] * (len(experiment.pairs) - experiment.datagrams)


@needs_ns3
class TestDatagrams:
    """What is lost, by arithmetic and as simulated."""

    @pytest.mark.parametrize("senders", [1, 2, 5])
    def test_uncoordinated_senders_lose_all_but_one_links_worth(self, senders: int) -> None:
        assert simulate(23, senders, coordinated=False)["loss"] == pytest.approx(1 - 1 / senders, abs=0.015)

    @pytest.mark.parametrize("senders", [10, 13])
    def test_a_shared_uplink_loses_what_is_more_than_it_carries(self, senders: int) -> None:
        assert simulate(24, senders, coordinated=False)["loss"] == pytest.approx(1 - 10 / senders, abs=0.015)

    @pytest.mark.parametrize("senders", [1, 5])
    def test_with_the_policys_slots_nothing_is_lost_and_the_link_is_full(self, senders: int) -> None:
        found = simulate(23, senders, coordinated=True)
        assert found["loss"] == 0 and found["goodput_bps"] >= 0.95e9

    def test_the_fabric_of_two_rows_loses_nothing_either(self) -> None:
        found = simulate(27, 2, coordinated=True)
        assert found["loss"] == 0 and found["goodput_bps"] >= 0.94e10


@needs_ns3
class TestMixes:
    """TCP beside datagrams at one port, for a fifth of a second."""

    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(xco.FIGURES, 25, FIGURES[25]._replace(from_ns=50 * MS, until_ns=250 * MS))

    def test_tcp_gets_next_to_nothing_beside_datagrams_and_a_fifth_of_the_link_in_slots(self) -> None:
        alone, slots = (simulate(25, 3, coordinated=coordinated) for coordinated in (False, True))
        assert alone["loss"] == pytest.approx(2 / 3, abs=0.03) and alone["tcp_bps"] < 20e6
        assert slots["loss"] == 0 and slots["tcp_bps"] == pytest.approx(190e6, rel=0.05)
        assert slots["udp_bps"] == pytest.approx(190e6, rel=0.05)

    def test_a_longer_way_to_the_coordinator_costs_nothing_while_all_have_data(self) -> None:
        near, far = (simulate(25, 2, coordinated=True, control_ns=delay)["goodput_bps"] for delay in (0, 500_000))
        assert far == pytest.approx(near, rel=0.02)


def test_an_interrupted_figure_leaves_the_runs_that_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = iter(range(3))

    def run(number: int, count: int, *, coordinated: bool, control_ns: int) -> dict[str, Any]:
        if next(ended) == 2:
            raise KeyboardInterrupt
        return {"loss": 0.0, "goodput_bps": 1, "whole_bps": 1, "tcp_bps": None, "udp_bps": 1, "wall_s": 0.1}

    monkeypatch.setattr(xco, "simulate", run)
    monkeypatch.setattr(toolchain, "why_missing", lambda: "")
    file = tmp_path / "record.json"
    done = CliRunner().invoke(main, ["simulate", "--xco", "23", "--json", str(file)])
    record = json.loads(file.read_text())
    assert done.exit_code and [one["count"] for one in record["runs"]] == [1, 1] and not record["complete"]
