"""What links carry, on a real fabric: a partial fabric file with the rest learned, and a host without an agent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from emulation.fabric.fabric import EmulatedFabric
from emulation.stack.running import reach
from emulation.stack.stack import OPENFLOW, Stack
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from tests.emulation.controller.scheduling import bystander
from topology.fabric import Fabric, FabricBuilder

MBIT = 1_000_000
TRUNK_BPS, HOST_BPS = 60 * MBIT, 100 * MBIT
TRUNK = ("s1", "s2")


class PartlyTold(Stack):
    """Baton is told of one link only; of the others it knows what the ports and the agents say."""

    told = "links:\n  - {a: s1, b: s2, rate: 60Mbit}\n"

    def _write_files(self) -> None:
        super()._write_files()
        (self.directory / "fabric.yaml").write_text(self.told)


class NotTold(PartlyTold):
    """Baton believes that the trunk carries what its ports say, 10 Gbit/s; what it drops no switch counts."""

    told = "links:\n  - {a: s1, b: s9, rate: 60Mbit}\n"


def fabric() -> Fabric:
    """Two senders at s1, a receiver at s2, and between the switches a link that is slower than all others."""
    builder = FabricBuilder().add_switch("s1").add_switch("s2").add_link(*TRUNK, TRUNK_BPS)
    for number, switch in enumerate(("s1", "s1", "s2"), 1):
        builder.add_host(f"h{number}", [f"10.0.0.{number}"]).add_link(f"h{number}", switch, HOST_BPS)
    return builder.build()


def by_members(baton: Stack) -> list[int]:
    """The capacities that are known by a member's rate."""
    return [link["capacity_bps"] for link in baton.store.capacities() if link["from"] == "member's rate"]


def test_a_partial_file_gives_a_trunks_rate_members_give_theirs_and_the_rest_is_learned() -> None:
    with EmulatedFabric(fabric(), controller=OPENFLOW) as emulated, PartlyTold(emulated) as baton:
        reach(emulated, baton)
        baton.start_agents()
        baton.wait(lambda: len(by_members(baton)) == 6, "the members' rates")
        assert by_members(baton) == 6 * [HOST_BPS]
        told = {(link["source"], link["target"]): link for link in baton.store.capacities()}
        assert (told[TRUNK]["capacity_bps"], told[TRUNK]["from"]) == (TRUNK_BPS, "fabric file")
        learned = {(link["source"], link["target"]): link["from"] for link in (baton.store.fabric() or {})["links"]}
        assert learned[TRUNK] == "fabric file" and set(learned.values()) == {"fabric file", "port speed"}

        command = [sys.executable, "-m", "cli.main", "status", "--links", "--run-dir", str(baton.directory / "run")]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "60Mbit" in shown and "member's rate" in shown and max(map(len, shown.splitlines())) <= 80

        flows, contended = [Flow("udp", "h1", "h3"), Flow("udp", "h2", "h3")], list[list[str]]()
        outcome = experiment.run(
            emulated, flows, duration_s=3, warmup_s=2, bottlenecks=[TRUNK], host_queues=False,
            events=[(2.5, lambda: contended.extend(baton.status()["contended"]))],
        )  # fmt: skip
    print(outcome.goodput_mbps, outcome.drops, contended)
    assert list(TRUNK) in contended
    assert max(port.drop_fraction for port in outcome.ports.values()) <= 0.005
    assert outcome.goodput_mbps > 0.8 * TRUNK_BPS / 1e6


def test_a_trunk_that_drops_uncounted_is_found_by_the_hosts_losses_and_named() -> None:
    contended: list[list[str]] = []
    with EmulatedFabric(fabric(), controller=OPENFLOW) as emulated, NotTold(emulated) as baton:
        reach(emulated, baton)
        baton.start_agents()
        assert (baton.store.fabric() or {})["not_found"] == [["s1", "s9"]]
        flows = [Flow("tcp", "h1", "h3"), Flow("tcp", "h2", "h3")]
        looks = [(at / 4, lambda: contended.extend(baton.status()["contended"])) for at in range(1, 40)]
        outcome = experiment.run(
            emulated, flows, duration_s=10, warmup_s=0.5, bottlenecks=[TRUNK], host_queues=False, events=looks
        )
        events = [event["text"] for event in baton.store.events(200) if event["kind"] == "link_drops"]
    print(outcome.goodput_mbps, outcome.drops, events)
    assert list(TRUNK) in contended
    assert len([text for text in events if text.startswith("port s1-eth") and "believed to carry 10Gbit" in text]) == 1


@pytest.mark.parametrize("policy", ["timeslice", "rate_limit"])
def test_members_share_what_a_host_without_an_agent_leaves(policy: str) -> None:
    found = bystander.measure(100 * MBIT, 4, policy)
    mbps = {flow["source"]: flow["goodput_mbps"] for flow in found["flows"]}
    print(mbps, found["drop_fraction"], found["link"], found["contended"])
    shares = [mbps[host] for host in bystander.MEMBERS]
    assert found["drop_fraction"] <= 0.005
    assert mbps[bystander.BYSTANDER] > 0.8 * 30 * 0.96
    assert sum(shares) > 0.85 * 70 * 0.96 and min(shares) > 0.8 * max(shares)
    assert 28 * MBIT <= found["link"]["unmanaged_bps"] <= 36 * MBIT and found["contended"]
