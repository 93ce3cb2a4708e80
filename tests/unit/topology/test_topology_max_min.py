"""Max-min fair shares: known cases, and the definition itself on random fabrics."""

from __future__ import annotations

import math
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controller.policies.policy_networks import max_min_fair
from topology.max_min import Flow, shares

ACCURACY = 1e-6


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, float], list[Flow]]:
    capacities = {f"l{at}": draw(st.floats(0, 1000)) for at in range(draw(st.integers(1, 5)))}
    demands = st.one_of(st.just(math.inf), st.floats(0, 1000))
    paths = st.lists(st.sampled_from(sorted(capacities)), min_size=1, unique=True).map(tuple)
    flows = st.builds(Flow, paths, demands, st.floats(0.1, 10))
    return capacities, draw(st.lists(flows, max_size=8))


class TestKnownShares:
    """Cases whose answer is plain."""

    def test_who_wants_five_percent_gets_it_and_the_rest_is_shared(self) -> None:
        flows = [Flow(("l",), 5), Flow(("l",)), Flow(("l",))]
        assert shares({"l": 100}, flows) == pytest.approx([5, 47.5, 47.5])

    def test_a_flow_over_two_full_links_gets_the_smaller_share(self) -> None:
        flows = [Flow(("a", "b")), Flow(("a",)), Flow(("b",)), Flow(("b",))]
        assert shares({"a": 100, "b": 90}, flows) == pytest.approx([30, 70, 30, 30])

    def test_weights_divide_a_link(self) -> None:
        assert shares({"l": 90}, [Flow(("l",), weight=2), Flow(("l",))]) == pytest.approx([60, 30])

    def test_a_flow_without_links_gets_what_it_wants(self) -> None:
        assert shares({}, [Flow((), 7)]) == [7]

    def test_a_link_without_capacity_carries_nothing(self) -> None:
        assert shares({"a": 0, "b": 10}, [Flow(("a", "b")), Flow(("b",))]) == [0, 10]


class TestDefinition:
    """A feasible division in which every flow has its demand, or a bottleneck: a full link where no flow has more by weight."""

    @given(problems())
    def test_every_flow_has_its_demand_or_a_bottleneck(self, problem: tuple[dict[str, float], list[Flow]]) -> None:
        capacities, flows = problem
        found = shares(capacities, flows)
        load = {
            link: math.fsum(share for share, flow in zip(found, flows, strict=True) if link in flow.path) for link in capacities
        }
        assert all(load[link] <= capacity + ACCURACY for link, capacity in capacities.items())
        for share, flow in zip(found, flows, strict=True):
            assert 0 <= share <= flow.demand
            if share < flow.demand - ACCURACY:
                level = share / flow.weight
                assert any(
                    load[str(link)] >= capacities[str(link)] - ACCURACY
                    and all(
                        other_share / other.weight <= level + ACCURACY / min(flow.weight, other.weight)
                        for other_share, other in zip(found, flows, strict=True)
                        if link in other.path
                    )
                    for link in flow.path
                ), (share, flow)

    @given(problems(), st.randoms())
    def test_the_order_of_the_flows_does_not_matter(self, problem: tuple[dict[str, float], list[Flow]], random: object) -> None:
        capacities, flows = problem
        backwards = shares(capacities, flows[::-1])[::-1]
        assert backwards == pytest.approx(shares(capacities, flows), abs=ACCURACY)


class TestErrors:
    """One line that names the field."""

    def test_a_weight_of_zero_is_refused_by_its_field(self) -> None:
        with pytest.raises(ValueError, match=r"flows\[1\].weight"):
            shares({"l": 1}, [Flow(("l",)), Flow(("l",), weight=0)])

    def test_a_negative_demand_is_refused_by_its_field(self) -> None:
        with pytest.raises(ValueError, match=r"flows\[0\].demand"):
            shares({"l": 1}, [Flow(("l",), -1)])

    def test_a_negative_capacity_is_refused_by_its_link(self) -> None:
        with pytest.raises(ValueError, match=r"capacities\[l\]"):
            shares({"l": -1}, [])

    def test_a_link_that_is_not_known(self) -> None:
        with pytest.raises(KeyError):
            shares({}, [Flow(("l",))])


@given(problems())
def test_the_policy_rate_limit_shares_the_same_way(problem: tuple[dict[str, float], list[Flow]]) -> None:
    """The benchmark judges the policy by this module, so neither uses the other: they are compared here."""
    unit = 1_000_000
    capacities, flows = problem
    paths: dict[int, list[Hashable]] = {}
    whole: dict[Hashable, int] = {link: int(capacity * unit) for link, capacity in capacities.items()}
    for number, flow in enumerate(flows):
        paths[number] = [*flow.path]
        if not math.isinf(flow.demand):
            paths[number].append(("demand", number))
            whole["demand", number] = int(flow.demand * unit)
    ours = max_min_fair(paths, whole, {number: flow.weight for number, flow in enumerate(flows)})
    assert [ours[number] / unit for number in range(len(flows))] == pytest.approx(shares(capacities, flows), abs=1e-2)
