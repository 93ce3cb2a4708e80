"""Orders of coflows: bottlenecks first, attained service, and deadlines that are kept or refused."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.coflows import attained_service, bottleneck_order
from controller.coflows.reservations import Reservations
from emulation.traffic.big_switch import FluidCoflow, View, completion_times

HOSTS = 3
PROPERTY = settings(deadline=None, max_examples=60)
Port = Hashable
Demands = dict[int, dict[Port, float]]

flows = st.lists(st.tuples(st.integers(0, HOSTS - 1), st.integers(0, HOSTS - 1), st.integers(1, 50)), min_size=1, max_size=4)
coflows = st.lists(flows, min_size=1, max_size=5)


def demands(drawn: Sequence[Sequence[tuple[int, int, int]]]) -> Demands:
    found: Demands = {}
    for at, mine in enumerate(drawn):
        found[at] = {}
        for source, target, size in mine:
            for port in (("out", source), ("in", target)):
                found[at][port] = found[at].get(port, 0.0) + size
    return found


def rates(of: Demands) -> dict[Port, float]:
    return {port: 1.0 for demand in of.values() for port in demand}


def least_cost(order: Sequence[int], of: Demands, weights: dict[int, float]) -> float:
    """The weighted sum of completion times if ports did not wait for each other: no schedule in this order has less."""
    load: dict[Port, float] = {}
    cost = 0.0
    for coflow in order:
        for port, size in of[coflow].items():
            load[port] = load.get(port, 0.0) + size
        cost += weights[coflow] * max(load[port] for port in of[coflow])
    return cost


class TestBottleneckOrder:
    """Sincronia's order."""

    @PROPERTY
    @given(coflows, st.lists(st.integers(1, 9), min_size=5, max_size=5))
    def test_is_within_twice_the_best_order_where_ports_do_not_wait_for_each_other(
        self, drawn: list[list[tuple[int, int, int]]], weight: list[int]
    ) -> None:
        """The half of the proof that is about the order; the other factor of 2 is for flows that need two ports."""
        of = demands(drawn)
        weights = {coflow: float(weight[coflow]) for coflow in of}
        found = bottleneck_order.order(of, rates(of), weights)
        assert sorted(found) == sorted(of)
        best = min(least_cost(tried, of, weights) for tried in itertools.permutations(of))
        assert least_cost(found, of, weights) <= 2 * best * (1 + 1e-9)

    @settings(PROPERTY, max_examples=20)  # each is a simulation, and a search through all orders
    @given(coflows)
    def test_under_strict_priorities_completion_times_are_within_four_times_the_optimum(
        self, drawn: list[list[tuple[int, int, int]]]
    ) -> None:
        """The optimum of all schedules is at least the best order's cost where ports do not wait for each other."""
        of = demands(drawn)
        ordered = bottleneck_order.order(of, rates(of))
        place = {coflow: at for at, coflow in enumerate(ordered)}
        fluid = [FluidCoflow(0.0, tuple((*ends, float(size)) for *ends, size in mine)) for mine in drawn]  # type: ignore[misc]
        per_s = 100  # the rule never changes, and is asked fifty times a second
        times = completion_times(fluid, HOSTS, 8.0 * per_s, lambda _, views: {at: place[at] for at in views})
        best = min(least_cost(tried, of, dict.fromkeys(of, 1.0)) for tried in itertools.permutations(of))
        assert best * (1 - 1e-6) <= per_s * sum(times) <= 4 * best * (1 + 1e-6)

    def test_on_one_port_the_smallest_goes_first(self) -> None:
        of: Demands = {1: {"a": 30.0}, 2: {"a": 10.0}, 3: {"a": 20.0}}
        assert bottleneck_order.order(of, {"a": 1.0}) == [2, 3, 1]

    def test_a_slow_port_is_the_bottleneck(self) -> None:
        of: Demands = {1: {"slow": 10.0}, 2: {"fast": 20.0, "slow": 5.0}}
        assert bottleneck_order.order(of, {"slow": 1.0, "fast": 100.0}) == [2, 1]

    def test_a_coflow_that_needs_nothing_goes_first(self) -> None:
        assert bottleneck_order.order({1: {"a": 1.0}, 2: {}}, {"a": 1.0}) == [2, 1]


class TestAttainedService:
    """Aalo's order."""

    def test_who_has_sent_little_goes_first_and_within_a_class_who_was_opened_first(self) -> None:
        sent, opened = {1: 500.0, 2: 5.0, 3: 9.0, 4: 10.0}, {1: 0.0, 2: 3.0, 3: 2.0, 4: 1.0}
        assert attained_service.order(sent, opened, first_bytes=10, factor=10) == [3, 2, 4, 1]

    @pytest.mark.parametrize(("first", "factor"), [(0, 10), (10, 1)])
    def test_limits_that_do_not_rise_are_refused(self, first: float, factor: float) -> None:
        with pytest.raises(ValueError, match="factor"):
            attained_service.order({1: 1.0}, {1: 0.0}, first, factor)


def nothing(_: Port) -> float:
    """Of a port is taken."""
    return 0.0


class TestDeadlines:
    """Admission."""

    RATES = {"a": 10.0, "b": 10.0}  # noqa: RUF012 -- never changed

    def test_a_deadline_is_kept_up_to_the_rate_of_its_bottleneck(self) -> None:
        assert bottleneck_order.keeps_deadline({"a": 100.0, "b": 20.0}, 10.0, nothing, self.RATES)
        assert not bottleneck_order.keeps_deadline({"a": 101.0, "b": 20.0}, 10.0, nothing, self.RATES)

    def test_what_is_admitted_comes_off(self) -> None:
        reserved: Reservations[str] = Reservations()
        reserved.add(1, {"a": 60.0}, 5, 15)
        assert bottleneck_order.keeps_deadline({"a": 40.0}, 10.0, reserved.taken, self.RATES)
        assert not bottleneck_order.keeps_deadline({"a": 41.0}, 10.0, reserved.taken, self.RATES)
        assert bottleneck_order.keeps_deadline({"b": 100.0}, 10.0, reserved.taken, self.RATES)

    def test_what_was_reserved_comes_back_whole_at_its_deadline(self) -> None:
        reserved: Reservations[str] = Reservations()
        for at in range(1, 50):
            reserved.add(at, {"a": 10.0 * at, "b": 7.0}, at, 3 * at + 4)
        reserved.add(50, {"a": 1.0}, 9, 9)  # without time it needs nothing
        assert reserved.taken("a") == pytest.approx(sum(10 * at / (2 * at + 4) for at in range(1, 50)))
        reserved.end(100)
        assert len(reserved) == sum(3 * at + 4 > 100 for at in range(1, 50))
        reserved.end(3 * 49 + 4)
        assert (len(reserved), reserved.taken("a"), reserved.taken("b")) == (0, 0, 0)

    def test_what_a_coflow_reserved_can_be_taken_back_before_its_deadline_and_does_not_end_twice(self) -> None:
        reserved: Reservations[str] = Reservations()
        reserved.add(1, {"a": 60.0}, 0, 10)
        reserved.add(2, {"a": 20.0}, 0, 20)
        reserved.remove(1)
        reserved.remove(1)
        assert (len(reserved), reserved.taken("a")) == (1, 1.0)
        reserved.end(10)
        assert (len(reserved), reserved.taken("a")) == (1, 1.0)
        reserved.add(1, {"a": 60.0}, 10, 30)  # an id that goes round
        reserved.remove(2)
        reserved.add(2, {"a": 40.0}, 10, 30)
        reserved.end(20)
        assert (len(reserved), reserved.taken("a")) == (2, 5.0)
        reserved.end(30)
        assert (len(reserved), reserved.taken("a")) == (0, 0.0)

    def test_without_time_it_is_refused(self) -> None:
        assert not bottleneck_order.keeps_deadline({"a": 1.0}, 0.0, nothing, self.RATES)

    @PROPERTY
    @given(st.lists(st.tuples(flows, st.integers(1, 120)), min_size=1, max_size=5))
    def test_all_that_are_admitted_keep_their_deadlines_at_the_rates_that_admission_counts_on(
        self, drawn: list[tuple[list[tuple[int, int, int]], int]]
    ) -> None:
        of = demands([mine for mine, _ in drawn])
        admitted: list[tuple[dict[Port, float], float]] = []
        reserved: Reservations[Port] = Reservations()
        for coflow, (_, deadline) in enumerate(drawn):
            if bottleneck_order.keeps_deadline(of[coflow], deadline, reserved.taken, rates(of)):
                reserved.add(coflow, of[coflow], 0, deadline)
                admitted.append((of[coflow], deadline))
        for port in rates(of):
            assert sum(demand.get(port, 0.0) / left for demand, left in admitted) <= 1 + 1e-9


class TestBigSwitch:
    """The fluid model itself."""

    @staticmethod
    def fair(_: float, views: dict[int, View]) -> dict[int, int]:
        return dict.fromkeys(views, 0)

    def test_a_link_of_the_fabric_is_shared_by_all_that_go_through_it(self) -> None:
        two = [FluidCoflow(0.0, ((0, 1, 10.0),)), FluidCoflow(0.0, ((1, 2, 10.0),))]
        assert completion_times(two, HOSTS, 8.0, self.fair) == pytest.approx([10.0, 10.0])  # type: ignore[arg-type]
        found = completion_times(two, HOSTS, 8.0, self.fair, lambda source, target: (0,), [8.0])  # type: ignore[arg-type]
        assert found == pytest.approx([20.0, 20.0])

    def test_two_flows_to_one_port_share_it(self) -> None:
        two = [FluidCoflow(0.0, ((0, 2, 10.0),)), FluidCoflow(0.0, ((1, 2, 10.0),))]
        assert completion_times(two, HOSTS, 8.0, self.fair) == pytest.approx([20.0, 20.0])  # type: ignore[arg-type]

    def test_the_first_queue_goes_first(self) -> None:
        two = [FluidCoflow(0.0, ((0, 2, 10.0),)), FluidCoflow(0.0, ((1, 2, 10.0),))]
        assert completion_times(two, HOSTS, 8.0, lambda _, views: {at: -at for at in views}) == pytest.approx([20.0, 10.0])

    def test_max_min_fair_shares_leave_nothing_idle(self) -> None:
        """Flows 0 -> 1 and 0 -> 2 share host 0's egress; 1 -> 2 gets what is left of host 2's ingress."""
        three = [FluidCoflow(0.0, ((0, 1, 10.0),)), FluidCoflow(0.0, ((0, 2, 10.0),)), FluidCoflow(0.0, ((1, 2, 10.0),))]
        assert completion_times(three, HOSTS, 8.0, self.fair) == pytest.approx([20.0, 20.0, 20.0])  # type: ignore[arg-type]

    def test_a_coflow_is_through_with_its_last_flow_and_time_counts_from_its_start(self) -> None:
        one = [FluidCoflow(5.0, ((0, 1, 10.0), (1, 2, 30.0)))]
        assert completion_times(one, HOSTS, 8.0, self.fair) == pytest.approx([30.0])  # type: ignore[arg-type]
