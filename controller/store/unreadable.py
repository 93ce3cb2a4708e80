"""Documents in the store that can't be read: which, and why. Each is left out, so that it keeps no other from its readers, and
told once. Pure, but for its log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import orjson
from redis.exceptions import ResponseError

from controller.store.layout import PREFIX
from protocol.bodies.text import printable

log = logging.getLogger("baton.store")

T = TypeVar("T")
WRONG_TYPE, NO_VERSION = "it is of another type", "its version is no number"


class Unreadable(ValueError):
    """What a key holds is no such document. The text says why."""


class Unread:
    """Which keys could not be read when they were looked at last. Threads may share it."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, str]] = {}

    def looked(self, name: str, wrong: Mapping[str, str]) -> None:
        """Takes what could not be read, and why, when the documents of this name were looked at."""
        told = self._found.get(name, {})
        for key, why in wrong.items():
            if key not in told:
                log.error("%s", _line(key, why))
        if wrong:
            self._found[name] = dict(wrong)
        else:
            self._found.pop(name, None)

    def lines(self) -> list[str]:
        """A warning for each key."""
        wrong = {key: why for one in list(self._found.values()) for key, why in one.items()}
        return [_line(key, wrong[key]) for key in sorted(wrong)]


def _line(key: str, why: str) -> str:
    remedy = f"delete the key {PREFIX}{key}" if why in (WRONG_TYPE, NO_VERSION) else "write it anew"
    return printable(f"{key} in the store can't be read, and is left out: {remedy} ({why})")


def document_of(text: str | None) -> dict[str, Any] | None:
    """A document; None: there is none. Raises Unreadable: it is not the text of a JSON object."""
    if text is None:
        return None
    try:
        found = orjson.loads(text)
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if not isinstance(found, dict):
        raise Unreadable("it is no JSON object")
    return found


@contextlib.contextmanager
def of_its_type() -> Iterator[None]:
    """A block that reads one key. Raises Unreadable: the key is of another type."""
    try:
        yield
    except ResponseError as error:
        if "WRONGTYPE" in str(error):
            raise Unreadable(WRONG_TYPE) from None
        raise


def answered(answer: T | ResponseError) -> T:
    """One answer of a pipeline that does not raise errors. Raises Unreadable: the key is of another type; or the error."""
    if isinstance(answer, ResponseError):
        with of_its_type():
            raise answer
    return answer
