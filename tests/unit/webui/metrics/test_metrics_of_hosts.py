"""A host with several interfaces has one series of each metric: two samples with the same labels are none to Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import Metric

from webui.http import metrics


def samples(families: Any) -> dict[tuple[str, ...], float]:  # noqa: ANN401 -- families of metrics
    """By name and labels. Raises AssertionError: there are two with the same."""
    found: dict[tuple[str, ...], float] = {}
    for family in families:
        assert isinstance(family, Metric)
        for one in family.samples:
            key = one.name, *one.labels.values()
            assert key not in found, key
            found[key] = one.value
    return found


def member(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- as the state has them
    plain = {"last_heard_ms": 5, "offset_us": 3, "uncertainty_us": 2, "late_slots": 1, "slots": 10}
    return {"name": name, "version": "1", "gate": "tbf", "drift": [], "suspect": [], "refused": {}, **plain, **fields}


def test_its_members_are_summed_and_the_worst_of_them_is_shown() -> None:
    both = [
        member("h1", drift=["x"], offset_us=-9, refused={"replay": 2}),
        member("h2", offset_us=None, uncertainty_us=None),
        member("h1", last_heard_ms=70, slots=5, gate="htb", suspect=["y"], uncertainty_us=8, refused={"replay": 3, "tag": 1}),
    ]
    found = samples(metrics._members(both))
    assert found["baton_member_silent_seconds", "h1"] == 0.07 and found["baton_member_silent_seconds", "h2"] == 0.005
    assert found["baton_member_clock_offset_seconds", "h1"] == -9e-6
    assert found["baton_member_clock_uncertainty_seconds", "h1"] == 8e-6
    assert ("baton_member_clock_offset_seconds", "h2") not in found
    assert found["baton_member_slots_granted_total", "h1"] == 15 and found["baton_member_slots_late_total", "h1"] == 2
    assert found["baton_member_info", "h1", "1", "tbf"] == found["baton_member_info", "h1", "1", "htb"] == 1
    assert found["baton_member_drift", "h1"] == found["baton_member_suspect", "h1"] == 1
    refused = samples(metrics._refused({"refused": {"tag": 4}}, both, {"refused": {"tag": 6}}))
    assert refused["baton_refused_total", "h1", "replay"] == 5 and refused["baton_refused_total", "coordinator", "tag"] == 4


def test_its_classes_of_pfc_are_summed() -> None:
    rows = [{"class": 3, "received": 1, "paused_ms": 500}, {"class": 3, "received": 2, "sent": 4, "storms": 1}, {"class": 4}]
    found = samples(metrics._pfc({"h1": rows}))
    frames = "baton_pfc_frames_total"
    assert found[frames, "h1", "3", "received"] == 3 and found[frames, "h1", "3", "sent"] == 4
    assert found["baton_pfc_paused_seconds_total", "h1", "3"] == 0.5 and found["baton_pfc_storms_total", "h1", "3"] == 1
    assert found[frames, "h1", "4", "sent"] == 0
