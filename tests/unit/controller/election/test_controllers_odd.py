"""What one controller reads of the others where the store holds what no Baton of this version writes."""

from __future__ import annotations

from typing import Any

import pytest

from controller.election.controllers import Controllers
from controller.store.store import Store

GOOD = {"attachment": "s1:s1-eth6", "mac": "02:00:00:00:00:0a"}


def test_a_controllers_document_without_a_place_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("unix:///nowhere")
    documents: dict[str, Any] = {"a": {}, "b": {"attachment": 5, "mac": None}, "c": GOOD, "own": {}}
    monkeypatch.setattr(store, "controllers", lambda: documents)
    assert Controllers(store, "own").others(0) == {"c": ("s1:s1-eth6", "02:00:00:00:00:0a")}


@pytest.mark.parametrize("epoch", [None, "", "x", "-1"])
def test_a_lease_without_an_epoch_names_no_leader(epoch: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("unix:///nowhere")
    monkeypatch.setattr(store.connection, "call", lambda _: ("a", epoch))
    assert Controllers(store, "own", standby=True).other_leads()
    assert Controllers(store, "own").leader() is None
