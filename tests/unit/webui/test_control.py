"""What is recorded of an operator's change when the store goes while it is made."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from controller.store.store import StoreUnavailable
from webui.http import control
from webui.http.schema import PolicyChange
from webui.settings import STORE


def test_a_change_that_may_have_been_written_is_recorded_when_the_store_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(_: Any, __: Any, asked: Any) -> Any:  # noqa: ANN401 -- as `commands.apply`
        asked([])  # and the policy is written
        raise StoreUnavailable("store: gone: start it")

    told: list[str] = []
    monkeypatch.setattr(control, "apply", apply)
    monkeypatch.setattr(control, "poller", lambda: None)
    monkeypatch.setattr(control, "audit", lambda text, **_: told.append(text))
    app = Flask("webui")
    app.extensions[STORE] = None
    with app.test_request_context("/"), pytest.raises(StoreUnavailable):
        control.changed(lambda _: PolicyChange(slice_ns=4_000_000))
    assert len(told) == 1 and "slice 4 ms" in told[0]
