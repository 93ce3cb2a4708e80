"""Joins the dashboard's modules into one script, so that a browser sends one request instead of thirty. Pure.

The modules may use only these forms of import and export, each on a line of its own:

    import { a, b } from "./other.js";      or "../folder/other.js"
    export const|class|function|async function NAME

Each module becomes a function that returns its exports, and runs after the modules that it imports. Any other form is an error
when the server starts, not later in a browser.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

_IMPORT = re.compile(r'^import \{ ([\w$]+(?:, [\w$]+)*) \} from "(\.\.?/[\w./]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function|async function) ([\w$]+))", re.MULTILINE)
_OTHER = re.compile(r"^\s*(?:import|export)\b.*$", re.MULTILINE)


def bundle(modules: Mapping[str, str], entry: str) -> str:
    """One classic script that does the same as the module `entry` with its imports.

    Args:
        modules: {path below static/: text}; modules that `entry` does not need are left out.

    Raises:
        ValueError: a module uses another form, imports a name that is not exported, or is part of a circle; names the module.
    """
    exported = {name: _EXPORT.findall(text) for name, text in modules.items()}
    needs: dict[str, set[str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in needs:
            continue
        if name not in modules:
            raise ValueError(f"{name}: there is no such module")
        needs[name] = set()
        for names, path in _IMPORT.findall(modules[name]):
            source = _resolved(name, path)
            if missing := set(names.split(", ")) - set(exported.get(source, ())):
                raise ValueError(f"{name}: {source} does not export {', '.join(sorted(missing))}")
            needs[name].add(source)
            waiting.append(source)
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other in a circle: {', '.join(error.args[1])}") from None
    return '"use strict";\n(() => {\n' + "".join(_function(name, modules[name], exported[name]) for name in order) + "})();\n"


def _resolved(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "$", name)


def _function(name: str, text: str, exports: list[str]) -> str:
    body = _IMPORT.sub(lambda found: f"const {{ {found[1]} }} = {_variable(_resolved(name, found[2]))};", text)
    body = _EXPORT.sub("", body)
    if other := _OTHER.search(body):
        raise ValueError(f"{name}: not understood here: {other[0].strip()}")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();\n"
