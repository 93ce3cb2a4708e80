"""A real coordinator and real agents under traffic: their reports arrive in the store, and the web server shows them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from controller.store.store import Store
from emulation.stack.star import RECEIVER, SENDERS, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from tests.emulation.patience import timed
from webui.app import create_app
from webui.settings import WebSettings

pytestmark = pytest.mark.usefixtures("in_a_box")


@timed
def test_slots_latency_clocks_and_bytes_of_real_traffic_are_shown(tmp_path: Path) -> None:
    with star(coordinator={"mode": "always", "slice": "5ms"}, agent_settings={"mice_bytes": "16KB"}) as (emulated, baton):
        store = Store(baton.store.url)
        client = create_app(store, settings=WebSettings(users=tmp_path / "users.json")).test_client()
        flows = [Flow("tcp", sender, RECEIVER) for sender in SENDERS[:2]]
        experiment.run(emulated, flows, duration_s=2, warmup_s=0.5, host_queues=False)
        state = client.get("/api/state").get_json()
        schedule = client.get("/v1.0/schedule?seconds=20").get_json()
        time.sleep(0.6)  # until the last summary is in the store
        metrics = client.get("/metrics").text
        topology = client.get("/v1.0/topology/switches").get_json()
    assert state["coordinator"]["alive"] and state["coordinator"]["slots"] > 100
    members = {member["name"]: member for member in state["members"]}
    assert all(members[sender]["uncertainty_us"] > 0 for sender in SENDERS[:2])
    nodes = {member["node"] for name, member in members.items() if name in SENDERS[:2]}
    slots = [slot for slot in schedule["slots"] if slot["kind"] == "slot"]
    assert {slot["node"] for slot in slots} >= nodes and len(slots) > 100
    assert all(0 < slot["end_us"] - slot["start_us"] < 10_000 for slot in slots)
    counted = {line.split()[0]: float(line.split()[1]) for line in metrics.splitlines() if not line.startswith("#")}
    assert counted["baton_directive_latency_seconds_count"] > 100
    assert counted['baton_directive_latency_seconds_bucket{le="0.05"}'] > 0.9 * counted["baton_directive_latency_seconds_count"]
    assert counted["baton_regulated_bytes_total"] > 1_000_000
    ports = topology[0]["ports"]
    assert len(ports) > 3 and all(port["hw_addr"] != "00:00:00:00:00:00" for port in ports)
