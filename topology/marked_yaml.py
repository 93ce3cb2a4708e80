"""Reads YAML (and so JSON) with the line of every field, for checkers that name lines. Pure.

Every scalar stays the text that was written (only a plain empty, `~` or `null` is None). So a switch
called `no` or `1e3`, or a MAC address of digits alone, is not read as a boolean, a float or a sexagesimal
number as in YAML 1.1; the caller, which knows the field, interprets the text. Aliases and tags are
refused: no file of Baton needs them, and aliases can make a small file endless. The lines come from the
marks that PyYAML's parser puts on its events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from topology.problems import Problem

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"
Path: TypeAlias = tuple[str | int, ...]

MAX_DEPTH = 20
MAX_SHOWN = 64  # characters of a field's name in a problem
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# libyaml is ten times quicker; only its parser is used, since its composer recurses and deep nesting crashes it
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Document:
    """The document that was read. After a syntax error its value is None; a field given twice keeps its first value."""

    value: Value = None
    problems: list[Problem] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line (from 1) of a field, or of the closest enclosing field that is in the document."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path, text: str) -> Problem:
        """A problem with a field of this document."""
        return Problem(dotted(path), text, self.line(path))


def dotted(path: Path) -> str:
    """A path as people write it: ("links", 2, "rate") is "links[2].rate"."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = (part if part.isprintable() else repr(part))[:MAX_SHOWN]
            text += f".{shown}" if text else shown
    return text


def read(text: str) -> Document:
    """Reads one YAML document. Never raises: mistakes are in `problems`."""
    document = Document()
    try:
        document.value = _Reader(text, document).document()
    except _Unreadable as error:
        document.problems.append(error.problem)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it has a character that YAML does not allow"
        line = mark.line + 1 if mark else 1
        document.problems.append(Problem("", f"is not YAML: {what}; correct it", line))
    except (ValueError, OverflowError):  # PyYAML, on a lone surrogate or an escape past the last character
        text = "is not YAML: it has a character that does not exist; remove it"
        document.problems.append(Problem("", text, 1))
    return document


class _Unreadable(Exception):
    """A mistake after which the rest of the document can't be read."""

    def __init__(self, path: Path, text: str, event: yaml.Event) -> None:
        self.problem = Problem(dotted(path), text, _line(event))


class _Reader:
    """Turns the parser's events into values, with one recursion for each level."""

    def __init__(self, text: str, document: Document) -> None:
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=LOADER))
        self._document = document

    def document(self) -> Value:
        value: Value = None
        seen = False
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if seen:
                    raise _Unreadable((), "a second document begins here; keep one", event)
                seen = True
                value = self._value((), next(self._events))
        return value

    def _value(self, path: Path, event: yaml.Event) -> Value:
        self._document.lines.setdefault(path, _line(event))
        if isinstance(event, yaml.AliasEvent):
            raise _Unreadable(path, "is an alias (*name); write out what it stands for", event)
        assert isinstance(event, yaml.NodeEvent)
        if getattr(event, "tag", None) not in (None, "!"):
            self._document.problems.append(Problem(dotted(path), "has a !tag; remove it", _line(event)))
        if isinstance(event, yaml.ScalarEvent):
            return None if not event.style and event.value in NULLS else str(event.value)
        if len(path) >= MAX_DEPTH:
            raise _Unreadable(path[:3], f"is nested deeper than {MAX_DEPTH} levels; write it flat", event)
        return self._list(path) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(path)

    def _list(self, path: Path) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value((*path, len(items)), event))
        return items

    def _mapping(self, path: Path) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _Unreadable(path, "has a field whose name is not a text; write name: value", event)
            name = str(event.value)
            inner = (*path, name)
            twice = name in fields
            if twice:
                text = f"is given twice, first in line {self._document.lines[inner]}; keep one"
                self._document.problems.append(Problem(dotted(inner), text, _line(event)))
            else:
                self._document.lines[inner] = _line(event)
            value = self._value(inner, next(self._events))
            if not twice:
                fields[name] = value
        return fields


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None, "the parser marks every event"
    return event.start_mark.line + 1
