"""What processes and the store write as JSON is what json.dumps would write, and comes whole to the other end."""

from __future__ import annotations

import json
import socket
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from controller.processes.jsonlines import JsonLines, encode
from topology.fabric import DirectedLink


class Step(IntEnum):
    ONE = 1


VALUES: tuple[dict[str, Any], ...] = (
    {"links": [DirectedLink("s1", "h1")], "nested": {"one": (1, DirectedLink("a", "b"))}},
    {"numbers": [0, -1, (1 << 64) - 1, -(1 << 63), 0.1, 1e300, 5e-324]},
    {"step": Step.ONE, "none": None, "yes": True},
    {"text": 'h1 "quoted"\n\u2028 Zürich \U0001f600'},
    {"by node": {16: "h1", 17: "h2"}},
)


@pytest.mark.parametrize("value", VALUES)
def test_json_is_written_as_json_dumps_would(value: dict[str, Any]) -> None:
    assert b"\n" not in encode(value)
    assert json.loads(encode(value)) == json.loads(json.dumps(value))


def test_a_float_of_numpy_is_written_as_json_dumps_would() -> None:
    assert json.loads(encode({"share": np.float64(0.25)})) == {"share": 0.25}


@pytest.mark.parametrize("value", [{"set": {1}}, {"bytes": b"1"}, {"large": 1 << 64}])
def test_what_json_has_not_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        encode(value)


def test_values_come_whole_and_in_order() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer, reader = JsonLines(ours), JsonLines(theirs)
        assert all(writer.write(value) for value in VALUES)
        found: list[dict[str, Any]] = []
        while len(found) < len(VALUES):
            found += reader.read() or []
        assert found == [json.loads(json.dumps(value)) for value in VALUES]
