"""Files whose names are too long are refused before anything is measured."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.experiment_time import make_room
from cli.main import main

LONGEST = 255
"""Bytes of a file's name in Linux."""


@pytest.mark.parametrize("length", [LONGEST - 8, LONGEST, LONGEST + 1, 5_000])
def test_a_name_that_cannot_be_written_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(click.BadParameter, match="cannot be written: File name too long; name another file"):
        make_room(tmp_path / ("a" * length))


def test_a_long_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="cannot be written: File name too long; name another file"):
        make_room(tmp_path / ("a" * (LONGEST + 1)) / "record.json")


def test_a_long_name_that_can_be_written_is_taken(tmp_path: Path) -> None:
    make_room(tmp_path / f"{'a' * 200}.json")


def test_the_command_ends_with_one_line() -> None:
    found = CliRunner().invoke(main, ["bench", "policies", "--json", "a" * (LONGEST + 1)])
    assert found.exit_code == 2 and found.output.startswith("Error: ") and found.output.count("\n") == 1
