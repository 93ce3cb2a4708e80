"""A result that cannot be printed is in its file all the same."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cli.experiments import print_json


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
def test_an_output_that_takes_no_more_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def full(_: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("click.echo", full)
    with pytest.raises(OSError, match=os.strerror(number)):
        print_json({"measured": 1}, tmp_path / "result.json")
    assert (tmp_path / "result.json").read_text() == '{\n "measured": 1\n}\n'
