"""Applies an operator's change of the policy, and waits until the coordinator has taken it over. An edge: the store, the clock.

A change goes into the store; the store bridge carries it to the coordinator, whose status then shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.processes.waiting import wait_until
from controller.store.store import Store
from webui.http.errors import RequestRefused
from webui.http.schema import ControlRequest, PolicyChange, Weight
from webui.state.poller import Poller, Reading

SEEN_S = 3.0
LOOK_S = 0.05
NAMED = 20
"""Weights of a change that its text names."""
POLICIES = ("auto", "timeslice", "hybrid", "steps", "rate_limit", "weekly", "free")
"""The policies to offer while no coordinator publishes its own list."""
OPERATIONS = {"policy": "policy", "slice": "slice_ns", "override": "override"}
"""The dashboard's actions that change a single field of the policy, and that field."""


def in_force(reading: Reading) -> dict[str, Any]:
    """The policy in force, in the form of `schema.Policy`."""
    told = reading.state["coordinator"]
    settings = reading.snapshot.documents["policy"] or {}
    status = reading.snapshot.documents["status"] or {}
    policies = status.get("policies")
    named = isinstance(policies, list) and all(isinstance(one, str) for one in policies)
    return {
        "policy": told["policy"],
        "policies": policies if named else list(POLICIES),
        "slice_ns": told["slice_ns"],
        "override": told["override"],
        "weights": [weight.model_dump() for weight in _weights(settings)],
        "settings": settings,
    }


def _weights(settings: Mapping[str, Any]) -> list[Weight]:
    """The weights in the policy's document; what is none is left out, so that it does not stand in the way of any change."""
    rows = settings.get("weights")
    return [
        Weight.model_construct(source=row[0], destination=row[1], weight=row[2])
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list) and list(map(type, row)) in ([str, str, int], [str, str, float])
    ]


def change_of(control: ControlRequest, weights: list[Weight]) -> PolicyChange:
    """The change that an action asks for; `weights` are the ones in force.

    Raises:
        RequestRefused: a field of the action is missing, or one of another action is given, or there is no weight to remove.
        ValidationError: `Weight` or `PolicyChange` does not take a field's value.
    """
    needed = (OPERATIONS[control.action],) if control.action in OPERATIONS else ("source", "weight")
    for name in needed:
        if getattr(control, name) in (None, ""):
            raise RequestRefused(f"{name}: is missing", str(ControlRequest.model_fields[name].description))
    known = {"action", *needed, *(() if control.action in OPERATIONS else ("destination",))}
    for name in ControlRequest.model_fields:
        if name not in known and getattr(control, name) is not None:
            raise RequestRefused(f"{name}: has no meaning for the action {control.action}", "leave it out")
    if control.action == "weight":
        assert control.source is not None and control.weight is not None
        pair = control.source, control.destination or ""
        kept = [weight for weight in weights if (weight.source, weight.destination) != pair]
        if control.weight == 1 and len(kept) == len(weights):
            text = f"source, destination: {control.source} -> {control.destination or 'all'} has no weight that 1 would remove"
            raise RequestRefused(text, "name the hosts of a weight as GET /v1.0/policy lists it", 409)
        new = [] if control.weight == 1 else [Weight(source=pair[0], destination=pair[1], weight=control.weight)]
        return PolicyChange(weights=kept + new)
    return PolicyChange.model_validate({needed[0]: getattr(control, needed[0])})


def describe(change: PolicyChange) -> str:
    """The change in words, for the audit stream."""
    words = []
    if change.override is not None:
        words.append("every gate open" if change.override == "free" else "the policy decides")
    if change.policy is not None:
        words.append(f"policy {change.policy}")
    if change.slice_ns is not None:
        words.append(f"slice {change.slice_ns / 1e6:g} ms")
    if change.weights is not None:
        listed = [f"{w.source} -> {w.destination or 'all'} x{w.weight:g}" for w in change.weights]
        if len(listed) > NAMED:  # a page gets the last hundred of these texts
            listed = [*listed[:NAMED], f"{len(listed) - NAMED} more"]
        words.append(f"weights {', '.join(listed) or 'none'}")
    return ", ".join(words)


def apply(
    store: Store, poller: Poller, asked: Callable[[list[Weight]], PolicyChange]
) -> tuple[PolicyChange, dict[str, Any]]:
    """Makes a change and waits until the coordinator has taken it over; returns the change and the fields of `schema.Done`.

    Args:
        asked: the change, given the weights that it is to change.

    Raises:
        RequestRefused: a value is not allowed; nothing is changed.
        StoreUnavailable: the store does not answer.
        ValueError: `asked` raised it; nothing is changed.
    """
    reading = poller.read(fresh_ns=0)
    change = asked(_weights(reading.snapshot.documents["policy"] or {}))

    def changed(settings: dict[str, Any] | None) -> dict[str, Any]:
        nonlocal change
        change = asked(_weights(settings or {}))
        wanted = _checked(change, settings or {}, reading)
        if settings is None:
            remedy = "put a coordinator section into the configuration, and run `baton up`"
            raise RequestRefused("no policy is published", remedy, 409)
        return settings | wanted

    if change.model_fields_set != {"override"}:
        store.change_policy(changed)
    if change.override is not None:
        store.set_override(change.override)
    taken = reading.alive and wait_until(lambda: _seen(store.status() or {}, change), SEEN_S, LOOK_S)
    after = poller.read(fresh_ns=0)
    if taken:
        text = f"in force: {describe(change)}"
    elif reading.alive:
        text = f"set, but the coordinator did not apply it within {SEEN_S:g} s: see its log"
    else:
        until = "also when one starts" if change.override == "free" else "until one starts"
        text = f"set; no coordinator is running now: every gate is open, {until}"
    return change, {"taken": taken, "text": text, "policy": in_force(after)}


def _checked(change: PolicyChange, settings: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The fields of the policy document that change. Raises RequestRefused: a value conflicts with the current state (409)."""
    wanted: dict[str, Any] = {}
    if change.policy is not None:
        policies = in_force(reading)["policies"]
        if change.policy not in policies:
            raise RequestRefused(f"policy: there is no {change.policy!r}", f"choose one of {', '.join(policies)}", 409)
        wanted["policy"] = change.policy
    if change.slice_ns is not None:
        least_ns = settings.get("minimum_active_ns", 0)
        if isinstance(least_ns, int) and change.slice_ns < least_ns:
            text = f"slice_ns: {change.slice_ns} is shorter than minimum_active"
            raise RequestRefused(text, f"write {least_ns} or more, or lower minimum_active first", 409)
        wanted["slice_ns"] = change.slice_ns
    if change.weights is not None:
        named = {name for weight in _weights(settings) for name in (weight.source, weight.destination)}
        known = named.union(reading.picture.fabric.hosts)  # a host that has a weight may be away now
        pairs = set()
        for weight in change.weights:
            for name in filter(None, (weight.source, weight.destination)):
                if name not in known:
                    raise RequestRefused(f"weights: no host is named {name!r}", "name hosts as /v1.0/tree does", 409)
            pair = f"{weight.source} -> {weight.destination or 'all'}"
            if weight.source == weight.destination:
                raise RequestRefused(f"weights: {pair}: a host sends nothing to itself", "name another destination", 409)
            if pair in pairs:
                raise RequestRefused(f"weights: {pair} stands there twice", "leave one out", 409)
            pairs.add(pair)
        wanted["weights"] = [[weight.source, weight.destination, weight.weight] for weight in change.weights]
    return wanted


def _seen(status: Mapping[str, Any], change: PolicyChange) -> bool:
    """Whether the coordinator's status shows the change."""
    weights = None if change.weights is None else [[w.source, w.destination, w.weight] for w in change.weights]
    wanted = {"policy": change.policy, "slice_ns": change.slice_ns, "override": change.override, "weights": weights}
    return all(status.get(name) == value for name, value in wanted.items() if value is not None)
