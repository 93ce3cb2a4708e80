"""What `baton status` says of the controllers at one store."""

from __future__ import annotations

from typing import Any

import pytest

from cli.operate.status_view import show

FOUND: dict[str, Any] = {
    "processes": {}, "config_error": "", "fabric": None, "coordinator": None, "members": {}, "events": []
}  # fmt: skip


def controller(*, leads: bool) -> dict[str, Any]:
    return {"attachment": "s1:1", "mac": "02:00:00:00:00:01", "pid": 1, "leads": leads, "epoch": 3 if leads else 0}


@pytest.mark.parametrize(
    ("controllers", "told"),
    [
        ({"b:/b": controller(leads=False), "a:/a": controller(leads=True)}, "a:/a leads, epoch 3, b:/b stands by"),
        ({"b:/b": controller(leads=False)}, "b:/b stands by"),
    ],
)
def test_who_leads_and_who_stands_by_are_named(
    controllers: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(FOUND | {"controllers": controllers})
    assert told in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("controllers", [{}, {"a:/run/a": controller(leads=True)}])
def test_one_that_leads_alone_needs_no_line(controllers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    show(FOUND | {"controllers": controllers})
    assert "controllers" not in capsys.readouterr().out
