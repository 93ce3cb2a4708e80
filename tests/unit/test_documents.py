"""Documents, docstrings and comments name only files that exist."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "agents|bench|cli|controller|docs|ebpf|emulation|mininet|protocol|simulation|tests|topology|webui"
ENDINGS = "py|c|h|js|css|html|md|json|png|svg|txt|sh|yaml|yml|cfg|toml"
PATH = re.compile(rf"(?<![\w./<>-])(?:{FOLDERS})/(?:[\w.-]+/)*[\w.-]+\.(?:{ENDINGS})\b")
FOLDER = re.compile(rf"(?<![\w./<>-])(?:{FOLDERS})/(?:[\w-]+/)+(?![\w*{{<.])")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MODULE = re.compile(rf"(?<![\w./-])(?:{FOLDERS})(?:\.(?!md\b)[a-z_]+)+(?![\w/(])")
EXEMPT = re.compile(r"^ebpf/build/|\bNAME\b|/x\.py$")
"""What a build makes, placeholders, and the examples of tests."""


def tracked(*patterns: str) -> list[Path]:
    """The project's files of these patterns; in a tree without git, what is there."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = done.stdout.split() if done.returncode == 0 else []
    found = [ROOT / name for name in names] or [path for pattern in patterns for path in ROOT.rglob(pattern)]
    return sorted(path for path in found if path.exists() and ".venv" not in path.parts)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a document; of a module its docstrings and comments alone, for strings may name what a test makes."""
    content = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(content.splitlines(), 1)
        return
    for node in statements(ast.parse(content)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.splitlines(), node.lineno)
    if any(names(line.partition("#")[2]) for line in content.splitlines()):  # else no comment can: tokens take long
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements in a module, without going through what expressions consist of."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from statements(node)


def names(line: str) -> bool:
    """Whether it names a file, a folder or a module."""
    return any(pattern.search(line) for pattern in (PATH, FOLDER, MODULE))


def is_module(name: str) -> bool:
    """Whether a dotted name is a module's, or begins with one and goes on with what the module has."""
    words = name.split(".")
    for length in range(len(words), 1, -1):
        path = ROOT.joinpath(*words[:length])
        if path.with_suffix(".py").is_file():
            return length == len(words) or words[length] in path.with_suffix(".py").read_text()
        if path.is_dir():
            return length == len(words)
    return False


def dangling(path: Path, line: str) -> Iterator[str]:
    """What a line names that is not there."""
    files = {*PATH.findall(line), *FOLDER.findall(line)}
    yield from (name for name in files if not (ROOT / name).exists() and not EXEMPT.search(name))
    if path.suffix == ".md":
        targets = (target for target in LINK.findall(line) if not target.startswith("<"))
        yield from (target for target in targets if not (path.parent / target).exists())
    if path.suffix in (".md", ".py"):
        yield from (name for name in MODULE.findall(line) if not is_module(name))


def test_all_files_that_documents_and_comments_name_exist() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number} names {name}"
        for path in tracked("*.md", "*.py", "*.c", "*.h", "*.js", "Makefile")
        for number, line in texts(path)
        for name in dangling(path, line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "see agents/nowhere.py",
        "its folder controller/nowhere/",
        "[it](nowhere.md)",
        "run `python -m controller.nowhere`",
        "`agents.agent.Nothing.at_all`".lower(),
    ],
)
def test_a_dangling_name_is_found(line: str) -> None:
    assert list(dangling(ROOT / "docs" / "architecture.md", line))


@pytest.mark.parametrize(
    "line", ["agents/agent.py", "controller/policies/", "[it](architecture.md)", "`controller.policies.base`", "bench/NAME.py"]
)
def test_names_of_existing_files_and_modules_are_not_dangling(line: str) -> None:
    assert not list(dangling(ROOT / "docs" / "architecture.md", line))
