"""What happens reaches every part of a coordinator, also when one of them fails at it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.members.part import Part, Parts


class Hearing(Part):
    """Keeps what it hears, and fails at it if it is asked to."""

    def __init__(self, heard: list[Any], *, fails: bool = False) -> None:
        self._heard, self._fails = heard, fails
        self.documents = {"fabric": self._hear}

    def _hear(self, *what: Any) -> None:  # noqa: ANN401 -- of any event
        if self._fails:
            raise LookupError(what)
        self._heard.append(what)

    def joined(self, node: int) -> None:
        self._hear(node)

    def left(self, node: int, now_ns: int) -> None:
        self._hear(node, now_ns)


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
