"""A small swarm against the real coordinator; `baton bench swarm` is the large one. Orderings, not figures."""

from __future__ import annotations

from bench.swarm import real_agent
from bench.swarm.swarm import Options, run

HOSTS, SECONDS = 48, 4.0


def test_a_coordinated_swarm_loses_less_than_an_uncoordinated_one_and_all_become_members() -> None:
    plain = Options(hosts=HOSTS, shape="racks", seconds=SECONDS, change_tree=True)
    alone = run(Options(hosts=HOSTS, shape="racks", seconds=SECONDS, uncoordinated=True))
    found = run(plain)
    print({name: found.get(name) for name in ("loss_fraction", "link_use", "late_fraction", "missing", "grants_per_s")})
    assert found["reached"] == ["members", "served"], found.get("missing")
    assert found["members"] == HOSTS and found["grants_per_s"] > 0
    assert found["loss_fraction"] < alone["loss_fraction"] / 4
    print(found["changed"])
    assert "missing" not in found["changed"], "both trees came into force"
    assert all(found["changed"][name]["members_least"] == HOSTS for name in ("away", "back"))
    assert found["frames"]["refused"] == 0 and found["unknown"] == {}, "a frame that the swarm does not understand"


def test_nobody_stalls_while_one_frame_in_a_hundred_is_lost_and_all_come_back_after_the_coordinator_was_killed() -> None:
    """All register at once here."""
    found = run(
        Options(hosts=HOSTS, shape="racks", seconds=SECONDS, lose=0.01, start_at_once=True, kill_coordinator=True)
    )
    print({name: found.get(name) for name in ("loss_fraction", "link_use", "killed", "members_s", "members_least")})
    assert found["frames"]["dropped_in"] > 0 and found["frames"]["dropped_out"] > 0
    assert found["reached"] == ["members", "served"], found.get("missing")
    assert found["link_use"] > 0.5
    assert "missing" not in found["killed"], found["killed"]
    assert found["killed"]["members_s"] > 0 and found["killed"]["coordinated_s"] >= found["killed"]["members_s"] - 1.0


def test_a_controller_with_too_many_short_slots_makes_them_longer_and_carries_most_of_the_traffic() -> None:
    """A hundred hosts at once can send, for half a millisecond each: 200,000 slots a second."""
    found = run(Options(hosts=400, shape="leaf-spine", slice_ns=500_000, seconds=SECONDS, start_at_once=True))
    print({name: found.get(name) for name in ("loss_fraction", "link_use", "late_fraction", "loop_busy", "slot_slices")})
    assert found["slot_slices"] > 1 and 0 < found["loop_busy"] < 1
    assert found["link_use"] > 0.5 and found["loss_fraction"] < 0.1


def test_a_real_agent_takes_the_place_of_one_of_the_swarm_and_is_served() -> None:
    found = real_agent.run(real_agent.Options(hosts=HOSTS, shape="racks", seconds=SECONDS))
    print(found)
    assert found["slots_per_s"] > 20 and found["traffic_mbps"] > 20, "of a link of 100 Mb/s that nobody else uses"
    assert 0 < found["cpu"] < 1 and 10 < found["rss_mb"] <= found["peak_mb"]
    assert found["first_slot_s"] is not None and found["member_s"] > 0
