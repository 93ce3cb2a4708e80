"""Prometheus metrics at /metrics, read from the store at each request. An edge: HTTP.

Counters start at 0 with each coordinator; Prometheus' `rate` handles that as a restart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from flask import Blueprint, Response
from flask.typing import ResponseReturnValue
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from controller.store.store import StoreUnavailable
from webui.http.api import poller
from webui.state.poller import Poller, Reading

metrics = Blueprint("metrics", __name__)

COUNTS = (
    ("baton_slots_granted", "slots", "Slots that were granted."),
    ("baton_slots_acknowledged", "acknowledged", "Slots whose gate opened."),
    ("baton_slots_late", "late_slots", "Slots whose gate opened late."),
    ("baton_slots_lost", "lost", "Slots that were never acknowledged."),
    ("baton_slots_yielded", "yields", "Slots that were given back before their end."),
)
BYTES = (
    ("baton_regulated_bytes", "regulated_bytes", "Bytes that large flows sent with permission, as reported by agents."),
    ("baton_free_bytes", "free_bytes", "Bytes that large flows sent where no permission is needed, as reported by agents."),
    ("baton_telemetry_dropped_events", "dropped_events", "Slot events that the coordinator dropped so as not to delay slots."),
)


VERSIONS_MAX = 50


@metrics.get("/metrics")
def exposition() -> ResponseReturnValue:
    """Serves the metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreCollector(poller()))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class StoreCollector(Collector):
    """Collects all metrics from one reading of the store, or only `baton_store_up` 0 if the store does not answer."""

    def __init__(self, reader: Poller) -> None:
        self._reader = reader

    def collect(self) -> Iterable[Metric]:
        """Yields the metric families."""
        try:
            reading = self._reader.read()
        except StoreUnavailable:
            yield _gauge("baton_store_up", "Whether the store answers.", 0)
            return
        yield _gauge("baton_store_up", "Whether the store answers.", 1)
        yield _gauge("baton_dashboards", "Dashboards that are open.", self._reader.subscribers)
        yield from families(reading)


def families(reading: Reading) -> Iterator[Metric]:
    """The metric families of one reading of the store."""
    state, documents = reading.state, reading.snapshot.documents
    leader, large = state["coordinator"], "totals" in state
    yield _gauge("baton_coordinator_up", "Whether a coordinator is alive.", int(leader["alive"]))
    yield InfoMetricFamily(
        "baton_leader", "The leading coordinator and its policy.", {"leader": leader["leader"], "policy": leader["policy"]}
    )
    yield _gauge("baton_leader_epoch", "The leader's epoch.", leader["epoch"])
    yield InfoMetricFamily(
        "baton_config", "A hash of the published policy settings.", {"hash": config_hash(documents["policy"])}
    )
    yield _gauge("baton_override_free", "Whether the operator opened every gate.", int(leader["override"] == "free"))
    yield _gauge("baton_slice_seconds", "The slice that operators chose.", leader["slice_ns"] / 1e9)
    slot_s = leader["slot_slices"] * leader["slice_ns"] / 1e9
    yield _gauge("baton_slot_seconds", "How long a slot lasts: longer than a slice where there are too many.", slot_s)
    yield _gauge("baton_loop_busy_ratio", "For which part of the time the loop of slots works.", leader["loop_busy"])
    for name, field, text in COUNTS:
        yield CounterMetricFamily(name, text, value=leader[field])
    telemetry = documents["telemetry"] or {}
    for name, field, text in BYTES:
        yield CounterMetricFamily(name, text, value=telemetry.get(field, 0))
    for name, field, text in (
        ("baton_directive_latency_seconds", "directive_latency", "From a directive's due time until its gate opened."),
        ("baton_waiting_seconds", "waiting", "How long bytes waited for a slot."),
    ):
        if (histogram := telemetry.get(field)) is not None:
            yield _histogram(name, text, histogram)
    yield _gauge("baton_by_group", "Whether series are summed by group instead of one for each host and link.", int(large))
    if large:
        yield from _summed(state)
    else:
        yield from _links(state["links"])
        yield from _members(state["members"])
        yield from _flows(state["flows"])
        yield from _pfc(state["pfc"])
    yield from _bypass(state["bypass"])
    refusing = [{"name": "members", "refused": state["totals"]["refused"]}] if large else state["members"]
    yield from _refused(leader, refusing, documents["ports"] or {})
    yield _gauge("baton_thresholds_version", "Version of the sieving thresholds.", state["thresholds"]["version"])


def config_hash(policy: Mapping[str, Any] | None) -> str:
    """The first 16 digits of the SHA-256 of the published policy's canonical JSON."""
    return hashlib.sha256(json.dumps(policy, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _histogram(name: str, text: str, histogram: Mapping[str, Any]) -> HistogramMetricFamily:
    bounds = [*(str(bound_us / 1e6) for bound_us in histogram["bounds_us"]), "+Inf"]
    buckets = list(zip(bounds, accumulate(histogram["counts"]), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram["sum_us"] / 1e6)


def _links(links: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    labels = ("source", "target")
    load = GaugeMetricFamily("baton_link_load_ratio", "The load of a link as a part of its capacity.", labels=labels)
    rate = GaugeMetricFamily("baton_link_bits_per_second", "The load of a link.", labels=labels)
    contended = GaugeMetricFamily("baton_link_contended", "Whether hosts need permission to send across a link.", labels=labels)
    drops = GaugeMetricFamily("baton_link_drops", "Packets dropped between the last two readings of the port.", labels=labels)
    for name, link in links.items():
        ends = name.split(">", 1)
        load.add_metric(ends, link["load"])
        rate.add_metric(ends, link["bps"])
        contended.add_metric(ends, int(link["contended"]))
        drops.add_metric(ends, link["drops"])
    yield from (load, rate, contended, drops)


TOTALS = (
    ("baton_links_known", "links", "Directions of links whose load is known."),
    ("baton_links_contended", "contended", "Directions of links across which hosts need permission to send."),
    ("baton_members", "members", "Hosts with an agent."),
    ("baton_members_with_problems", "odd", "Hosts with an agent that have a problem."),
    ("baton_members_suspect", "suspect", "Hosts that send without permission, or of which other suspicious facts are known."),
    ("baton_links_bypassed", "bypass", "Links that bytes crossed without permission; the series by link are of the first 100."),
    ("baton_links_bypass_alarms", "bypass_alarms", "Those of them with an alarm, which come first."),
    ("baton_flows", "flows", "V2V flows."),
    ("baton_flows_regulated", "regulated", "V2V flows that need permission."),
    ("baton_flows_bits_per_second", "rate_bps", "The rate of all large flows."),
    ("baton_flows_backlog_bytes", "backlog_bytes", "Bytes that wait at all gates."),
)
BY_GROUP = (
    ("baton_group_load_ratio", "most", "The highest load of a link in a group, as a part of its capacity."),
    ("baton_group_up_load_ratio", "up", "The load of a group's link to the switch above, towards it."),
    ("baton_group_down_load_ratio", "down", "The load of a group's link to the switch above, from it."),
    ("baton_group_contended", "contended", "Contended directions of links in a group."),
    ("baton_group_drops", "drops", "Packets dropped in a group between the last two readings of the ports."),
    ("baton_group_members", "members", "Hosts with an agent in a group."),
    ("baton_group_members_with_problems", "odd", "Hosts of a group that have a problem."),
    ("baton_group_flows", "flows", "V2V flows that hosts of a group send."),
    ("baton_group_flows_regulated", "regulated", "Those of them that need permission."),
    ("baton_group_backlog_bytes", "backlog_bytes", "Bytes that wait at the gates of a group."),
)


def _summed(state: Mapping[str, Any]) -> Iterator[Metric]:
    """Of a large fabric: sums, and series by group (a switch with all below it), since series by host would be too many."""
    for name, field, text in TOTALS:
        yield _gauge(name, text, state["totals"][field])
    for name, field, text in BY_GROUP:
        family = GaugeMetricFamily(name, text, labels=("group",))
        for group, sums in state["groups"].items():
            family.add_metric([group], sums[field])
        yield family
    versions = GaugeMetricFamily("baton_members_by_version", "Hosts with an agent, by version.", labels=("version",))
    for version, count in sorted(state["totals"]["versions"].items())[:VERSIONS_MAX]:
        versions.add_metric([version], count)
    yield versions


def _bypass(crossed: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    labels = ("source", "target")
    text = "Bytes that crossed a link without permission while it was contended."
    without = CounterMetricFamily("baton_uncoordinated_bytes", text, labels=labels)
    alarm = GaugeMetricFamily("baton_bypass_alarm", "Whether these bytes exceed what measuring explains.", labels=labels)
    for link in crossed:
        ends = [link["source"], link["target"]]
        without.add_metric(ends, link["uncoordinated_bytes"])
        alarm.add_metric(ends, int(link["alarm"]))
    yield from (without, alarm)


def _members(members: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    heard = GaugeMetricFamily("baton_member_silent_seconds", "Time since an agent was last heard.", labels=("host",))
    offset = GaugeMetricFamily("baton_member_clock_offset_seconds", "The leader's clock minus the agent's.", labels=("host",))
    unsure = GaugeMetricFamily("baton_member_clock_uncertainty_seconds", "Uncertainty of the offset.", labels=("host",))
    late = CounterMetricFamily("baton_member_slots_late", "A host's slots whose gate opened late.", labels=("host",))
    granted = CounterMetricFamily("baton_member_slots_granted", "A host's slots that were granted.", labels=("host",))
    version = GaugeMetricFamily("baton_member_info", "An agent's version and gate.", labels=("host", "version", "gate"))
    drift = GaugeMetricFamily("baton_member_drift", "Queue settings that another program changed.", labels=("host",))
    suspect = GaugeMetricFamily("baton_member_suspect", "Suspicious facts about a host.", labels=("host",))
    for member in members:
        host = [member["name"]]
        heard.add_metric(host, member["last_heard_ms"] / 1000)
        if member["offset_us"] is not None:
            offset.add_metric(host, member["offset_us"] / 1e6)
        if member["uncertainty_us"] is not None:
            unsure.add_metric(host, member["uncertainty_us"] / 1e6)
        late.add_metric(host, member["late_slots"])
        granted.add_metric(host, member["slots"])
        version.add_metric([*host, member["version"], member["gate"]], 1)
        drift.add_metric(host, len(member["drift"]))
        suspect.add_metric(host, len(member["suspect"]))
    yield from (heard, offset, unsure, late, granted, version, drift, suspect)


def _flows(flows: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Totals for each host, since one series for each pair of hosts would be too many."""
    backlog: dict[str, int] = {}
    rate: dict[tuple[str, str], int] = {}
    for flow in flows:
        source, kind = flow["source"], "regulated" if flow["regulated"] else "free"
        backlog[source] = backlog.get(source, 0) + flow["backlog_bytes"]
        rate[source, kind] = rate.get((source, kind), 0) + flow["rate_bps"]
    waits = GaugeMetricFamily("baton_backlog_bytes", "Bytes that wait at a host's gates.", labels=("host",))
    sends = GaugeMetricFamily("baton_flow_bits_per_second", "The rate of a host's large flows.", labels=("host", "kind"))
    for host, size in backlog.items():
        waits.add_metric([host], size)
    for (host, kind), rate_bps in rate.items():
        sends.add_metric([host, kind], rate_bps)
    yield from (waits, sends)


def _refused(leader: Mapping[str, Any], members: Iterable[Mapping[str, Any]], ports: Mapping[str, Any]) -> Iterator[Metric]:
    refused = CounterMetricFamily("baton_refused", "Control frames that were refused.", labels=("by", "cause"))
    for cause, count in leader["refused"].items():
        refused.add_metric(["coordinator", cause], count)
    for cause, count in ports.get("refused", {}).items():
        refused.add_metric(["switches", cause], count)
    for member in members:
        for cause, count in member["refused"].items():
            refused.add_metric([member["name"], cause], count)
    yield refused


def _pfc(hosts: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[Metric]:
    frames = CounterMetricFamily("baton_pfc_frames", "PFC frames.", labels=("host", "class", "direction"))
    paused = CounterMetricFamily("baton_pfc_paused_seconds", "How long a class was paused.", labels=("host", "class"))
    storms = CounterMetricFamily("baton_pfc_storms", "Pauses that were ended as storms.", labels=("host", "class"))
    for host, classes in hosts.items():
        for one in classes:
            labels = [host, str(one["class"])]
            frames.add_metric([*labels, "received"], one.get("received", 0))
            frames.add_metric([*labels, "sent"], one.get("sent", 0))
            paused.add_metric(labels, one.get("paused_ms", 0) / 1000)
            storms.add_metric(labels, one.get("storms", 0))
    yield from (frames, paused, storms)
