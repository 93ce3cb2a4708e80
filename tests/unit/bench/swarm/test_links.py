"""The link model of bench/swarm: cases computed by hand, and bytes that are never lost track of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.computing.scale_network import Pairs
from bench.swarm.library import LinkModel
from bench.swarm.traffic import ROW, make, world
from topology import shapes


def model(capacities: list[float], buffers: list[float], paths: list[list[int]]) -> LinkModel:
    return LinkModel(np.array(capacities), np.array(buffers), np.array(paths, dtype=np.int32))


def test_a_link_with_room_delivers_all_in_the_same_step() -> None:
    one = model([100, 50], [0, 0], [[0, 1]])
    one.step(np.array([50.0]))
    assert one.sums() == {"sent": 50, "delivered": 50, "lost": 0, "waiting": 0}


def test_what_a_link_cannot_carry_waits_up_to_its_buffer_and_the_rest_is_lost() -> None:
    one = model([100, 50], [0, 20], [[0, 1]])
    one.step(np.array([100.0]))
    assert one.sums() == {"sent": 100, "delivered": 50, "lost": 30, "waiting": 20}
    counts = one.counts()
    assert counts["carried"].tolist() == [100, 50] and counts["lost"].tolist() == [0, 30]
    assert counts["most_waiting"].tolist() == [0, 20] and counts["most_in_a_ms"].tolist() == [100, 50]


def test_a_queue_drains_at_the_links_rate() -> None:
    one = model([100, 50], [0, 100], [[0, 1]])
    one.step(np.array([100.0]))
    for left in (0, 0):
        one.step(np.array([0.0]))
        assert one.sums()["waiting"] == left
    assert one.sums()["delivered"] == 100 and one.counts()["most_waiting"].tolist() == [0, 50]


def test_flows_of_a_full_link_lose_in_proportion_to_what_they_bring() -> None:
    one = model([1000, 1000, 40], [0, 0, 0], [[0, -1, 2], [-1, 1, 2]])
    one.step(np.array([60.0, 20.0]))
    assert one.sums()["delivered"] == pytest.approx(40)
    assert one.sums()["lost"] == pytest.approx(40)


def test_two_levels_that_are_too_small_lose_at_each() -> None:
    """As in Figure 27's tree: 20 senders on a rack's 10, ten racks on a row's 10: of 200 sent, 100 and then 10 are carried."""
    paths = [[sender, 200 + sender // 20, 210] for sender in range(200)]
    one = model([1.0] * 200 + [10.0] * 10 + [10.0], [0.0] * 211, paths)
    one.step(np.ones(200))
    sums, counts = one.sums(), one.counts()
    assert sums["delivered"] == pytest.approx(10) and sums["lost"] == pytest.approx(190)
    assert counts["lost"][200:210].sum() == pytest.approx(100) and counts["lost"][210] == pytest.approx(90)


@given(
    links=st.lists(st.tuples(st.floats(1, 100), st.floats(0, 50)), min_size=4, max_size=8),
    flows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
    steps=st.lists(st.lists(st.floats(0, 100), min_size=6, max_size=6), max_size=12),
)
def test_every_byte_is_delivered_lost_or_waiting_and_no_link_exceeds_its_rate_or_buffer(
    links: list[tuple[float, float]], flows: list[tuple[int, int]], steps: list[list[float]]
) -> None:
    half = len(links) // 2
    one = model([c for c, _ in links], [b for _, b in links], [[a % half, half + b % half] for a, b in flows])
    carried = np.zeros(len(links))
    for sent in steps:
        one.step(np.array(sent[: len(flows)]))
        counts = one.counts()
        assert np.all(counts["carried"] - carried <= np.array([c for c, _ in links]) * (1 + 1e-9))
        assert np.all(counts["waiting"] <= np.array([b for _, b in links]) + 1e-9)
        carried = counts["carried"]
    sums = one.sums()
    assert sums["sent"] == pytest.approx(sums["delivered"] + sums["lost"] + sums["waiting"], abs=1e-2)
    assert sums["lost"] == pytest.approx(one.counts()["lost"].sum())


def test_the_levels_of_a_path_grow_from_its_host_to_the_other() -> None:
    """Also where some pairs' paths pass no core switch: each link has one level."""
    fabric = shapes.xco_rows(2, 2, 2)
    made = world(fabric, 8, Pairs(np.array([0, 0, 0]), np.array([1, 2, 6])))
    for flow, (source, destination) in enumerate(zip(*made.pairs, strict=True)):
        path = [made.links[at] for at in made.paths[flow] if at >= 0]
        assert tuple(path) == made.path(source, destination)
    levels = {tuple(np.unique(np.nonzero(made.paths == at)[1])) for at in range(len(made.links))}
    assert all(len(each) == 1 for each in levels)


def test_rows_send_to_rows_as_in_figure_27() -> None:
    made = make("rows", 4 * ROW)
    fabric = made.fabric
    assert len(made.pairs) == 2 * ROW
    for source, destination in zip(*made.pairs, strict=True):
        path = made.path(source, destination)
        assert len(path) == 6 and path[2].target == "core"
        assert fabric.capacity_bps(path[2]) == 10 * shapes.GIGABIT


def test_a_wrong_number_of_flows_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be 1"):
        model([1], [0], [[0]]).step(np.zeros(2))
