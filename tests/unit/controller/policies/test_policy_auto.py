"""The policy `auto`: which links take turns and which share rates, what moves when that changes, and that it does not flap."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter

from controller.policies.auto import LEAST_SLOTS, MOST_SLOTS, RECENT_NS, Auto
from controller.policies.base import Plan, Slot
from controller.policies.choice import (
    AGAIN_NS,
    DWELL_NS,
    LEAST_USED,
    LINKS_NAMED,
    LONGEST_ROUND_NS,
    RATES,
    REASONS_NAMED,
    TURNS,
    Choice,
    Measured,
    summary,
)
from controller.policies.rates.policy import RateLimit
from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import FIRST, TreeNetwork, racks, star

MS = 1_000_000
SLICE = 2 * MS
A, B, C, D = range(FIRST, FIRST + 4)


def measured(
    senders: int = 3, answer_ns: int | None = SLICE // 20, one_link: bool = True, used: float | None = None
) -> Measured:
    return Measured(senders, answer_ns, one_link, used)


class TestChoice:
    """One group of links."""

    def test_turns_where_hosts_answer_at_once_and_rates_where_they_do_not(self) -> None:
        choice = Choice()
        assert choice.update(measured(), SLICE, 0) and choice.mode == TURNS
        assert choice.update(measured(answer_ns=SLICE // 2), SLICE, DWELL_NS) and choice.mode == RATES
        assert "1 ms" in choice.why and "2 ms" in choice.why

    def test_rates_where_nothing_is_known_a_round_is_long_or_flows_cross_several_links(self) -> None:
        for found in (measured(answer_ns=None), measured(senders=LONGEST_ROUND_NS // SLICE + 1), measured(one_link=False)):
            choice = Choice()
            assert not choice.update(found, SLICE, 0) and choice.mode == RATES and choice.why

    def test_an_answer_time_between_the_limits_changes_nothing(self) -> None:
        turns, rates = Choice(mode=TURNS), Choice(mode=RATES)
        for second in range(30):
            between = measured(answer_ns=SLICE // 8 + (second % 4) * SLICE // 32 + 1)
            assert not turns.update(between, SLICE, second * DWELL_NS)
            assert not rates.update(between, SLICE, second * DWELL_NS)

    def test_a_choice_stays_for_its_dwell_time(self) -> None:
        choice = Choice()
        choice.update(measured(), SLICE, 0)
        assert not choice.update(measured(answer_ns=SLICE), SLICE, DWELL_NS - 1)
        assert choice.update(measured(answer_ns=SLICE), SLICE, DWELL_NS)

    def test_unused_turns_are_given_up_and_tried_again_ever_later(self) -> None:
        choice, now_ns, changes = Choice(), 0, []
        while now_ns < 100 * AGAIN_NS:
            wasted = measured(used=LEAST_USED / 2 if choice.mode == TURNS else None)
            if choice.update(wasted, SLICE, now_ns):
                changes.append((now_ns, choice.mode))
            now_ns += AGAIN_NS // 40
        tried = [at for at, mode in changes if mode == TURNS]
        gaps = [b - a for a, b in pairwise(tried[1:])]
        assert len(tried) < 10 and gaps == sorted(gaps) and gaps[-1] > gaps[0]


class World:
    """Drives the policy; keeps what is in force by pair."""

    def __init__(self, network: TreeNetwork, contended: set[object] = frozenset()) -> None:  # type: ignore[assignment]
        self.policy = Auto(Timeslice(slice_ns=SLICE), RateLimit())
        self.network, self.now_ns = network, MS
        self.policy.set_network(network, now_ns=self.now_ns)
        self.policy.set_contended(frozenset(contended))
        self.policy.set_regulated({x: frozenset(network.nodes) - {x} for x in network.nodes}, now_ns=self.now_ns)
        self.open: dict[int, Slot] = {}

    def plan(self) -> Plan:
        plan = self.policy.plan(now_ns=self.now_ns, horizon_ns=self.now_ns)
        for slot in plan.revokes:
            self.open.pop(slot.slot, None)
        for slot in plan.grants:
            assert slot.slot not in self.open or self.open[slot.slot].start_ns > self.now_ns, "numbers are not used twice"
            self.open[slot.slot] = slot
        self.open = {number: slot for number, slot in self.open.items() if slot.end_ns > self.now_ns}
        return plan

    def wait(self, for_ns: int, *sending: tuple[int, int]) -> None:
        until_ns = self.now_ns + for_ns
        while self.now_ns < until_ns:
            for node in {node for node, _ in sending}:
                backlog = {destination: 9000 for its, destination in sending if its == node}
                self.policy.backlog(node, backlog, now_ns=self.now_ns)
            self.plan()
            self.now_ns += SLICE // 4

    def modes(self) -> set[str]:
        return {choice["mode"] for choice in self.policy.choices()}


class TestTheSummary:
    def test_links_of_one_mode_and_reason_are_one_row_which_names_some(self) -> None:
        rates, turns = Choice(RATES, "slow"), Choice(TURNS, "quick")
        rows = summary([("odd", turns), *((number, rates) for number in range(3000))])
        assert rows == [
            {"mode": RATES, "why": "slow", "count": 3000, "links": list(range(LINKS_NAMED))},
            {"mode": TURNS, "why": "quick", "count": 1, "links": ["odd"]},
        ]

    def test_of_many_reasons_those_of_few_links_are_counted(self) -> None:
        rows = summary((number, Choice(RATES, f"why {number // 2 if number < 10 else number}")) for number in range(100))
        assert [row["count"] for row in rows[:6]] == [2, 2, 2, 2, 2, 1]
        assert len(rows) == REASONS_NAMED + 1 and sum(row["count"] for row in rows) == 100
        assert rows[-1]["links"] == [] and rows[-1]["why"] == f"{95 - REASONS_NAMED} other reasons"


def link_to(network: TreeNetwork, node: int) -> object:
    other = next(n for n in network.nodes if n != node)
    return network.path(other, node)[-1]


class TestAuto:
    """Two policies over one fabric."""

    def test_turns_begin_when_answers_are_known_to_be_quick_and_end_when_they_are_slow(self) -> None:
        network = star(4)
        world = World(network, {link_to(network, D)})
        sending = [(A, D), (B, D), (C, D)]
        world.wait(5 * MS, *sending)
        assert world.modes() == {RATES} and all(slot.rate_bps for slot in world.open.values()) and len(world.open) == 3
        for node in (A, B, C):
            world.policy.set_delay(node, 20_000)
        world.wait(2 * DWELL_NS, *sending)
        assert world.modes() == {TURNS}
        assert len({slot.node for slot in world.open.values() if slot.start_ns <= world.now_ns}) == 1, "one at a time"
        assert all(slot.bytes for slot in world.open.values())
        world.policy.set_delay(B, SLICE)
        world.wait(2 * DWELL_NS, *sending)
        assert world.modes() == {RATES} and {slot.node for slot in world.open.values()} == {A, B, C}

    def test_no_two_policies_schedule_one_node(self) -> None:
        """A sends across both contended links, so they share one choice; it is rates as soon as a flow crosses both."""
        network = racks(2, 4)
        nodes = network.nodes
        first, last = nodes[0], nodes[-1]
        uplink, leaf = network.path(first, last)[1], link_to(network, last)
        world = World(network, {uplink, leaf})
        for node in nodes:
            world.policy.set_delay(node, 10_000)
        world.wait(SLICE, (first, last), (nodes[1], nodes[-2]))
        assert world.modes() == {RATES}
        assert all("several" in choice["why"] for choice in world.policy.choices())

    def test_a_link_keeps_its_own_choice_where_no_sender_is_shared(self) -> None:
        network = racks(2, 4)
        nodes = network.nodes
        ends = {link_to(network, nodes[3]), link_to(network, nodes[7])}
        world = World(network, ends)
        for node in nodes[:4]:
            world.policy.set_delay(node, 10_000)
        for node in nodes[4:]:
            world.policy.set_delay(node, SLICE)
        world.wait(2 * DWELL_NS, (nodes[0], nodes[3]), (nodes[1], nodes[3]), (nodes[4], nodes[7]), (nodes[5], nodes[7]))
        rows = sorted(world.policy.choices(), key=itemgetter("mode"))
        assert [(row["mode"], row["count"], row["links"]) for row in rows] == [
            (RATES, 1, [link_to(network, nodes[7])]),
            (TURNS, 1, [link_to(network, nodes[3])]),
        ]

    def test_turns_that_are_wasted_are_given_up_soon_however_long_they_were_used_before(self) -> None:
        network = star(4)
        world = World(network, {link_to(network, D)})
        for node in (A, B):
            world.policy.set_delay(node, 20_000)
        wasted = 0
        for number in range(5 * MOST_SLOTS):
            for node in (A, B):
                world.policy.backlog(node, {D: 9000}, now_ns=world.now_ns)
            world.plan()
            running = [slot for slot in world.open.values() if slot.bytes and slot.start_ns <= world.now_ns]
            for slot in running if number >= 4 * MOST_SLOTS else ():
                wasted += 1
                world.policy.yielded(slot.node, D, slot.slot, now_ns=world.now_ns, backlog_bytes=9000,
                                     unspent_bytes=slot.bytes // 2)  # fmt: skip
                del world.open[slot.slot]
            world.now_ns += SLICE
            if wasted and world.modes() == {RATES}:
                break
        assert world.modes() == {RATES} and 0 < wasted < MOST_SLOTS // 12

    def test_turns_that_are_tried_again_are_judged_by_what_is_used_since(self) -> None:
        network = star(4)
        world = World(network, {link_to(network, D)})
        for node in (A, B):
            world.policy.set_delay(node, 20_000)
        world.wait(MS, (A, D), (B, D))
        assert world.modes() == {TURNS}
        for part in (0.1, 1.0):
            for _ in range(2 * LEAST_SLOTS):
                world.wait(SLICE // 4, (A, D), (B, D))
                for slot in [slot for slot in world.open.values() if slot.bytes and slot.start_ns < world.now_ns]:
                    unspent = slot.bytes - int(part * slot.bytes)
                    world.policy.yielded(slot.node, D, slot.slot, now_ns=world.now_ns, backlog_bytes=9000,
                                         unspent_bytes=unspent)  # fmt: skip
                    del world.open[slot.slot]
            world.wait(2 * DWELL_NS, (A, D), (B, D))
            assert world.modes() == {RATES if part < 1 else TURNS}
            world.wait(AGAIN_NS, (A, D), (B, D))
            assert world.modes() == {TURNS}

    def test_turns_that_another_host_gives_back_count_as_used(self) -> None:
        network = star(4)
        world = World(network, {link_to(network, D)})
        for node in (A, B):
            world.policy.set_delay(node, 20_000)
        world.wait(MS, (A, D), (B, D))
        for _ in range(2 * LEAST_SLOTS):
            world.wait(SLICE // 4, (A, D), (B, D))
            for slot in world.open.values():
                for node, end in ((C, D), (slot.node, C)):
                    world.policy.yielded(node, end, slot.slot, now_ns=world.now_ns, unspent_bytes=slot.bytes)
        world.wait(2 * DWELL_NS, (A, D), (B, D))
        assert world.modes() == {TURNS}

    def test_a_link_that_is_contended_no_more_is_forgotten_and_so_is_who_sends_no_more(self) -> None:
        network = star(4)
        world = World(network, {link_to(network, D)})
        world.wait(5 * MS, (A, D), (B, D))
        world.policy.set_contended(frozenset())
        assert not world.policy.choices()
        world.policy.backlog(A, {}, now_ns=world.now_ns)
        world.policy.backlog(B, {}, now_ns=world.now_ns)
        world.wait(2 * RECENT_NS)
        assert world.policy.next_event_ns() is None, "nothing sends: nothing wakes the coordinator"
