"""What is recorded of an operator's change when the store goes while it is made."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask

from controller.store.store import StoreUnavailable
from webui.http import control
from webui.http.errors import RequestRefused
from webui.http.schema import PolicyChange
from webui.settings import STORE


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"override": "free", "override": "coordinate"}', "override"),
        ('{"weights": [{"source": "h1", "weight": 2, "weight": 3}]}', "weight"),
        ('{"\\ud800": 1, "\\ud800": 2}', "?"),
    ],
)
def test_a_field_that_is_given_twice_is_refused_by_its_name(text: str, field: str) -> None:
    with (
        Flask("webui").test_request_context("/", method="PUT", data=text, content_type="application/json"),
        pytest.raises(RequestRefused, match=rf"^{re.escape(field)}: is given twice$"),
    ):
        control.body(PolicyChange)


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (StoreUnavailable("store: gone: start it"), 1),
        (TypeError("what the store holds is not as it should be"), 1),
        (RequestRefused("policy: there is no 'x'", "choose another"), 0),
    ],
)
def test_a_change_that_may_have_been_written_is_recorded_whatever_goes_wrong(
    monkeypatch: pytest.MonkeyPatch, error: Exception, recorded: int
) -> None:
    def apply(_: Any, __: Any, asked: Any) -> Any:  # noqa: ANN401 -- as `commands.apply`
        asked([])  # and, but where it is refused, the policy is written
        raise error

    told: list[str] = []
    monkeypatch.setattr(control, "apply", apply)
    monkeypatch.setattr(control, "poller", lambda: None)
    monkeypatch.setattr(control, "audit", lambda text, **_: told.append(text))
    app = Flask("webui")
    app.extensions[STORE] = None
    with app.test_request_context("/"), pytest.raises(type(error)):
        control.changed(lambda _: PolicyChange(slice_ns=4_000_000))
    assert len(told) == recorded and all("slice 4 ms" in one and str(error) in one for one in told)
