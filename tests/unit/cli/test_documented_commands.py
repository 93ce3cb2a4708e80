"""The documents name only commands and options that exist, and docs/operating.md names every command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.hosts.agent import agent
from cli.main import COMMANDS, main

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def lines_of(page: Path) -> Iterator[str]:
    """What stands between backticks or is set in by four blanks, each with single blanks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    code = [*re.findall(r"`([^`]+)`", text), *re.findall(r"^    (.*)$", text, re.M)]
    return (" ".join(one.replace("\\|", "|").split()) for one in code)


def faults(line: str) -> Iterator[str]:
    """What a line calls that `baton` does not have. A word in capitals stands for any command of its group."""
    for call in re.findall(r"(?:^|; |&& |\| |bin/)baton ([a-z][a-z-]*.*?)(?=$| && | \| |; | #)", line):
        words = call.partition(" -- ")[0].split()
        command: click.Command | None = main
        while isinstance(command, click.Group) and words and re.fullmatch("[a-z0-9-]+", words[0]) and words[0][0] != "-":
            command = command.get_command(click.Context(command), words[0])
            name = words.pop(0)
            if command is None:
                yield f"no command {name}: {call}"
        if command is None or isinstance(command, click.Group):
            continue
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
        named = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", " ".join(words))
        yield from (f"no option {one}: {call}" for one in named if one not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one_that_baton_takes(page: Path) -> None:
    assert [fault for line in lines_of(page) for fault in faults(line)] == []


def test_a_command_or_an_option_that_is_none_is_found() -> None:
    assert [*faults("baton check --jsn FILE"), *faults("baton queue ad"), *faults(".venv/bin/baton nothing")] == [
        "no option --jsn: check --jsn FILE", "no command ad: queue ad", "no command nothing: nothing",
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_the_operators_page_names_every_command(name: str) -> None:
    assert f"baton {name}" in OPERATING


def test_it_names_every_option_of_the_agent() -> None:
    row = next(line for line in OPERATING.splitlines() if line.startswith("| `baton agent "))
    assert [one.opts[0] for one in agent.params if one.opts[0] not in row] == []
