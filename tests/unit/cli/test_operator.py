"""The name in the record of who ran a command."""

from __future__ import annotations

import getpass
import os

import pytest

from cli.values import operator


def test_a_user_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert operator() == f"uid {os.getuid()}"
