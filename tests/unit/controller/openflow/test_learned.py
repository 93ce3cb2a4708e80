"""The learned network as it is published for the coordinator: names, hosts, capacities, tree and load."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto.ofproto_v1_3_parser import OFPPortStats

from controller.openflow import codec
from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.learned import DEFAULT_RATE_BPS, FabricLearner
from controller.openflow.metering import UNREAD_MAX, Counters, DropRule, Load, PortMeter, RefusalMeter
from controller.openflow.publication.publisher import Publisher
from controller.openflow.tables.flowtable import Cause
from controller.openflow.view import Link, Port, Switch, View
from controller.store.parts import difference
from controller.store.store import StoreUnavailable
from tests.unit.protocol.protocol_strategies import PROPERTY
from topology.fabric import Fabric, FabricBuilder
from topology.problems import FabricError

GIGABIT = 1_000_000_000
A, B, C = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"
SECOND = 1_000_000_000


def switch(dpid: int, rate_bps: int = GIGABIT, ports: int = 4) -> Switch:
    name = f"s{dpid}"
    return Switch(dpid, name, {n: Port(n, f"{name}-eth{n}", True, rate_bps) for n in range(1, ports + 1)})


def view(links: list[Link], *hosts: Host, rate_bps: int = GIGABIT) -> View:
    used = {end for link in links for end in link}
    switches = {dpid: switch(dpid, rate_bps) for dpid in (1, 2, 3)}
    edges = {PortRef(dpid, n) for dpid, each in switches.items() for n in each.ports} - used
    return View(switches, tuple(links), frozenset(edges), {host.mac: host for host in hosts})


TRIANGLE = [
    Link(PortRef(1, 1), PortRef(2, 1)),
    Link(PortRef(1, 2), PortRef(3, 2)),
    Link(PortRef(2, 3), PortRef(3, 3)),
]


class TestFabric:
    """The published fabric."""

    def test_a_ring_is_published_with_its_blocked_link_and_can_be_read_back(self) -> None:
        learner = FabricLearner()
        document = learner.document(view(TRIANGLE))
        assert learner.active(view(TRIANGLE)) == frozenset(TRIANGLE[:2])
        assert document["blocked"] == [["s2", "s3"]]
        fabric = Fabric.from_dict(document["fabric"])
        assert fabric.switches == ("s1", "s2", "s3")
        assert fabric.port(("s1", "s2")) == "s1-eth1"

    def test_switches_that_are_not_joined_are_each_a_tree(self) -> None:
        assert FabricLearner().active(view(TRIANGLE[:1])) == frozenset(TRIANGLE[:1])

    def test_of_parallel_links_only_one_forwards(self) -> None:
        parallel = [Link(PortRef(1, 1), PortRef(2, 1)), Link(PortRef(1, 2), PortRef(2, 2))]
        assert FabricLearner().active(view(parallel)) == {parallel[0]}

    @pytest.mark.parametrize(
        ("first", "second", "rate_bps"),
        [((0, 1), (0, 10), 10), ((10, 1), (5, 5), 5), ((2, 0), (0, 0), 2), ((0, 0), (0, 0), 1), ((5, 0), (0, 9), 9)],
    )
    def test_of_parallel_links_the_fastest_forwards_and_a_port_without_a_speed_counts_as_its_peer(
        self, first: tuple[int, int], second: tuple[int, int], rate_bps: int
    ) -> None:
        speeds = zip(first, second, strict=True)
        switches = {
            dpid: Switch(dpid, f"s{dpid}", {n: Port(n, f"p{n}", True, told * GIGABIT) for n, told in enumerate(each, 1)})
            for dpid, each in enumerate(speeds, 1)
        }
        parallel = [Link(PortRef(1, 1), PortRef(2, 1)), Link(PortRef(1, 2), PortRef(2, 2))]
        seen = View(switches, tuple(parallel), frozenset(), {})
        fastest = parallel[1] if rate_bps == max(second) else parallel[0]
        assert FabricLearner().active(seen) == {fastest}
        (row, _) = FabricLearner().document(seen)["links"]
        assert row["capacity_bps"] == rate_bps * GIGABIT

    def test_all_that_is_behind_a_port_is_one_host_named_after_its_agent(self) -> None:
        at = PortRef(1, 4)
        vm, agent = Host(A, at, ("10.0.0.1",)), Host(B, at, ("10.0.0.2",), speaks_control=True)
        document = FabricLearner().document(view(TRIANGLE, vm, agent))
        fabric = Fabric.from_dict(document["fabric"])
        assert fabric.hosts == ("s1:s1-eth4",)
        assert fabric.mac("s1:s1-eth4") == B
        assert list(map(str, fabric.addresses("s1:s1-eth4"))) == ["10.0.0.1", "10.0.0.2"]
        assert document["hosts"][0]["macs"] == [A, B]

    def test_capacity_is_the_slower_ends_speed_or_a_default(self) -> None:
        fabric = Fabric.from_dict(FabricLearner().document(view(TRIANGLE, rate_bps=0))["fabric"])
        assert fabric.capacity_bps(("s1", "s2")) == DEFAULT_RATE_BPS

    @pytest.mark.parametrize(
        ("port", "mac", "addresses"),
        [("s1-eth4", None, ()), (None, A, ()), (None, None, ("10.0.0.1",))],
        ids=["port", "mac", "address"],
    )
    def test_a_host_that_is_written_down_keeps_its_name_and_capacity(
        self, port: str | None, mac: str | None, addresses: tuple[str, ...]
    ) -> None:
        known = FabricBuilder().add_switch("s1").add_host("web", addresses, mac)
        known.add_link("s1", "web", 7_000, a_port=port, reverse_rate_bps=8_000)
        document = (
            FabricLearner(known.build()).document(view(TRIANGLE, Host(A, PortRef(1, 4), ("10.0.0.1",))))
        )
        fabric = Fabric.from_dict(document["fabric"])
        assert fabric.hosts == ("web",)
        assert fabric.capacity_bps(("s1", "web")) == 7_000
        assert fabric.capacity_bps(("web", "s1")) == 8_000

    def test_of_port_speed_and_file_the_least_counts_and_its_source_is_told(self) -> None:
        known = FabricBuilder()
        for name in ("s1", "s2", "s3", "s9"):
            known.add_switch(name)
        known.add_link("s1", "s2", 7_000, reverse_rate_bps=5 * GIGABIT).add_link("s1", "s9", 7_000)
        document = FabricLearner(known.build()).document(view(TRIANGLE))
        rows = {(row["source"], row["target"]): (row["capacity_bps"], row["from"]) for row in document["links"]}
        assert rows["s1", "s2"] == (7_000, "fabric file")
        assert rows["s2", "s1"] == rows["s1", "s3"] == (GIGABIT, "port speed")
        assert document["not_found"] == [["s1", "s9"]]

    def test_a_file_counts_where_the_switch_does_not_tell_the_speed(self) -> None:
        known = FabricBuilder().add_switch("s1").add_switch("s2").add_link("s1", "s2", 10 * GIGABIT).build()
        document = FabricLearner(known).document(view(TRIANGLE, rate_bps=0))
        rows = {(row["source"], row["target"]): (row["capacity_bps"], row["from"]) for row in document["links"]}
        assert rows["s1", "s2"] == (10 * GIGABIT, "fabric file")
        assert rows["s1", "s3"] == (DEFAULT_RATE_BPS, "assumed")

    def test_a_machine_seen_at_two_ports_has_each_load_under_the_name_that_its_port_has_in_the_fabric(self) -> None:
        known = FabricBuilder().add_switch("s1").add_host("web", ["10.0.0.1", "10.0.0.2"]).add_link("s1", "web", 7_000)
        first, second = PortRef(1, 3), PortRef(1, 4)
        seen = view([], Host(A, first, ("10.0.0.1",)), Host(B, second, ("10.0.0.2",)))
        learner = FabricLearner(known.build())
        assert [row["name"] for row in learner.document(seen)["hosts"]] == ["s1:s1-eth4", "web"]
        loads = {at: Load(0, at.number, 0, 0, 0, 0, SECOND) for at in (first, second)}
        links = learner.ports_document(seen, loads, {})["links"]
        down = {row["target"]: (row["load_bps"], row["rate_bps"]) for row in links if row["source"] == "s1"}
        assert down == {"web": (3, 7_000), "s1:s1-eth4": (4, GIGABIT)}

    def test_no_two_hosts_have_one_name(self) -> None:
        named = {1: "a:b", 2: "a", 3: "a:b:d"}
        ports = {1: {1: Port(1, "c", True)}, 2: {1: Port(1, "b:c", True), 2: Port(2, "b:d", True)}, 3: {}}
        switches = {dpid: Switch(dpid, name, ports[dpid]) for dpid, name in named.items()}
        hosts = {mac: Host(mac, at) for mac, at in ((A, PortRef(1, 1)), (B, PortRef(2, 1)), (C, PortRef(2, 2)))}
        rows = FabricLearner().document(View(switches, (), frozenset(), hosts))["hosts"]
        assert [row["name"] for row in rows] == ["a:b:c", "a:b:c#", "a:b:d#"]

    def test_load_is_given_for_each_direction_of_each_link(self) -> None:
        seen = view(TRIANGLE, Host(A, PortRef(1, 4), ()))
        loads = {
            PortRef(1, 1): Load(1, 2, 3, 4, 5, 6, SECOND),
            PortRef(1, 4): Load(10, 20, 30, 40, 50, 60, SECOND),
            PortRef(9, 9): Load(0, 0, 0, 0, 0, 0, SECOND),
        }
        document = FabricLearner().ports_document(seen, loads, {"forged_coordinator": 3})
        assert document["ports"]["s1:s1-eth4"]["tx_dropped"] == 50
        assert document["refused"] == {"forged_coordinator": 3}
        host = "s1:s1-eth4"
        assert document["links"] == [
            {"source": "s1", "target": "s2", "rate_bps": GIGABIT, "load_bps": 2, "dropped": 5},
            {"source": "s1", "target": host, "rate_bps": GIGABIT, "load_bps": 20, "dropped": 50},
            {"source": host, "target": "s1", "rate_bps": GIGABIT, "load_bps": 10, "dropped": 0},
        ]


class TestMeters:
    """Counters become rates and growth."""

    def test_load_is_bits_by_the_switchs_own_clock(self) -> None:
        meter = PortMeter()
        meter.read(1, [Counters(1, 0, 0, 0, 0, 2, 0)])
        meter.read(1, [Counters(1, 10, 1000, 20, 2000, 5, SECOND // 2)])
        load = meter.loads()[PortRef(1, 1)]
        assert (load.rx_bps, load.tx_bps) == (16_000, 32_000)
        assert (load.tx_dropped, load.tx_dropped_total) == (3, 5)

    def test_one_reading_or_counters_that_started_again_are_no_load(self) -> None:
        meter = PortMeter()
        meter.read(1, [Counters(1, 0, 0, 9, 900, 0, SECOND)])
        assert not meter.loads()
        meter.read(1, [Counters(1, 0, 0, 1, 100, 0, 2 * SECOND)])
        assert not meter.loads()

    def test_a_switch_that_left_has_no_load(self) -> None:
        meter = PortMeter()
        for at_ns in (1, 2):
            meter.read(1, [Counters(1, 0, 0, 0, 0, 0, at_ns)])
        meter.forget(1)
        assert not meter.loads()

    def test_the_load_of_a_switch_that_answers_no_more_is_told_for_a_while_only(self) -> None:
        meter = PortMeter()
        later = itertools.count(1)
        for at_ns in (1, 2):
            for dpid in (1, 2):
                meter.read(dpid, [Counters(1, 0, 0, 0, 0, 0, at_ns)])
        for _ in range(UNREAD_MAX):
            assert meter.loads().keys() == {PortRef(1, 1), PortRef(2, 1)}
            meter.read(2, [Counters(1, 0, 0, 0, 0, 0, 2 + next(later))])
        assert meter.loads().keys() == {PortRef(2, 1)}
        meter.read(1, [Counters(1, 0, 0, 0, 0, 0, 9)])
        assert meter.loads().keys() == {PortRef(1, 1), PortRef(2, 1)}

    @pytest.mark.parametrize("lost", ["rx_bytes", "tx_bytes"])
    def test_no_load_is_negative(self, lost: str) -> None:
        meter = PortMeter()
        meter.read(1, [Counters(1, 9, 9, 9, 9, 9, 1)])
        meter.read(1, [Counters(1, 9, 9, 9, 9, 9, 2)._replace(**{lost: 0})])
        assert not meter.loads()

    def test_a_drop_counter_that_starts_again_counts_from_there(self) -> None:
        meter = PortMeter()
        meter.read(1, [Counters(1, 0, 0, 0, 0, 7, 1)])
        meter.read(1, [Counters(1, 0, 0, 0, 0, 2, 2)])
        assert meter.loads()[PortRef(1, 1)].tx_dropped == 2

    def test_what_a_switch_does_not_count_is_no_drop(self) -> None:
        reply = struct.pack("!I4x12QII", 3, 1, 2, 100, 200, *[2**64 - 1] * 8, 5, 6)
        (read,) = codec.counters(SimpleNamespace(body=[OFPPortStats.parser(reply, 0)]))
        assert read == Counters(3, 1, 100, 2, 200, 0, 5 * SECOND + 6)

    def test_a_switch_that_counts_whole_seconds_has_the_load_of_a_second(self) -> None:
        meter, read = PortMeter(), []
        for quarter in range(13):
            carried = quarter * 250_000
            meter.read(1, [Counters(1, 0, 0, 0, carried, 0, quarter // 4 * SECOND)])
            read.append(load.tx_bps if (load := meter.loads().get(PortRef(1, 1))) else 0)
        assert read == [0] * 4 + [8_000_000] * 9

    def test_a_port_that_is_gone_is_forgotten(self) -> None:
        meter = PortMeter()
        for at_ns in (1, 2):
            meter.read(1, [Counters(number, 0, 0, 0, 0, 0, at_ns) for number in (1, 2)])
        meter.read(1, [Counters(2, 0, 0, 0, 0, 0, 3)])
        meter.forget_port(PortRef(1, 1))
        assert meter.loads().keys() == meter._last.keys() == {PortRef(1, 2)}

    def test_refusals_add_up_over_switches_and_over_counters_that_started_again(self) -> None:
        meter = RefusalMeter()
        cause, rule = Cause.FORGED_COORDINATOR, DropRule(Cause.FORGED_COORDINATOR)
        assert meter.read(1, {rule: 3}) == {cause: 3}
        assert meter.read(1, {rule: 5}) == {cause: 2}
        assert meter.read(1, {rule: 5}) == {}
        assert meter.read(1, {rule: 1}) == {cause: 1}
        assert meter.read(2, {rule: 4}) == {cause: 4}
        assert meter.totals[cause] == 10


class FlakyStore:
    """A store that can be away."""

    def __init__(self) -> None:
        self.away = False
        self.told: list[object] = []

    def _tell(self, what: object) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.told.append(what)

    owes = False

    def publish_parts(self, name: str, parts: Mapping[str, object]) -> None:
        self._tell((name, parts))

    def settle(self) -> None:
        pass

    def publish_event(self, kind: str, severity: str, text: str, **fields: object) -> None:
        self._tell(("event", kind))

    def status(self) -> dict[str, object]:
        self._tell("asked")
        return {"mac": "02:00:00:00:00:0C"}


class TestPublisher:
    """The store gets the latest documents, once, also after it was away."""

    def test_a_fabric_is_told_once_and_its_version_grows_with_each_change(self) -> None:
        store = FlakyStore()
        publisher = Publisher(store)
        for links in ("a", "a", "b"):
            publisher.fabric({"links": links})
            publisher.flush()
        assert store.told == [
            ("fabric", {"links": "a", "version": 1}),
            ("fabric", {"links": "b", "version": 2}),
        ]

    def test_what_happened_while_the_store_was_away_is_told_when_it_is_back(self) -> None:
        store = FlakyStore()
        publisher = Publisher(store)
        store.away = True
        publisher.fabric({"links": "a"})
        publisher.event("link_down", "warning", "", {})
        publisher.flush()
        publisher.fabric({"links": "b"})
        store.away = False
        publisher.flush()
        assert store.told == [("fabric", {"links": "b", "version": 2}), ("event", "link_down")]

    def test_the_coordinators_address_is_asked_once_a_second(self) -> None:
        publisher = Publisher(FlakyStore())
        assert publisher.coordinator_mac(0) == "02:00:00:00:00:0c"
        assert publisher.coordinator_mac(SECOND - 1) is None
        assert publisher.coordinator_mac(SECOND) == "02:00:00:00:00:0c"

    def test_without_a_store_nothing_is_kept(self) -> None:
        publisher = Publisher(None)
        publisher.event("link_down", "warning", "", {})
        publisher.flush()
        assert publisher.coordinator_mac(0) is None


class TestChanges:
    """What is kept of one view makes nothing else of the next."""

    @given(st.lists(st.dictionaries(st.sampled_from([A, B, C]), st.tuples(st.integers(3, 4), st.booleans(), st.booleans()))))
    @PROPERTY
    def test_after_any_changes_the_document_is_that_of_the_last_view(
        self, states: list[dict[str, tuple[int, bool, bool]]]
    ) -> None:
        learner = FabricLearner()
        for state in states:
            hosts = [Host(mac, PortRef(1, port), (f"10.0.{at}.1", f"10.0.{at}.2")[: 1 + more], speaks_control=control)
                     for at, (mac, (port, more, control)) in enumerate(state.items())]  # fmt: skip
            seen = view(TRIANGLE, *hosts)
            made = learner.parts(seen)
            assert made == FabricLearner().parts(seen)
            assert len(Fabric.from_dict(learner.document(seen)["fabric"]).hosts) == len({host.at for host in hosts})

    def test_a_host_that_stays_is_the_same_objects(self) -> None:
        learner = FabricLearner()
        first = learner.parts(view(TRIANGLE, Host(A, PortRef(1, 4), ("10.0.0.1",))))
        second = learner.parts(view(TRIANGLE, Host(A, PortRef(1, 4), ("10.0.0.1",)), Host(B, PortRef(1, 3), ("10.0.0.2",))))
        assert second["fabric.hosts s1:s1-eth4"] is first["fabric.hosts s1:s1-eth4"]
        assert len(difference(first, second).put) == 5

    def test_two_ports_with_one_address_are_no_fabric(self) -> None:
        hosts = Host(A, PortRef(1, 4), ("10.0.0.1",)), Host(B, PortRef(1, 3), ("10.0.0.1",))
        with pytest.raises(FabricError, match="belongs to"):
            FabricLearner().parts(view(TRIANGLE, *hosts))

    def test_what_lldp_adds_to_an_idle_port_is_no_change_and_silence_and_drops_are(self) -> None:
        learner, seen, at = FabricLearner(), view(TRIANGLE), PortRef(1, 1)

        def told(tx_bps: int, dropped: int = 0) -> int:
            load = Load(0, tx_bps, 0, 1, dropped, dropped, SECOND + tx_bps)
            parts = learner.port_parts(seen, {at: load, PortRef(9, 1): load}, {})
            assert "ports s1:s1-eth1" in parts and len(parts) == 5
            return int(parts["links s1 s2"]["load_bps"])

        assert told(900) == 900
        assert told(1_100) == 900 and told(50_900) == 900
        assert told(51_000) == 51_000
        # The port says 1 Gbit/s; its link may carry 10 Mbit/s, of which a tenth matters.
        assert told(2_000_000) == 2_000_000 and told(2_900_000) == 2_900_000
        assert told(0) == 0 and told(500) == 500
        assert told(600, dropped=1) == 600 and told(700) == 700 and told(800) == 700
