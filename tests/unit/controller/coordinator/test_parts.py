"""What happens reaches every part of a coordinator, also when one of them fails at it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.members.part import Part, Parts
from protocol.timers import Mishaps


class Hearing(Part):
    """Keeps what it hears, and fails at it if it is asked to."""

    def __init__(
        self, heard: list[Any], *, fails: bool = False, error: type[Exception] = LookupError, document: str = "fabric"
    ) -> None:
        self._heard, self._fails, self._error = heard, fails, error
        self.documents = {document: self._hear}

    def _hear(self, *what: Any) -> None:  # noqa: ANN401 -- of any event
        if self._fails:
            raise self._error(what)
        self._heard.append(what)

    def joined(self, node: int) -> None:
        self._hear(node)

    def left(self, node: int, now_ns: int) -> None:
        self._hear(node, now_ns)

    def reported(self, node: int, *_: object) -> None:
        self._hear(node)


@pytest.mark.parametrize(
    ("event", "words", "heard"),
    [("joined", (16,), (16,)), ("left", (16, 5), (16, 5)), ("take", ({"fabric": "a", "other": "b"}, 5), ("a", 5))],
)
def test_an_event_reaches_the_parts_after_one_that_fails(event: str, words: tuple[Any, ...], heard: tuple[Any, ...]) -> None:
    parts, found = Parts(), list[Any]()
    parts.add(Hearing(found), Hearing(found, fails=True), Hearing(found))
    with pytest.raises(LookupError):
        getattr(parts, event)(*words)
    assert found == [heard, heard]


def test_a_report_reaches_the_parts_after_one_that_fails() -> None:
    parts, found = Parts(), list[Any]()
    parts.add(Hearing(found, fails=True), Hearing(found))
    with pytest.raises(LookupError):
        parts.reported(16, {}, frozenset())
    assert found == [(16,)]


def test_a_document_at_which_a_part_fails_costs_the_others_of_its_line_nothing() -> None:
    parts, found = Parts(), list[Any]()
    parts.add(Hearing(found, fails=True), Hearing(found, document="policy"))
    with pytest.raises(LookupError):
        parts.take({"fabric": "a", "policy": "b"}, 5)
    assert found == [("b", 5)]


def test_each_error_of_several_parts_is_told_and_counted() -> None:
    parts, told, counted = Parts(), list[str](), list[int]()
    parts.add(Hearing([], fails=True), Hearing([], fails=True, error=ArithmeticError), Hearing([], fails=True, error=OSError))
    with Mishaps(told.append, lambda: counted.append(1)).surviving("a member that joined", 0):
        parts.joined(16)
    assert [line.split(": ")[1] for line in told] == ["LookupError", "ArithmeticError", "OSError"] and len(counted) == 3
