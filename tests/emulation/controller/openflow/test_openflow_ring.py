"""The OpenFlow application on a ring of four real Open vSwitches, under Ryu and under os-ken."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator

import pytest

from controller.openflow.discovery import LINK_SILENCE_NS
from controller.openflow.intake.takeover import TAKEOVER_NS
from controller.openflow.switches import FOREIGN_NS
from controller.openflow.tables.forwarding import HEARTBEAT_MAC
from controller.store.store import Store
from controller.switch_queues.control_room import CONTROL_QUEUE
from tests.emulation.controller.openflow.openflow_ring import (
    COMMANDS,
    EVERYBODY,
    HOSTS,
    IP,
    MAC,
    PORT,
    SWITCHES,
    TEST_ETHERTYPE,
    Listener,
    Ring,
    Stream,
    connect,
    report,
)
from tests.emulation.ovs_private import CONTROL_ETHERTYPE, PrivateNetwork, missing, until

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def ring(request: pytest.FixtureRequest) -> Iterator[Ring]:
    with PrivateNetwork() as network:
        path = network.directory / "redis.sock"
        network.spawn(
            "redis",
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(path),
            "--save",
            "",
            "--dir",
            str(network.directory),
        )
        store = Store(f"unix://{path}?db=0")
        store.connection.wait(5)
        ring = Ring(network, request.param, store)
        for dpid, name in enumerate(SWITCHES, 1):
            network.add_switch(name, dpid, f"tcp:127.0.0.1:{PORT}")
        for one, other in zip(SWITCHES, SWITCHES[1:] + SWITCHES[:1], strict=True):
            network.add_link(one, f"{one}-{other}", other, f"{other}-{one}")
        for name in EVERYBODY:
            switch = "s2" if name == "c" else f"s{name[1]}"
            network.add_host(name, switch, f"{switch}-{name}", MAC[name], f"{IP[name]}/24")
        ring.start_controller()
        try:
            connect(ring)
            yield ring
        finally:
            if request.session.testsfailed:
                print(network.log("controller")[-6000:])
            store.close()


def flows(ring: Ring, switch: str) -> dict[str, float]:
    """A switch's entries as Open vSwitch prints them, and how old each is, in seconds."""
    lines = ring.network.ovs.ofctl("dump-flows", switch).splitlines()
    told = re.compile(r" cookie=\w+, duration=([\d.]+)s, (table=\d+), n_packets=\d+, n_bytes=\d+, (.*)")
    found = [told.fullmatch(line) for line in lines]
    return {re.sub(r"(idle|hard)_age=\d+, ", "", f"{each[2]} {each[3]}"): float(each[1]) for each in found if each is not None}


@pytest.fixture
def control(ring: Ring) -> Iterator[Listener]:
    listener = Listener(ring, CONTROL_ETHERTYPE)
    yield listener
    listener.close()


class TestLearning:
    """The application finds out what is there, and publishes it."""

    def test_all_links_are_learned_and_one_of_the_ring_is_blocked(self, ring: Ring) -> None:
        assert ring.links() == {("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s1", "s4")}
        assert ring.blocked() == [["s3", "s4"]]

    def test_all_hosts_are_learned_with_address_and_place(self, ring: Ring) -> None:
        hosts = {host["macs"][0]: host for host in ring.fabric()["hosts"]}
        for name in EVERYBODY:
            host = hosts[MAC[name]]
            assert host["addresses"] == [IP[name]]
            assert host["port"] == f"{host['switch']}-{name}"

    def test_port_load_is_published(self, ring: Ring) -> None:
        with Stream(ring, "h1", "h3"):
            time.sleep(0.5)
            until(lambda: ring.store.ports(), 20, "port loads")
            time.sleep(2.5)
            loads = ring.store.ports()
        assert loads is not None
        # 8 + 42 bytes, 2 ms apart or a little more
        assert 50_000 < loads["ports"]["s3:s3-h3"]["tx_bps"] < 400_000
        by_link = {(link["source"], link["target"]): link for link in loads["links"]}
        assert by_link["s1", "s2"]["load_bps"] > 50_000


class TestForwarding:
    """Frames follow the tree, whatever happens to it."""

    def test_a_broadcast_reaches_every_host_exactly_once(self, ring: Ring) -> None:
        listener = Listener(ring, TEST_ETHERTYPE)
        try:
            for source in EVERYBODY:
                copies = listener.send(source, "ff:ff:ff:ff:ff:ff")
                assert copies == {name: 1 for name in EVERYBODY if name != source}
        finally:
            listener.close()

    def test_a_link_of_the_tree_goes_down_and_up_again_under_traffic(self, ring: Ring) -> None:
        with Stream(ring, "h1", "h3") as down:
            time.sleep(0.5)
            ring.network.ip("link", "set", "s1-s2", "down")
            time.sleep(1.5)
        report(ring, "link down", down)
        until(lambda: ring.blocked() == [], 20, "no link is blocked")
        assert ring.ping("h2", "h4")
        with Stream(ring, "h1", "h3") as up:
            time.sleep(0.5)
            ring.network.ip("link", "set", "s1-s2", "up")
            until(ring.settled, 20, "the old tree")
            time.sleep(0.5)
        report(ring, "link up", up)
        assert down.outage_s() < 2
        assert up.outage_s() < 2
        assert down.duplicates() == up.duplicates() == 0

    def test_a_link_that_comes_up_joins_the_tree_soon(self, ring: Ring) -> None:
        ring.network.ip("link", "set", "s1-s2", "down")
        until(lambda: len(ring.links()) == 3, 20, "three links")
        began = time.monotonic()
        ring.network.ip("link", "set", "s1-s2", "up")
        until(ring.settled, 5, "the old tree again")
        print(
            f"\n{ring.framework}: link up to new tree published: {(time.monotonic() - began) * 1000:.0f} ms"
        )

    def test_flows_that_another_removes_are_put_again(self, ring: Ring) -> None:
        before = ring.network.ovs.ofctl("dump-flows", "s3", "--no-stats")
        ring.network.ovs.ofctl("del-flows", "s3")
        until(lambda: ring.ping("h1", "h3", 0.3), 20, "traffic through s3 again")
        count = before.count("table=")
        until(
            lambda: ring.network.ovs.ofctl("dump-flows", "s3", "--no-stats").count("table=") >= count,
            20,
            "all flows",
        )

    def test_the_controller_dies_and_starts_again_and_traffic_goes_on(self, ring: Ring) -> None:
        with Stream(ring, "h1", "h3") as stream:
            time.sleep(0.3)
            assert ring.controller is not None
            ring.controller.send_signal(signal.SIGKILL)
            ring.controller.wait()
            time.sleep(0.5)
            published = ring.store.version("fabric")
            ring.start_controller()
            until(lambda: ring.store.version("fabric") > published and ring.pinged(), 40, "learned again")
            time.sleep(0.5)
        report(ring, "controller killed and started", stream)
        assert stream.outage_s() < 1.2
        assert stream.duplicates() == 0

    def test_a_restart_puts_no_flow_again_and_loses_no_frame_and_knows_the_hosts_by_the_switches(self, ring: Ring) -> None:
        """Nobody announces itself here. A flow that is put again is younger than the restart."""
        until(ring.pinged, 40, "everything learned")
        time.sleep(FOREIGN_NS / 1e9 + 0.5)
        assert ring.controller is not None
        before = {name: flows(ring, name) for name in SWITCHES}
        with Stream(ring, "h1", "h3") as stream:
            time.sleep(0.3)
            ring.controller.send_signal(signal.SIGKILL)
            ring.controller.wait()
            died_s, published = time.monotonic(), ring.store.version("fabric")
            ring.start_controller()
            until(lambda: ring.store.version("fabric") > published and ring.settled(), TAKEOVER_NS / 1e9 + 20, "taken over")
            print(f"\n{ring.framework}: fabric published {time.monotonic() - died_s:.2f} s after the application died")
            time.sleep(FOREIGN_NS / 1e9 + 0.5)
            since_s = time.monotonic() - died_s
            after = {name: flows(ring, name) for name in SWITCHES}
        report(ring, "restart", stream)
        assert {name: set(each) for name, each in after.items()} == {name: set(each) for name, each in before.items()}
        assert not [flow for each in after.values() for flow, age_s in each.items() if age_s < since_s]
        assert stream.sent - len(stream.arrivals) <= 1 and stream.duplicates() == 0, "one may be on its way"
        hosts = {host["macs"][0]: host for host in ring.fabric()["hosts"]}
        assert all(hosts[MAC[name]]["addresses"] == [IP[name]] for name in EVERYBODY)
        ring.network.ip("link", "set", "s1-s2", "down")
        until(lambda: ring.ping("h1", "h2", 0.3), 20, "the new application serves the switches")
        ring.network.ip("link", "set", "s1-s2", "up")
        until(ring.settled, 20, "the old tree")

    def test_a_controller_that_had_no_processor_for_a_while_closes_no_link(self, ring: Ring) -> None:
        """All its LLDP is due at once then, which the loops of the frameworks do not survive, and nothing else is sent."""
        assert ring.controller is not None
        begun_ms = time.time() * 1000
        for _ in range(3):
            ring.controller.send_signal(signal.SIGSTOP)
            time.sleep(1.1)
            ring.controller.send_signal(signal.SIGCONT)
            time.sleep(0.3)
        time.sleep(LINK_SILENCE_NS / 1e9 + 0.5)
        events = [event for event in ring.store.events() if event["at_ms"] > begun_ms]
        assert not [event["text"] for event in events if event["kind"] == "link_silent"]
        assert ring.settled()


class TestControlEtherType:
    """Real frames of the control EtherType pass only between host ports and the coordinator's."""

    def test_they_leave_by_their_queue_where_every_port_has_it(self, ring: Ring, control: Listener) -> None:
        vsctl, flows = ring.network.ovs.vsctl, lambda: ring.network.ovs.ofctl("dump-flows", "s3", "--no-stats")
        ports = vsctl("list-ports", "s3").split()
        queue = ("--id=@q", "create", "Queue", "other-config:priority=0", "--", "--id=@s", "create", "QoS", "type=linux-htb")
        try:
            for port in ports:
                assert "set_queue" not in flows(), "not every port has it yet"
                vsctl(*queue, f"queues:{CONTROL_QUEUE}=@q", "--", "set", "Port", port, "qos=@s")
            until(lambda: f"set_queue:{CONTROL_QUEUE}" in flows(), 20, "control frames to be sent by their queue")
            assert control.send("h3", MAC["c"]) == {"c": 1} and control.send("c", MAC["h3"]) == {"h3": 1}
        finally:
            for port in ports:
                vsctl("clear", "Port", port, "qos")
        until(lambda: "set_queue" not in flows(), 20, "no queue, since there is none")

    def test_a_host_reaches_the_coordinator(self, control: Listener) -> None:
        for host in HOSTS:
            assert control.send(host, MAC["c"]) == {"c": 1}

    def test_the_coordinator_reaches_a_host(self, control: Listener) -> None:
        for host in HOSTS:
            assert control.send("c", MAC[host]) == {host: 1}

    def test_a_heartbeat_reaches_every_host_exactly_once(self, control: Listener) -> None:
        assert control.send("c", HEARTBEAT_MAC) == dict.fromkeys(HOSTS, 1)

    def test_no_host_reaches_another_host(self, control: Listener) -> None:
        for target in (MAC["h2"], MAC["h3"], HEARTBEAT_MAC, "ff:ff:ff:ff:ff:ff"):
            assert control.send("h1", target) == {}

    def test_a_forged_coordinator_is_dropped_and_counted(self, ring: Ring, control: Listener) -> None:
        def forged() -> int:
            return (ring.store.ports() or {"refused": {}})["refused"].get("forged_coordinator", 0)

        until(lambda: ring.store.ports(), 20, "port documents")
        time.sleep(2.2)
        before = forged()
        for target in (MAC["h3"], HEARTBEAT_MAC, "ff:ff:ff:ff:ff:ff"):
            assert control.send("h1", target, pretend=MAC["c"]) == {}
        until(lambda: forged() >= before + 3, 20, "three more forged frames counted")
        assert forged() == before + 3
        told = [event["text"] for event in ring.store.events() if event["kind"] == "forged_coordinator"]
        assert any("frames with the coordinator's address that came in by another port than its own" in text for text in told)

    def test_another_address_at_the_coordinators_port_reaches_nobody(self, control: Listener) -> None:
        assert control.send("c", MAC["h1"], pretend="02:00:00:00:99:99") == {}


class TestSwitch:
    """A whole switch goes. Last: the ring is broken after this."""

    def test_a_switch_dies_and_traffic_goes_round(self, ring: Ring) -> None:
        assert ring.blocked() == [["s3", "s4"]]
        with Stream(ring, "h1", "h3") as stream:
            time.sleep(0.5)
            ring.network.ovs.vsctl("del-br", "s2")
            time.sleep(2)
        report(ring, "switch gone", stream)
        assert stream.outage_s() < 2
        until(lambda: ring.blocked() == [], 20, "no link is blocked")
