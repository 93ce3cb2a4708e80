"""What decides a figure, as a hash: the code that measures it, and its command. An edge: reads sources.

A module's code is its own and that of every module of the project that it imports or names as a program (`python -m NAME`),
and so on, with the programs in C and the data in their folders, and in folders below these that hold no module. A figure whose
hash has not changed need not run again.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agents", "bench", "cli", "controller", "ebpf", "emulation", "protocol", "topology")
COMMANDS = "cli.main"
"""Names every command of Baton: what an experiment runs of them stands in `RUNS`."""
RUNS = {
    "emulation.stack.stack": ("cli.operate.up", "cli.hosts.agent"),
    "bench.host_control.controls": ("cli.hosts.agent",),
}
VIRTUAL = ("emulation.virtual.machine", "cli.experiment_time")
DATA = frozenset({".c", ".h", ".txt", ".sh", ".config", ".patch"})


def fingerprint(module: str, words: Sequence[str], root: Path = ROOT) -> str:
    """A hash of the command and of all code that decides what it measures.

    Raises ValueError: there is no such module.
    """
    found = hashlib.sha256(" ".join(words).encode())
    for path in code(module, virtual="--virtual" in words, root=root):
        found.update(f"\n{path.relative_to(root)}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:24]


def code(module: str, *, virtual: bool = False, root: Path = ROOT) -> list[Path]:
    """The files that decide what a module measures, in order."""
    start = _path(root, module)
    if start is None:
        raise ValueError(f"there is no module {module}")
    waiting, seen = [module, *(VIRTUAL if virtual and root == ROOT else ())], dict[str, Path]()
    while waiting:
        name = waiting.pop()
        path = _path(root, name)
        if path is None or name in seen:
            continue
        seen[name] = path
        waiting += [*_named(root, path), *RUNS.get(name, ())]
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    modules = set(seen.values())
    data = {file for folder in {path.parent for path in modules} - {root} for file in _data(folder)}
    return sorted(modules | data)


def _data(folder: Path) -> Iterator[Path]:
    """The programs and data of a package: such as those in C in controller/policies/core, which no module names."""
    for file in folder.iterdir():
        if file.is_dir() and not any(one.name != "__init__.py" for one in file.glob("*.py")):
            yield from _data(file)
        elif file.suffix in DATA:
            yield file


def _path(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def _named(root: Path, path: Path) -> tuple[str, ...]:
    """The modules of the project that a module imports, or names in a string."""
    return tuple(dict.fromkeys(name for name in _names(ast.parse(path.read_text())) if _ours(root, name)))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


def _ours(root: Path, name: str) -> bool:
    if not all(word.isidentifier() for word in name.split(".")):
        return False
    known = PACKAGES if root == ROOT else tuple(path.name for path in root.iterdir() if path.is_dir())
    return name != COMMANDS and name.split(".")[0] in known and _path(root, name) is not None
