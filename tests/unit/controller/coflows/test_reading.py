"""Coflows from their documents."""

from __future__ import annotations

from typing import Any

import pytest

from controller.coflows import reading
from controller.coflows.coflow import Flow
from controller.coflows.reading import STEADY_NS, Reading

OPENED_NS = 5 * STEADY_NS


def document(*flows: tuple[str, str, int]) -> dict[str, Any]:
    return {
        "opened_ns": OPENED_NS, "expires_ns": 10**12, "deadline_ns": None, "size_bytes": None,
        "flows": [list(flow) for flow in flows],
    }  # fmt: skip


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the documents that are read."""
    numbers: list[int] = []

    def counted(number: int, *rest: Any) -> Any:  # noqa: ANN401 -- the real one's
        numbers.append(number)
        return real(number, *rest)

    real = reading.read
    monkeypatch.setattr(reading, "read", counted)
    return numbers


def test_each_document_is_read_once_and_again_when_it_has_changed(read: list[int]) -> None:
    made = Reading(str)
    assert [one.coflow for one in made.take({"1": document(), "2": document()}, 0, 1)] == [1, 2]
    assert [one.coflow for one in made.take({"1": document(), "3": document()}, STEADY_NS - 1, 1)] == [1, 3]
    assert read == [1, 2, 3]
    (one,) = made.take({"1": document(("h1", "h2", 5))}, 0, 1)
    assert (one.flows, read) == ((Flow("h1", "h2", 5),), [1, 2, 3, 1])
    made.take({}, 0, 1)
    made.take({"1": document(("h1", "h2", 5))}, 0, 1)
    assert read == [1, 2, 3, 1, 1]


def test_all_are_read_again_when_the_stores_clock_has_moved(read: list[int]) -> None:
    made = Reading(str)
    made.take({"1": document()}, 0, 1)
    (one,) = made.take({"1": document()}, STEADY_NS, 1)
    assert (one.opened_ns, read) == (OPENED_NS - STEADY_NS, [1, 1])


def test_hosts_are_called_as_their_members_and_again_when_those_may_be_others() -> None:
    names = {"s1:p1": "h1"}
    made = Reading(lambda host: names.get(host, host))
    documents = {"1": document(("s1:p1", "s1:p2", 5), ("h1", "s1:p2", 7))}
    assert made.take(documents, 0, 1)[0].flows == (Flow("h1", "s1:p2", 12),)
    names["s1:p2"] = "h2"
    assert made.take(documents, 0, 2)[0].flows == (Flow("h1", "h2", 12),)
    names["s1:p2"] = "h1"
    assert made.take(documents, 0, 3)[0].flows == (), "what stays on a host"


def test_what_cannot_be_read_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    made = Reading(str)
    for _ in range(3):
        assert [one.coflow for one in made.take({"1": {}, "x": document(), "2": document()}, 0, 1)] == [2]
    assert len(caplog.records) == 2
