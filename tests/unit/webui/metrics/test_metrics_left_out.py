"""Metrics that can't be made of what the store holds keep back no others."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from controller.store.feeds import MembersRead, Snapshot
from controller.store.store import Store
from webui.app import create_app
from webui.settings import WebSettings

GOOD: dict[str, Any] = {
    "status": {"epoch": 7, "policy": "auto", "slice_ns": 2_000_000, "slots": 5, "late_slots": 1},
    "ports": {"links": [{"source": "s1", "target": "s2", "load_bps": 5, "rate_bps": 10, "dropped": 0}]},
    "thresholds": {"version": 3},
    "telemetry": {"free_bytes": 3, "waiting": {"bounds_us": [50, 100], "counts": [1, 2, 3], "sum_us": 9}},
}


def app_over(documents: dict[str, Any], member: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Flask:
    store = Store("unix:///nowhere.sock")
    names = ("status", "thresholds", "policy", "telemetry", "fabric", "ports")
    held = Snapshot(
        {**dict.fromkeys(names), **documents}, dict.fromkeys(names, 1), dict.fromkeys(names, 0), {7: member}, None, 0,
        MembersRead(),
    )  # fmt: skip
    monkeypatch.setattr(store.feeds, "snapshot", lambda *_, **__: held)
    return create_app(store, settings=WebSettings())


def families(app: Flask) -> dict[str, list[float]]:
    answer = app.test_client().get("/metrics")
    assert answer.status_code == 200
    return {one.name: [sample.value for sample in one.samples] for one in text_string_to_metric_families(answer.text)}


def test_of_a_store_that_is_as_it_should_be_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = families(app_over(GOOD, {"name": "h1"}, monkeypatch))
    assert found["baton_metrics_left_out"] == [0] and found["baton_slots_granted"] == [5]
    assert found["baton_thresholds_version"] == [3] and found["baton_link_load_ratio"] == [0.5]


@pytest.mark.parametrize(
    ("document", "field", "value", "lost"),
    [
        ("status", "epoch", "x", "baton_leader_epoch"),
        ("status", "policy", None, "baton_leader"),
        ("status", "slice_ns", [], "baton_slot_seconds"),
        ("status", "slots", {}, "baton_slots_granted"),
        ("status", "bypass", [{}], "baton_bypass_alarm"),
        ("ports", "refused", None, "baton_refused"),
        ("thresholds", "version", [], "baton_thresholds_version"),
        ("member", "gate", None, "baton_member_info"),
        ("telemetry", "free_bytes", "x", "baton_free_bytes"),
        ("telemetry", "waiting", 7, "baton_waiting_seconds"),
        ("telemetry", "waiting", {"counts": [1, 2, 3], "sum_us": 9}, "baton_waiting_seconds"),
        ("telemetry", "waiting", {"bounds_us": [50], "counts": [1], "sum_us": 9}, "baton_waiting_seconds"),
    ],
)
def test_what_one_field_spoils_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, document: str, field: str, value: object, lost: str
) -> None:
    """There were no metrics at all then: each scrape failed."""
    member: dict[str, Any] = {"name": "h1"}
    documents = {name: dict(one) for name, one in GOOD.items()}
    ({**documents, "member": member})[document][field] = value
    app = app_over(documents, member, monkeypatch)
    found = families(app)
    assert lost not in found and found["baton_metrics_left_out"] == [1]
    assert found["baton_slots_late"] == [1] and found["baton_link_load_ratio"] == [0.5]
    assert families(app).keys() == found.keys()
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("metrics that can't be made")
