"""Large documents as parts, so that a change of one host or link is a few hundred bytes. Pure.

A document is a JSON object. Its parts are a flat dictionary: the value of a field under the field's name, and the rows of a
long list or dictionary each under a name of its own: `fabric.hosts h1`, `blocked s1 s2`. The text after the space tells rows
apart, and is read by nobody. The list itself is a part, too, and empty: so an empty list differs from none. A list whose rows
lack the fields that name them, or share a name, is one part as it is.

Lists come back in the order of their rows' names as text: none of their readers depends on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Parts = Mapping[str, Any]
NAMED: tuple[str, ...] = ()
"""A dictionary, whose rows have its own names."""
LONG: Mapping[str, Mapping[str, tuple[str | int, ...]]] = {
    "fabric": {
        "fabric.switches": ("name",),
        "fabric.hosts": ("name",),
        "fabric.links": ("a", "b"),
        "blocked": (0, 1),
        "hosts": ("name",),
        "ports": NAMED,
        "links": ("source", "target"),
        "not_found": (0, 1),
    },
    "ports": {"links": ("source", "target"), "ports": NAMED},
    "capacities": {"links": ("source", "target")},
}
"""By document: its long lists and dictionaries, and the fields of a row that name it."""


class Change(NamedTuple):
    """From one state of a document to another: parts that are new or others, and names of those that are gone."""

    put: Parts
    gone: tuple[str, ...] = ()

    def pieces(self, most: int) -> Iterator[Change]:
        """The change in pieces of at most so many parts; at least one."""
        names = list(self.put)
        for at in range(0, max(1, len(names) + len(self.gone)), most):
            put = {name: self.put[name] for name in names[at : at + most]}
            yield Change(put, self.gone[max(0, at - len(names)) : max(0, at + most - len(names))])


def split(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a document of this name."""
    found: dict[str, Any] = {}
    long = LONG[name]
    for field, value in document.items():
        if isinstance(value, dict) and any(path.startswith(f"{field}.") for path in long):
            found[field] = {}
            for inner, its in value.items():
                _split(found, f"{field}.{inner}", its, long)
        else:
            _split(found, field, value, long)
    return found


def _split(found: dict[str, Any], path: str, value: Any, long: Mapping[str, tuple[str | int, ...]]) -> None:  # noqa: ANN401 -- JSON
    rows: dict[str, Any] | None = None
    if isinstance(value, dict) and long.get(path) == NAMED:
        rows = {f"{path} {name}": row for name, row in value.items()}
    elif isinstance(value, list) and long.get(path):
        try:
            rows = {row_name(path, row): row for row in value}
        except (TypeError, KeyError, IndexError):
            rows = None
    if rows is None or len(rows) != len(value):
        found[path] = value
    else:
        found[path] = type(value)()
        found.update(rows)


def row_name(path: str, row: Any) -> str:  # noqa: ANN401 -- JSON
    """The name of a row of the long list at this path, in whichever document."""
    fields = _FIELDS[path]
    return f"{path} {row[fields[0]]}" if len(fields) == 1 else f"{path} {row[fields[0]]} {row[fields[1]]}"


_FIELDS: dict[str, tuple[Any, ...]] = {path: fields for long in LONG.values() for path, fields in long.items() if fields}


def join(parts: Parts) -> dict[str, Any]:
    """The document of these parts. Raises ValueError: a row has no list."""
    try:
        return _joined(parts)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its parts make no document: {error}") from None


def _joined(parts: Parts) -> dict[str, Any]:
    document: dict[str, Any] = {}
    boxes: dict[str, Any] = {"": document}
    for name in sorted(parts):
        path, is_row, key = name.partition(" ")
        value = parts[name]
        if is_row:
            box = boxes[path]
            if isinstance(box, list):
                box.append(value)
            else:
                box[key] = value
            continue
        above, _, last = path.rpartition(".")
        if isinstance(value, dict | list):
            boxes[path] = value = value.copy()
        boxes[above][last] = value
    return document


def difference(old: Parts, new: Parts) -> Change:
    """What makes the new parts of the old ones. Parts that are the same objects are not compared."""
    missing = object()
    put = {name: value for name, value in new.items() if (was := old.get(name, missing)) is not value and was != value}
    gone = () if len(new) == len(old) and not put else tuple(name for name in old if name not in new)
    return Change(put, gone)


def applied(parts: Parts, change: Change) -> dict[str, Any]:
    """The parts after a change; those that stay are the same objects."""
    changed = {**parts, **change.put}
    for name in change.gone:
        changed.pop(name, None)
    return changed
