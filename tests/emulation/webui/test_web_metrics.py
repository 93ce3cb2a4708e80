"""/metrics of a filled store, read by Prometheus' own parser; and docs/grafana.json, which asks only for what is there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.webui.web_feed import Feed
from webui.app import create_app
from webui.settings import WebSettings

pytestmark = needs.REDIS

GRAFANA = Path(__file__).parents[3] / "docs" / "grafana.json"
WORDS = re.compile(r'"[^"]*"|\$\w+|\{\{\w+\}\}|[a-zA-Z_:][a-zA-Z0-9_:]*')
LANGUAGE = frozenset({"rate", "increase", "sum", "by", "topk", "histogram_quantile"})


@pytest.fixture
def families(tmp_path: Path) -> Iterator[dict[str, Metric]]:
    """Anew for each test: a coordinator whose status is a second old counts as lost."""
    with PrivateRedis(tmp_path) as redis:
        Feed.small(Store(redis.url))
        yield scraped(redis.url, tmp_path)


def scraped(url: str, directory: Path) -> dict[str, Metric]:
    """What /metrics of a web server over this store says."""
    client = create_app(Store(url), settings=WebSettings(users=directory / "users.json")).test_client()
    answer = client.get("/metrics")
    assert answer.status_code == 200 and answer.content_type.startswith("text/plain")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    """The one sample of this name with these labels among others."""
    found = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


class TestMetrics:
    """Numbers are those of the store."""

    def test_slots_by_what_became_of_them(self, families: dict[str, Metric]) -> None:
        assert value(families, "baton_slots_granted_total") == 12
        assert value(families, "baton_slots_yielded_total") == 2 and value(families, "baton_slots_late_total") == 1

    def test_the_length_of_slots_is_that_of_the_slice_while_the_loop_is_idle(self, families: dict[str, Metric]) -> None:
        assert value(families, "baton_slot_seconds") == value(families, "baton_slice_seconds") == 0.002
        assert value(families, "baton_loop_busy_ratio") == 0

    def test_slots_that_last_several_slices(self, tmp_path: Path) -> None:
        with PrivateRedis(tmp_path) as redis:
            Feed.small(Store(redis.url)).publish_status(slot_slices=4, loop_busy=0.31)
            told = scraped(redis.url, tmp_path)
        assert value(told, "baton_slot_seconds") == 0.008 and value(told, "baton_slice_seconds") == 0.002
        assert value(told, "baton_loop_busy_ratio") == 0.31

    def test_latency_is_a_histogram_whose_buckets_grow(self, families: dict[str, Metric]) -> None:
        samples = [one for one in families["baton_directive_latency_seconds"].samples if one.name.endswith("_bucket")]
        counts = [sample.value for sample in samples]
        assert counts == sorted(counts) and counts[-1] == 9 and samples[-1].labels["le"] == "+Inf"
        assert value(families, "baton_directive_latency_seconds_bucket", le="0.0001") == 6  # three opened 0.6 ms late
        assert value(families, "baton_directive_latency_seconds_count") == 9

    def test_links_members_refusals_and_pfc_have_labels(self, families: dict[str, Metric]) -> None:
        assert 0 <= value(families, "baton_link_load_ratio", source="h1", target="s1") <= 1
        assert value(families, "baton_refused_total", by="coordinator", cause="bad_tag") == 2
        assert value(families, "baton_refused_total", by="switches", cause="spoofed") == 4
        assert value(families, "baton_pfc_frames_total", host="h1", direction="received", **{"class": "3"}) == 5
        assert value(families, "baton_member_clock_uncertainty_seconds", host="h2") == pytest.approx(40e-6)

    def test_who_leads_and_under_which_configuration(self, families: dict[str, Metric]) -> None:
        assert value(families, "baton_coordinator_up") == value(families, "baton_store_up") == 1
        assert value(families, "baton_leader_epoch") == 1_700_000_000
        assert re.fullmatch("[0-9a-f]{16}", families["baton_config_info"].samples[0].labels["hash"])

    def test_bytes_with_and_without_permission(self, families: dict[str, Metric]) -> None:
        assert value(families, "baton_regulated_bytes_total") == 30_000 and value(families, "baton_free_bytes_total") == 60_000
        assert value(families, "baton_uncoordinated_bytes_total", source="s1", target="s2") == 7


class TestGrafana:
    """The dashboard in docs/ asks for metrics and labels that /metrics has."""

    def queries(self) -> list[tuple[str, str]]:
        panels: list[dict[str, Any]] = json.loads(GRAFANA.read_text())["panels"]
        return [(target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]]

    def test_every_query_is_of_metrics_that_exist(self, families: dict[str, Metric]) -> None:
        names = {sample.name for family in families.values() for sample in family.samples}
        labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
        assert len(self.queries()) > 20
        for expression, _ in self.queries():
            words = [word for word in WORDS.findall(expression) if word[0] not in '"$' and word not in LANGUAGE]
            assert [word for word in words if word.startswith("baton_")], expression
            unknown = [word for word in words if word not in names | labels]
            assert not unknown, f"{expression} asks for {unknown}"

    def test_every_legend_is_of_labels_that_its_metric_has(self, families: dict[str, Metric]) -> None:
        for expression, legend in self.queries():
            asked = set(re.findall(r"\{\{(\w+)\}\}", legend))
            metric = re.findall(r"baton_\w+", expression)[0]
            samples = [one for family in families.values() for one in family.samples if one.name == metric]
            assert all(asked <= sample.labels.keys() for sample in samples), (expression, legend)

    def test_panels_do_not_cover_each_other(self) -> None:
        places = [panel["gridPos"] for panel in json.loads(GRAFANA.read_text())["panels"]]
        cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
        assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_a_store_that_is_gone_is_a_metric_too(tmp_path: Path) -> None:
    settings = WebSettings(users=tmp_path / "users.json")
    client = create_app(Store(f"unix://{tmp_path}/none.sock"), settings=settings).test_client()
    began_s = time.monotonic()
    text = client.get("/metrics").text
    assert "baton_store_up 0.0" in text and "baton_slots" not in text and time.monotonic() - began_s < 3
