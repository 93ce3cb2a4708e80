"""docs/security.md names tests that exist, in every row that claims a defence."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "security.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOCUMENT)


def names_in(path: Path) -> set[str]:
    """Every function whose name begins with `test`, also in classes."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_named_test_exists(file: str, name: str) -> None:
    assert (ROOT / file).exists(), file
    assert name in names_in(ROOT / file), f"{file} has no {name}"


def test_every_mention_of_a_test_names_one() -> None:
    """A file alone shows nothing, and a misspelt form would not be looked at above."""
    mentions = re.findall(r"`tests/[^`]*\.py[^`]*`", DOCUMENT)
    alone = {"`tests/unit/test_security_document.py`"}
    assert len([mention for mention in mentions if mention not in alone]) == len(NAMED) > 40


def test_every_threat_and_lie_has_a_test() -> None:
    tables = re.findall(r"^\| (?:threat|lie) \|.*?\n\|[-|]+\|\n((?:\|.*\n)+)", DOCUMENT, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 20
    assert not [row for row in rows if "`tests/" not in row.rsplit("|", 2)[1]]
