"""Policies by name, and the one that grants nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cli.machine.doctor import collect
from controller.config.settings import CoordinatorSettings
from controller.policies import POLICIES, make_policy
from controller.policies.auto import Auto
from controller.policies.base import SOON_NS, SlotNumbers
from controller.policies.compiled import library
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.hybrid import Hybrid
from controller.policies.rates.policy import RateLimit
from controller.policies.steps.policy import Steps
from controller.policies.timeslice import Timeslice
from ebpf.build import BuildError
from tests.unit.controller.policies.policy_networks import FIRST, star

SETTINGS = CoordinatorSettings(interface="c0", attachment="s1:1", key_file=Path("key"), store="unix:///x")
MS = 1_000_000


@pytest.mark.parametrize("name", ["auto", "timeslice", "hybrid", "steps", "rate_limit"])
def test_a_backlogged_sender_is_granted_something_by_every_policy_that_coordinates(name: str) -> None:
    policy = make_policy(dataclasses.replace(SETTINGS, policy=name))
    network = star(2)
    policy.set_network(network, now_ns=MS)
    policy.set_regulated({FIRST: frozenset({FIRST + 1})}, now_ns=MS)
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=MS)
    plan = policy.plan(now_ns=MS, horizon_ns=2 * MS)
    assert [(slot.node, slot.destination) for slot in plan.grants[:1]] == [(FIRST, FIRST + 1)]
    assert policy.next_event_ns() is not None


def test_free_grants_nothing_and_has_no_events() -> None:
    policy = make_policy(dataclasses.replace(SETTINGS, policy="free"))
    policy.set_network(star(2), now_ns=MS)
    policy.set_regulated({FIRST: frozenset({FIRST + 1})}, now_ns=MS)
    policy.set_weight(None, None, 2)
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=MS)
    policy.yielded(FIRST, FIRST + 1, 1, now_ns=MS)
    policy.left(FIRST, now_ns=MS)
    plan = policy.plan(now_ns=MS, horizon_ns=2 * MS)
    assert not plan.grants and not plan.revokes and policy.next_event_ns() is None


def test_an_unknown_policy_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'monthly'.*timeslice") as refusal:
        make_policy(dataclasses.replace(SETTINGS, policy="monthly"))
    assert all(name in str(refusal.value) for name in POLICIES)


def test_settings_reach_the_policy() -> None:
    wanted = {"policy": "timeslice", "slice_ns": 10 * MS, "headroom": 0.9, "minimum_active_ns": 3 * MS}
    policy = make_policy(dataclasses.replace(SETTINGS, **wanted))  # type: ignore[arg-type]
    assert isinstance(policy, CompiledTimeslice)
    assert (policy.terms.slice_ns, policy.terms.headroom_ppm, policy.terms.minimum_active_ns) == (10 * MS, 900_000, 3 * MS)


@pytest.mark.parametrize("name", ["timeslice", "hybrid", "steps", "auto", "rate_limit"])
def test_where_the_compiled_schedule_cannot_be_built_the_reference_serves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Path:
        raise BuildError("clang is missing: install the package clang")

    for one in library.LIBRARIES:
        monkeypatch.setattr(one, "load", refuse)
        for remembered in ("_loaded", "_missing"):
            monkeypatch.setattr(one, remembered, None)
    policy = make_policy(dataclasses.replace(SETTINGS, policy=name))
    parts = policy._both() if isinstance(policy, Auto) else (policy,)
    assert all(type(part) in (Timeslice, Steps, RateLimit) for part in parts)
    (row,) = (row for row in collect([]) if row.name == "compiled schedule")
    assert not row.present and "clang is missing" in row.instead and row.improve == "apt install clang"


def test_a_policy_that_takes_over_gives_out_no_number_again() -> None:
    before, after = SlotNumbers(), SlotNumbers()
    given = [before.take(1_000_000), before.take(1_000_000), before.take(999)]
    assert given == sorted(set(given))
    assert after.take(1_000_100) > given[-1]


@pytest.mark.parametrize("compiled", [False, True], ids=["reference", "compiled"])
@pytest.mark.parametrize("name", ["auto", "timeslice", "hybrid", "steps", "rate_limit"])
def test_a_policy_that_is_replaced_takes_back_what_would_last_and_leaves_the_rest(name: str, *, compiled: bool) -> None:
    if compiled:
        policy = make_policy(dataclasses.replace(SETTINGS, policy=name, slice_ns=100 * MS))
    else:
        turns, rates = Timeslice(slice_ns=100 * MS), RateLimit()
        references = {"timeslice": turns, "rate_limit": rates, "auto": Auto(turns, rates)}
        policy = references.get(name) or {"hybrid": Hybrid, "steps": Steps}[name](slice_ns=100 * MS)
    network = star(3)
    policy.set_network(network, now_ns=MS)
    policy.set_contended(frozenset(link for node in (FIRST, FIRST + 1) for link in network.path(node, FIRST + 2)))
    policy.set_regulated({FIRST: frozenset({FIRST + 2})}, now_ns=MS)
    policy.backlog(FIRST, {FIRST + 2: 10**9}, now_ns=MS)
    granted = {slot.slot: slot for slot in policy.plan(now_ns=MS, horizon_ns=2 * MS).grants}
    assert granted
    now_ns = 2 * MS
    revoked = {slot.slot for slot in policy.retire(now_ns=now_ns).revokes}
    assert revoked == {number for number, slot in granted.items() if slot.end_ns > now_ns + SOON_NS} and revoked
    assert not policy.plan(now_ns=now_ns, horizon_ns=now_ns + 300 * MS).grants
