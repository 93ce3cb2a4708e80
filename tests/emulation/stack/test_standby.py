"""Two controllers at one store, on a real fabric with real traffic: the leader's machine dies, or stops and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.coordination import failover, fencing
from bench.coordination.two_controllers import dedicated_store
from controller.election.lease import LeaseStore
from controller.store.store import Store, StoreUnavailable
from emulation.fabric.fabric import EmulatedFabric
from emulation.stack.running import reach
from emulation.stack.sentinels import Sentinels
from emulation.stack.stack import OPENFLOW, Stack
from emulation.stack.standby import LISTEN, Standby, signal_all
from protocol.units import SECOND_NS
from tests import needs
from topology import shapes

pytestmark = needs.REDIS
LEASE_NS = 1_000_000_000


class TestTwoControllers:
    """Shortened runs of the benchmarks, with bounds that hold on a busy machine."""

    pytestmark = pytest.mark.usefixtures("in_a_box")

    def test_a_standby_takes_over_and_no_connection_is_lost(self) -> None:
        found = failover.run(duration_s=9)
        print(found)
        assert found["standby_leads"] and found["switch_obeys_after_ms"] is not None
        assert found["leader_epochs"][1] > found["leader_epochs"][0]
        assert found["accepted_from_two_at_once"] == 0
        assert all(gap > 0 for gap in found["between_last_and_first_directive_ms"])
        assert found["coordinated_again_after_ms"] is not None and found["coordinated_again_after_ms"] < 3_000
        assert found["tcp_flows"] == 3 and found["tcp_flows_lost"] == 0 and found["agents_restarted"] == 0

    def test_a_leader_that_wakes_up_late_grants_nothing(self) -> None:
        found = fencing.run(duration_s=6)
        print(found)
        assert found["epochs"][1] > found["epochs"][0]
        assert "stood down" in found["stood_down"] and found["sent_by_the_woken_leader"] == 0
        assert found["forged_grants"] == found["forged_grants_refused"] > 0
        assert found["refusals_counted_by_agents"] > 0 and found["accepted_from_two_at_once"] == 0


@pytest.mark.usefixtures("in_a_box")
def test_a_leader_that_stood_still_leads_on_in_its_epoch_where_nobody_led_meanwhile() -> None:
    with (
        EmulatedFabric(shapes.star(3), controller=OPENFLOW) as emulated,
        Stack(emulated) as baton,
    ):
        reach(emulated, baton)
        baton.start_agents()
        baton.wait(lambda: baton.status().get("members") == 3, "every host to be a member")
        before = baton.status()
        os.kill(before["pid"], signal.SIGSTOP)
        time.sleep(2.0)  # twice the lease of a private store
        os.kill(before["pid"], signal.SIGCONT)
        baton.wait(lambda: baton.status()["time_ns"] > before["time_ns"] + SECOND_NS, "it to go on")
        baton.wait(lambda: baton.status().get("members") == 3, "every host to be a member still, or again")
        after, log = baton.status(), (baton.directory / "run" / "coordinator.log").read_text()
        assert (after["epoch"], after["pid"]) == (before["epoch"], before["pid"])
        assert "nobody led meanwhile: leading on after" in log and "stood down" not in log
        reach(emulated, baton)


@pytest.mark.usefixtures("in_a_box")
@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_of_several_switches_the_standby_commands_every_one_and_a_lost_link_is_no_matter(framework: str) -> None:
    with (
        dedicated_store() as redis,
        EmulatedFabric(shapes.ring(3), controller=OPENFLOW) as emulated,
        Stack(emulated, framework=framework, store=redis.url) as baton,
        Standby(baton) as standby,
    ):
        reach(emulated, baton)
        baton.start_agents()
        before = baton.status()
        signal_all(baton.directory / "run", signal.SIGKILL)
        baton.wait(standby.leads, "the standby to lead")
        baton.wait(lambda: baton.status().get("epoch", 0) > before["epoch"], "its coordinator to speak")
        baton.wait(lambda: baton.status().get("members") == 3, "every host to be its member")
        baton.wait(lambda: masters(emulated) == 3, "every switch to obey it")
        reach(emulated, baton)
        emulated.set_link("s1", "s2", up=False)
        reach(emulated, baton)


def masters(emulated: EmulatedFabric) -> int:
    """How many switches have the standby as their master, by their own state."""
    target = "tcp:{}:{}".format(*LISTEN)
    emulated.ovs.refresh()
    return emulated.ovs.vsctl("--columns=role", "find", "Controller", f'target="{target}"').count("master")


class TestStandbyCommand:
    """What `baton up --standby` prints if it cannot stand by."""

    def test_a_private_store_can_not_be_shared(self, tmp_path: Path) -> None:
        config = tmp_path / "baton.yaml"
        config.write_text(f"run_dir: {tmp_path}/run\n")
        command = [sys.executable, "-m", "cli.main", "up", "--standby", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "store:" in done.stderr and "set store" in done.stderr
        assert not (tmp_path / "run").exists()


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Sentinels]:
    with Sentinels(tmp_path) as running:
        yield running


class TestSentinels:
    """Three real servers and three real Sentinels."""

    pytestmark = pytest.mark.usefixtures("in_a_box")

    def test_a_killed_master_is_survived_and_a_client_of_a_demoted_one_recovers(self, sentinels: Sentinels) -> None:
        store, lease = Store(sentinels.url), LeaseStore(sentinels.url, "one", LEASE_NS)
        epoch = lease.acquire("a", 0).epoch
        store.set_override("free")
        first = sentinels.master()
        assert first is not None
        sentinels.kill(first)
        until(lambda: writes(store))
        assert sentinels.master() != first
        assert store.override() == "free"
        assert lease.acquire("b", 0).epoch > epoch or lease.renew("a", epoch).held
        sentinels.start(first)
        sentinels.wait(lambda: sentinels.follows(first), "the first server to follow")
        writes(store)
        sentinels.hand_over(first)  # the client keeps its connection, to what is a replica now
        until(lambda: writes(store))
        assert sentinels.client(first).xrevrange("baton:events", count=1)[0][1]["text"] == "written"


def writes(store: Store) -> bool:
    try:
        store.publish_event("test", "debug", "written")
    except StoreUnavailable:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)
