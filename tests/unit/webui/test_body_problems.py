"""What an operator is told of a wrong body: the field, what is wrong with it, and what to write."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from webui.http.commands import change_of
from webui.http.errors import RequestRefused
from webui.http.problems import refusal
from webui.http.schema import ControlRequest, PolicyChange

WEIGHT = {"source": "h1", "weight": 2}
SLICE = "write a whole number of nanoseconds from 200000 to 1000000000, such as 2000000 for 2 ms"


def told(value: object, model: type[ControlRequest] | type[PolicyChange] = PolicyChange) -> tuple[str, str]:
    with pytest.raises(ValidationError) as wrong:
        model.model_validate(value)
    refused = refusal(wrong.value, model)
    return str(refused), refused.remedy


@pytest.mark.parametrize(
    ("value", "problem", "remedy"),
    [
        ([], "body: is not an object", 'send an object such as {"policy": "auto"}'),
        ({}, "body: nothing to change", "give policy, slice_ns, override or weights, and leave out what stays"),
        ({"policy": "auto", "slice_ns": None}, "slice_ns: is null", "leave out what stays"),
        ({"policy": 3}, "policy: is not a text", "write the name of a policy, such as auto"),
        ({"policy": ""}, "policy: is empty", "write the name of a policy, such as auto"),
        ({"policy": "p" * 33}, "policy: is longer than 32 characters", "write the name of a policy, such as auto"),
        ({"policy": "\ud800"}, "policy: is not a text", "write the name of a policy, such as auto"),
        ({"slice_ns": "2ms"}, "slice_ns: '2ms' is not a whole number", SLICE),
        ({"slice_ns": 1.5}, "slice_ns: is not a whole number", SLICE),
        ({"slice_ns": True}, "slice_ns: is not a whole number", SLICE),
        ({"slice_ns": 1}, "slice_ns: is under 200000", SLICE),
        ({"slice_ns": 10**12}, "slice_ns: is over 1000000000", SLICE),
        ({"override": "off"}, "override: 'off' is none of these", "write coordinate or free"),
        ({"weights": {}}, "weights: is not a list", 'write a list such as [{"source": "h1", "destination": "h2", "'),
        ({"weights": [1]}, "weights.0: is not an object", 'write one such as {"source": "h1", "weight": 2}'),
        ({"weights": [WEIGHT, {}]}, "weights.1.source: is missing", "write a host's name, as /v1.0/tree has it"),
        ({"weights": [{**WEIGHT, "weight": "2"}]}, "weights.0.weight: '2' is not a number", "write a number from 0.01 to 100"),
        ({"weights": [{**WEIGHT, "weight": 1e9}]}, "weights.0.weight: is over 100", "write a number from 0.01 to 100"),
        ({"weights": [{**WEIGHT, "weight": float("nan")}]}, "weights.0.weight: is not a number", "from 0.01 to 100"),
        ({"weights": [{**WEIGHT, "destination": None}]}, "weights.0.destination: is null", "or leave it out for all hosts"),
        ({"weights": [{**WEIGHT, "destinaton": "h2"}]}, "weights.0.destinaton: is unknown", "did you mean destination?"),
        ({"weights": [WEIGHT] * 1001}, "weights: has more than 1000 entries", "write a list such as"),
        ({"Policy": "auto"}, "Policy: is unknown", "did you mean policy?"),
        ({"x" * 90: 1}, f"{'x' * 40}: is unknown", "remove it, or choose from policy, slice_ns, override, weights"),
    ],
)
def test_a_wrong_change_is_told_by_field_and_remedy(value: Any, problem: str, remedy: str) -> None:  # noqa: ANN401 -- any JSON
    said, do = told(value)
    assert said == problem and remedy in do


@pytest.mark.parametrize(
    ("value", "problem", "remedy"),
    [
        ("on", "body: 'on' is not an object", 'send an object such as {"action": "policy", "policy": "auto"}'),
        ({}, "action: is missing", "write policy, slice, override or weight"),
        ({"action": "sleep"}, "action: 'sleep' is none of these", "write policy, slice, override or weight"),
        ({"action": "policy", "polcy": "x"}, "polcy: is unknown", "did you mean policy?"),
        ({"action": "weight", "source": 3}, "source: is not a text", "write a host's name, as /v1.0/tree has it"),
    ],
)
def test_a_wrong_action_is_told_by_field_and_remedy(value: Any, problem: str, remedy: str) -> None:  # noqa: ANN401 -- any JSON
    said, do = told(value, ControlRequest)
    assert said == problem and remedy in do


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({"action": "policy"}, "policy: is missing"),
        ({"action": "slice"}, "slice_ns: is missing"),
        ({"action": "override", "policy": "auto"}, "override: is missing"),
        ({"action": "weight", "weight": 2}, "source: is missing"),
        ({"action": "weight", "source": "", "weight": 2}, "source: is missing"),
        ({"action": "weight", "source": "h1"}, "weight: is missing"),
        ({"action": "policy", "policy": "auto", "slice_ns": 2_000_000}, "slice_ns: has no meaning for the action policy"),
        ({"action": "weight", "source": "h1", "weight": 2, "policy": "auto"}, "policy: has no meaning for the action weight"),
    ],
)
def test_an_action_without_its_field_or_with_another_actions_is_refused(action: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        change_of(ControlRequest.model_validate(action), [])
    assert str(refused.value) == problem and refused.value.remedy.startswith(("write ", "leave it out"))


def test_no_field_of_a_body_is_without_a_remedy() -> None:
    for model in (ControlRequest, PolicyChange):
        assert all((field.description or "").startswith("write ") for field in model.model_fields.values())
