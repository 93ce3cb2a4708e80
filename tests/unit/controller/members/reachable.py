"""What an object keeps: the objects that can be reached from it."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def elements(root: object, kind: type | None = None) -> int:
    """How many elements all containers hold that can be reached from an object; or how many objects of a kind there are."""
    seen, todo, found = {id(root)}, [root], 0
    while todo:
        one = todo.pop()
        found += isinstance(one, kind) if kind is not None else len(one) if _holds(one) else 0
        for other in _inside(one):
            if id(other) not in seen and not isinstance(other, _CODE):
                seen.add(id(other))
                todo.append(other)
    return found


def _holds(one: object) -> bool:
    return hasattr(one, "__len__") and not isinstance(one, str | bytes | tuple)


def _inside(one: Any) -> Iterator[Any]:  # noqa: ANN401 -- anything
    if isinstance(one, dict):
        yield from one.keys()
        yield from one.values()
    elif _holds(one) or isinstance(one, tuple):
        with contextlib.suppress(TypeError):
            yield from one
    if isinstance(one, types.MethodType):
        yield one.__self__
    yield from getattr(one, "__dict__", {}).values()
    for base in type(one).__mro__:
        for name in getattr(base, "__slots__", ()):
            if isinstance(name, str) and hasattr(one, name):
                yield getattr(one, name)
