"""What a siege sends, and what its figures are taken for."""

from __future__ import annotations

import itertools
import random
import time
from ipaddress import IPv4Address
from typing import Any

import pytest

from bench.siege import rates
from bench.siege.floods import paced
from bench.siege.frames import ESCAPES, Scene, frames
from bench.siege.verdicts import Memory, Sample, grown, memory, processor_share, slope_mb_min, times_ms, verdicts
from protocol.auth import Guard
from protocol.key import Key
from protocol.keys.hosts import NAMED_TAG_BYTES, Master
from protocol.messages import Refused, decode

OWN, OTHER, LEADER, VICTIM = (bytes((2, 0, 0, 0, 0, number)) for number in (5, 6, 255, 1))
MASTER = Master(Key(bytes(range(32))))
KEY = MASTER.enroll("h6").at(OWN)
EPOCH = 1_800_000_000
SCENE = Scene(
    OWN, IPv4Address("10.0.0.5"), OTHER, IPv4Address("10.0.0.6"), LEADER, [(VICTIM, IPv4Address("10.0.0.1"), 16)],
    name="h6", key=KEY, epoch=EPOCH, node=17, sequence=1_000,
)  # fmt: skip


class AsHost:
    """Verifies what this host has made, whoever it says that it is from or for."""

    def tag_bytes(self, frame: bytes) -> int:
        return NAMED_TAG_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        return KEY.to_leader.proves(data, tag)


VERIFIER = AsHost()


def some(kind: str, count: int = 300) -> list[bytes]:
    return list(itertools.islice(frames(kind, SCENE, random.Random(1)), count))


class TestFrames:
    """Each kind is what its name says."""

    @pytest.mark.parametrize("kind", [*rates.STRANGER, *rates.TENANT, *rates.KEYED, "harmless"])
    def test_they_are_frames_that_can_be_sent(self, kind: str) -> None:
        assert all(14 < len(frame) <= 1514 for frame in some(kind))

    def test_fake_addresses_are_more_than_a_port_may_have(self) -> None:
        assert len({frame[6:12] for frame in some("macs", 3_000)}) > 1_024

    def test_stolen_addresses_are_a_members_and_the_coordinators(self) -> None:
        assert {frame[6:12] for frame in some("theft")} == {VICTIM, LEADER}

    def test_a_strangers_control_frames_are_refused(self) -> None:
        guard = Guard(MASTER, epoch=EPOCH, leader=True, address=LEADER)
        assert not any(guard.accept(frame) for frame in some("control"))
        assert len(guard.refused) >= 3

    def test_frames_of_a_host_with_the_key_are_authentic(self) -> None:
        for kind in ("epochs", "sequence", "registers", "pages", "addresses"):
            assert all(decode(frame, VERIFIER).sequence > 0 for frame in some(kind, 20)), kind
        assert all(decode(frame, VERIFIER).sequence > 1 << 63 for frame in some("sequence", 20))
        assert all(ESCAPES in frame for frame in some("names", 5))
        with pytest.raises(Refused, match=r"(?i)malformed"):
            decode(some("names", 1)[0], VERIFIER)

    def test_the_control_group_has_as_many_frames(self) -> None:
        assert sum(rates.harmless(rates.STRANGER).values()) == sum(rates.STRANGER.values())
        assert rates.scaled(rates.STRANGER, 2, ("lldp",)) == {"lldp": 2 * rates.STRANGER["lldp"]}


def test_what_is_sent_keeps_its_rate() -> None:
    sent = paced({"a": 200.0, "b": 50.0, "c": 0.0}, time.monotonic() + 0.5, lambda _: None)
    assert 40 <= sent["a"] <= 110 and 10 <= sent["b"] <= 30 and "c" not in sent


class TestMemory:
    """Samples of a process become a begin, an end and a slope."""

    def test_memory_that_grows_evenly_has_its_slope_and_is_not_flat(self) -> None:
        samples = [Sample(at, 10 + at / 6, 5, at / 2) for at in range(61)]
        assert slope_mb_min(samples) == pytest.approx(10)
        assert processor_share(samples) == 0.5
        assert not memory(samples).flat

    def test_what_fills_and_then_stays_is_flat(self) -> None:
        assert memory([Sample(at, min(20, 10 + at), 5) for at in range(61)]) == Memory(10, 20, pytest.approx(0))
        assert memory([Sample(at, min(20, 10 + at), 5) for at in range(61)]).flat
        assert not memory([Sample(at, min(80, 10 + 10 * at), 5) for at in range(61)]).flat

    def test_a_single_sample_has_no_slope(self) -> None:
        assert memory([Sample(0, 10, 5)]) == Memory(10, 10, 0)


def test_counts_have_grown_by_their_difference_or_after_a_restart_by_all() -> None:
    assert grown({"a": 1, "b": 5, "d": 9}, {"a": 3, "b": 5, "c": 2, "d": 4}) == {"a": 2, "c": 2, "d": 4}


def test_times_of_page_loads_are_percentiles_or_none_without_loads() -> None:
    assert times_ms([]) == {"loads": 0, "p50": None, "p99": None, "max": None}
    assert times_ms([3, 1, 2]) == {"loads": 3, "p50": 2, "p99": 3, "max": 3}


def record(**changes: dict[str, Any]) -> dict[str, Any]:
    """One in which every target is held."""
    pings = {"sent": 100, "lost": 0}
    phase = {"goodput_mbps": 94.0, "slots": 100, "late_slots": 1, "pings": pings, "page_ms": times_ms([20.0])}
    flat = {"begin_mb": 40.0, "end_mb": 45.0, "slope_mb_min": 1.0}
    process = {"memory": flat, "descriptors": {"begin": 7, "most": 90, "after": 8}}
    found: dict[str, Any] = {
        "phases": {name: dict(phase) for name in ("undisturbed", "harmless", "siege")},
        "sent": {"lldp": 100, "registers": 10},
        "refused": {"lldp_forged": 50},
        "restarted": {},
        "processes": {"coordinator": process},
    }
    found["phases"]["siege"] |= changes.pop("siege", {})
    return found | changes


def missed(found: dict[str, Any]) -> list[str]:
    return [verdict["target"] for verdict in verdicts(found) if not verdict["holds"]]


@pytest.mark.parametrize(
    ("changes", "targets"),
    [
        ({}, []),
        ({"siege": {"goodput_mbps": 80.0}}, ["goodput, of undisturbed", "goodput, of as many harmless frames"]),
        ({"siege": {"late_slots": 6}}, ["late slots"]),
        ({"siege": {"slots": 0, "late_slots": 0}}, ["late slots"]),
        ({"restarted": {"web": 1}}, ["processes that restarted"]),
        ({"siege": {"pings": {"sent": 100, "lost": 3}}}, ["pings lost"]),
        ({"siege": {"pings": {"sent": 0, "lost": 0}}}, ["pings lost"]),
        ({"siege": {"page_ms": times_ms([20.0, 900.0])}}, ["page, p99"]),
        ({"siege": {"page_ms": times_ms([])}}, ["page, p99"]),
        ({"refused": {}}, ["floods that arrived and were counted"]),
        ({"sent": {"lldp": 100, "macs": 0}}, ["floods that arrived and were counted"]),
        (
            {"processes": {"web": {"memory": {"begin_mb": 40.0, "end_mb": 45.0, "slope_mb_min": 9.0},
                                   "descriptors": {"begin": 7, "most": 90, "after": 60}}}},
            ["memory", "descriptors after the siege"],
        ),
    ],
    ids=["all", "goodput", "late", "none", "restarts", "pings", "no ping", "page", "no page", "not arrived", "not sent",
         "leaks"],
)  # fmt: skip
def test_a_target_that_is_missed_is_named(changes: dict[str, Any], targets: list[str]) -> None:
    assert missed(record(**changes)) == targets
