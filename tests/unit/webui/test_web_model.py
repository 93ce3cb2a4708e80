"""The dashboard's documents, made from the store's; and the positions of a fabric's nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import shapes
from topology.fabric import Fabric, FabricBuilder
from topology.spanning_tree import compute
from webui.state import model
from webui.state.layout import places, tiers
from webui.state.liveness import PUBLISHED_NS, SILENT_NS, Liveness
from webui.state.model import Picture
from webui.state.poller import state_ticks
from webui.state.subscription import ids, message

SECOND = 1_000_000_000


def document(fabric: Fabric) -> dict[str, Any]:
    return {"fabric": fabric.to_dict(), "blocked": [list(link) for link in compute(fabric).blocked]}


RING = shapes.build("ring")
MEMBER = {
    "name": "host one",
    "addresses": ["10.0.0.1"],
    "gate": "tbf",
    "version": "1",
    "wire": 2,
    "guest_marks": {"held": 1, "marked": 2, "expired": 1, "removed": 0, "refused": 7},
    "heard_ms_ago": 7,
    "sent_bps": {"17": 50_000_000},
    "backlog_bytes": {"17": 1_000, "18": 5},
    "regulated": [17],
    "waiting_us": {"17": 2_500},
    "refused": {"1": 3, "2": 0},
}
STATUS = {"pid": 9, "epoch": 5, "policy": "timeslice", "slice_ns": 2, "override": "coordinate", "weights": [["h1", "h2", 3.0]]}


def state(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 -- any argument of model.state
    given: dict[str, Any] = {
        "picture": Picture(document(RING), 1),
        "documents": {"status": STATUS},
        "members": {16: MEMBER, 17: {"name": "h2"}, 18: {"name": "stranger"}},
        "override": None,
        "alive": True,
        "time_ms": 1,
    }
    return model.state(**{**given, **changes})


def three_tiers(*, joined: bool = True, faster: bool = True, hosts: tuple[int, ...] = (2, 2, 2)) -> Fabric:
    """Racks below two aggregation switches below two core switches; `joined`: to each other, `faster`: than racks' links."""
    builder = FabricBuilder()
    for name in ("c1", "c2", "a1", "a2", "t1", "t2", "t3"):
        builder.add_switch(name)
    if joined:
        builder.add_link("c1", "c2", 200)
    for middle in ("a1", "a2"):
        for core in ("c1", "c2"):
            builder.add_link(core, middle, 200 if faster else 150)
        for rack in ("t1", "t2", "t3"):
            builder.add_link(middle, rack, 150)
    for number, (rack, count) in enumerate(zip(("t1", "t2", "t3"), hosts, strict=True)):
        for at in range(count):
            builder.add_host(f"h{2 * number + at + 1}").add_link(f"h{2 * number + at + 1}", rack, 100)
    return builder.build()


def with_host_at(fabric: Fabric, host: str, switch: str) -> Fabric:
    return FabricBuilder.of(fabric).add_host(host).add_link(host, switch, 10_000).build()


class TestLayout:
    """Hosts below, switches by their distance from them."""

    def test_tiers_of_leaves_and_spines(self) -> None:
        found = tiers(shapes.build("leaf_spine", leaves=4, spines=2, hosts_per_leaf=4))
        assert [len(level) for level in found] == [16, 4, 2]
        leaf_of = [int(host.removeprefix("h")) for host in found[0]]
        assert leaf_of == sorted(leaf_of)  # the hosts of a leaf stay together

    @pytest.mark.parametrize("joined", [True, False])
    @pytest.mark.parametrize("faster", [True, False])
    def test_a_core_switch_with_the_controller_s_port_is_no_rack_switch(self, joined: bool, faster: bool) -> None:
        fabric = with_host_at(three_tiers(joined=joined, faster=faster), "ctl", "c1")
        hosts, racks, middle, core = tiers(fabric)
        assert sorted(racks) == ["t1", "t2", "t3"] and sorted(core) == ["c1", "c2"]
        assert sorted(middle) == ["a1", "a2", "ctl"] and len(hosts) == 6

    def test_a_rack_with_few_hosts_is_a_rack_all_the_same(self) -> None:
        fabric = three_tiers(hosts=(2, 2, 1))
        assert [len(level) for level in tiers(fabric)] == [5, 3, 2, 2]

    def test_a_spine_with_a_host_is_above_its_leaves(self) -> None:
        fabric = with_host_at(shapes.build("leaf_spine", leaves=3, hosts_per_leaf=3), "ctl", "spine2")
        hosts, leaves, spines = tiers(fabric)
        assert sorted(spines) == ["spine1", "spine2"] and len(leaves) == 4 and len(hosts) == 9

    def test_switches_with_unlike_numbers_of_hosts_in_a_ring_are_all_racks(self) -> None:
        fabric = with_host_at(with_host_at(shapes.build("ring"), "h8", "s1"), "h9", "s1")
        assert [len(level) for level in tiers(fabric)] == [5, 3]

    @pytest.mark.parametrize("shape", sorted(shapes.SHAPES))
    def test_every_node_has_a_place_of_its_own_in_the_square(self, shape: str) -> None:
        fabric = shapes.build(shape)
        found = places(fabric)
        assert found.keys() == {*fabric.hosts, *fabric.switches}
        assert len(set(found.values())) == len(found)
        assert all(0 <= x <= 1 and 0 <= y <= 1 for _, x, y in found.values())

    def test_an_empty_fabric_and_one_without_hosts(self) -> None:
        assert places(FabricBuilder().build()) == {}
        assert set(places(FabricBuilder().add_switch("s1").add_switch("s2").build())) == {"s1", "s2"}

    def test_a_part_without_hosts_is_drawn_too(self) -> None:
        fabric = FabricBuilder().add_switch("s1").add_switch("s9").add_host("h1").add_link("s1", "h1", 10).build()
        assert set(places(fabric)) == {"s1", "s9", "h1"}


class TestPicture:
    """What follows from the fabric alone."""

    def test_blocked_links_are_not_of_the_tree(self) -> None:
        shape = Picture(document(RING), 3).shape
        assert shape["version"] == 3
        assert [link["id"] for link in shape["links"] if not link["tree"]] == ["s2-s3"]

    @pytest.mark.parametrize("held", [None, {}, {"fabric": {"switches": []}}, {"fabric": None}])
    def test_no_fabric_is_an_empty_picture(self, held: dict[str, Any] | None) -> None:
        assert Picture(held, 0).shape == {"version": 0, "nodes": [], "links": []}

    def test_members_are_named_as_the_fabric_names_them(self) -> None:
        picture = Picture(document(RING), 1)
        assert picture.host({"name": "x", "addresses": ["10.0.0.2"]}) == "h2"
        assert picture.host({"name": "x", "mac": RING.mac("h3"), "addresses": ["10.0.0.2"]}) == "h3"
        assert picture.host({"name": "elsewhere"}) == "elsewhere"


class TestState:
    """The shape `state`."""

    def test_flows_have_names_waiting_and_weights(self) -> None:
        flows = {(flow["source"], flow["destination"]): flow for flow in state()["flows"]}
        assert flows["h1", "h2"] == {
            "source": "h1",
            "destination": "h2",
            "rate_bps": 50_000_000,
            "backlog_bytes": 1_000,
            "regulated": True,
            "waiting_ms": 2.5,
            "weight": 3.0,
        }
        assert not flows["h1", "stranger"]["regulated"]

    def test_a_member_s_wire_and_what_became_of_its_guests_marks_are_told(self) -> None:
        first, second, _ = state()["members"]
        assert (first["wire"], first["guest_marks"]["refused"]) == (2, 7)
        assert (second["wire"], second["guest_marks"]) == (None, None)

    def test_a_member_has_its_name_in_the_fabric_and_the_one_by_which_it_is_enrolled(self) -> None:
        told = model.member(16, "s1:p4", {"name": "db7", "gate": "tbf"})
        assert (told["name"], told["enrolled"]) == ("s1:p4", "db7")

    def test_refusals_are_told_by_cause_and_only_where_there_are_any(self) -> None:
        refused = state()["members"][0]["refused"]
        assert list(refused.values()) == [3] and all(isinstance(cause, str) for cause in refused)

    def test_links_are_as_switches_counted_them(self) -> None:
        reading = {"source": "s1", "target": "s2", "rate_bps": 100, "load_bps": 53, "dropped": 2}
        status = {**STATUS, "contended": [["s1", "s2"]]}
        links = state(documents={"status": status, "ports": {"links": [reading]}})["links"]
        assert links["s1>s2"] == {"load": 0.53, "bps": 53, "contended": True, "drops": 2}

    def test_where_no_switch_counts_links_carry_what_hosts_report(self) -> None:
        links = state()["links"]
        assert links["h1>s1"]["bps"] == links["s1>s2"]["bps"] == links["s2>h2"]["bps"] == 50_000_000
        assert links["s2>s1"]["bps"] == 0 and "s2>s3" not in links

    def test_without_a_leader_the_remedy_is_told_and_the_operators_word_counts(self) -> None:
        found = state(alive=False, override="free")
        assert not found["coordinator"]["alive"] and found["coordinator"]["override"] == "free"
        assert found["problem"]["remedy"]

    def test_warnings_of_the_fabric_and_of_members_are_handed_on(self) -> None:
        found = state(documents={"status": {**STATUS, "warnings": ["a"]}}, members={16: {**MEMBER, "warnings": ["b"]}})
        assert found["coordinator"]["warnings"] == ["a"] and found["members"][0]["warnings"] == ["b"]
        assert state()["coordinator"]["warnings"] == [] == state()["members"][0]["warnings"]

    def test_how_long_slots_last_in_slices_is_one_unless_the_coordinator_says_more(self) -> None:
        told = state(documents={"status": {**STATUS, "slot_slices": 4, "loop_busy": 0.35}})["coordinator"]
        assert (told["slot_slices"], told["loop_busy"]) == (4, 0.35)
        assert (state()["coordinator"]["slot_slices"], state()["coordinator"]["loop_busy"]) == (1, 0)

    def test_an_empty_store_is_a_state_without_anything(self) -> None:
        found = state(picture=Picture(None, 0), documents={}, members={}, alive=False)
        assert found["links"] == {} and found["flows"] == [] and found["members"] == []
        assert found["coordinator"]["policy"] == "" and found["thresholds"]["sizes"] == []

    def test_sizes_have_upper_bounds_and_all_types_together(self) -> None:
        told = {"version": 4, "thresholds": {"beta": [10], "alpha": [20]}, "sizes": {"1": [[1, 5, 5]], "2": [[1, 2, 2]]}}
        found = model.thresholds(told)
        assert found["beta_bytes"] == [10] and found["sizes"] == [[2, 7]]

    @given(st.integers(0, 40), st.integers(1, 30))
    def test_at_most_so_many_flows_and_those_the_busiest(self, count: int, most: int) -> None:
        flows = [{"rate_bps": rate, "backlog_bytes": 0} for rate in range(count)]
        kept = model.busiest(flows, most)
        assert sorted(flow["rate_bps"] for flow in kept) == list(range(count))[-most:]


class TestLiveness:
    """A coordinator lives while the version of its status grows."""

    def test_a_version_that_grows_lives_whatever_the_clocks_say(self) -> None:
        liveness = Liveness()
        told = [liveness.alive(version, 3_600 * SECOND, now_ns=version * SECOND // 4) for version in range(1, 9)]
        assert told[1:] == [True] * 7

    def test_one_that_stands_still_is_dead_within_a_second(self) -> None:
        liveness = Liveness()
        assert liveness.alive(7, 0, now_ns=0)
        assert liveness.alive(7, 0, now_ns=SILENT_NS - 1)
        assert not liveness.alive(7, 0, now_ns=SILENT_NS)

    def test_one_that_publishes_seldom_may_be_silent_for_three_periods(self) -> None:
        liveness = Liveness()
        for version, now_ns in ((7, 0), (8, 2 * SECOND), (9, 4 * SECOND)):
            assert liveness.alive(version, 0, now_ns=now_ns, period_ns=2 * SECOND)
        assert liveness.alive(9, 2 * SECOND, now_ns=10 * SECOND - 1, period_ns=2 * SECOND)
        assert not liveness.alive(9, 6 * SECOND, now_ns=10 * SECOND, period_ns=2 * SECOND)

    def test_an_old_status_that_nobody_watched_is_dead_at_first_sight(self) -> None:
        liveness = Liveness()
        assert liveness.alive(7, 0, now_ns=0)
        assert not liveness.alive(90, PUBLISHED_NS + 1, now_ns=100 * SECOND)

    def test_no_status_is_no_coordinator(self) -> None:
        assert not Liveness().alive(0, 0, now_ns=0)


class TestLastEventId:
    """What a client says where it was is believed only if it can be."""

    @pytest.mark.parametrize("text", ["", "x", "1,2", "-,", "1-1-1,2-2-2", "$,>", "99999999999999999999-1,", None])
    def test_what_is_no_pair_of_ids_is_neither(self, text: str | None) -> None:
        assert ids(text) == (None, None)

    def test_either_id_or_both_are_read(self) -> None:
        assert ids("12-0,34-5") == ("12-0", "34-5") and ids(",34-5") == (None, "34-5")


@pytest.mark.parametrize(("cost_s", "ticks"), [(0.0, 2), (0.006, 2), (0.0076, 3), (0.01, 4), (0.5, 4)])
def test_a_state_that_takes_long_to_tell_is_told_less_often_but_each_second(cost_s: float, ticks: int) -> None:
    assert state_ticks(cost_s) == ticks


def test_a_message_is_one_line_of_json_whatever_it_holds() -> None:
    made = message("state", {1: "a\nb", "ü": [None, 0.5]}, "3-4")
    head, data = made[:-2].split(b"\ndata: ")
    assert head == b"id: 3-4\nevent: state" and b"\n" not in data and made.endswith(b"\n\n")
    assert json.loads(data) == {"1": "a\nb", "ü": [None, 0.5]}
