"""Prometheus metrics at /metrics, read from the store at each request. An edge: HTTP.

Counters start at 0 with each coordinator; Prometheus' `rate` handles that as a restart.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

from flask import Blueprint, Response, current_app
from flask.typing import ResponseReturnValue
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from controller.store.store import StoreUnavailable
from protocol.bodies.text import printable
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
HISTOGRAMS = (
    ("baton_directive_latency_seconds", "directive_latency", "From a directive's due time until its gate opened."),
    ("baton_waiting_seconds", "waiting", "How long bytes waited for a slot."),
)
VERSIONS_MAX = 50
LEFT_OUT = "Parts of these metrics that can't be made of what the store holds."
TOLD = "baton.metrics"
"""What was left out the last time, in `Flask.extensions`."""

log = logging.getLogger("baton.web.metrics")


Part = Callable[[], Iterable[Metric]]
"""Makes some families. What the store holds may be such that it raises an error."""


@metrics.get("/metrics")
def exposition() -> ResponseReturnValue:
    """Serves the metrics in Prometheus' text format, without those that can't be made of what the store holds."""
    texts, wrong = [], []
    for part in _all(poller()):
        try:
            texts.append(generate_latest(_Made(part())))
        except Exception as error:
            wrong.append(printable(f"{type(error).__name__}: {str(error)[:80]}"))
    texts.append(generate_latest(_Made([_gauge("baton_metrics_left_out", LEFT_OUT, len(wrong))])))
    told, current_app.extensions[TOLD] = current_app.extensions.get(TOLD), wrong
    if wrong and wrong != told:
        log.error("metrics that can't be made of what the store holds are left out: write it anew (%s)", "; ".join(wrong))
    return Response(b"".join(texts), content_type=CONTENT_TYPE_LATEST)


class _Made(CollectorRegistry):
    """Families that are there already, as `generate_latest` takes them."""

    def __init__(self, made: Iterable[Metric]) -> None:
        super().__init__(auto_describe=False)
        self._made = list(made)

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._made


def _all(reader: Poller) -> Iterable[Part]:
    """All metrics from one reading of the store, or only `baton_store_up` 0 if the store does not answer."""
    try:
        reading = reader.read()
    except StoreUnavailable:
        return [lambda: [_gauge("baton_store_up", "Whether the store answers.", 0)]]
    return [
        lambda: [_gauge("baton_store_up", "Whether the store answers.", 1)],
        lambda: [_gauge("baton_dashboards", "Dashboards that are open.", reader.subscribers)],
        *parts(reading),
    ]


def parts(reading: Reading) -> list[Part]:
    """The metric families of one reading of the store, in parts: one that can't be made keeps back no other."""
    state, documents = reading.state, reading.snapshot.documents
    leader, large = state["coordinator"], "totals" in state
    telemetry = documents["telemetry"] or {}
    counts = [(leader, COUNTS), (telemetry, BYTES)]
    return [
        lambda: [_gauge("baton_coordinator_up", "Whether a coordinator is alive.", int(leader["alive"]))],
        lambda: [_info("baton_leader", "The leading coordinator and its policy.", leader, ("leader", "policy"))],
        lambda: [_gauge("baton_leader_epoch", "The leader's epoch.", leader["epoch"])],
        lambda: [
            InfoMetricFamily(
                "baton_config", "A hash of the published policy settings.", {"hash": config_hash(documents["policy"])}
            )
        ],
        lambda: [
            _gauge("baton_override_free", "Whether the operator opened every gate.", int(leader["override"] == "free"))
        ],
        lambda: _slice(leader),
        lambda: [_gauge("baton_loop_busy_ratio", "For which part of the time the loop of slots works.", leader["loop_busy"])],
        *(partial(_counted, told, count) for told, some in counts for count in some),
        *(partial(_histograms, telemetry, one) for one in HISTOGRAMS),
        lambda: [
            _gauge("baton_by_group", "Whether series are summed by group instead of one for each host and link.", int(large))
        ],
        *(_of_large(state) if large else _of_small(state)),
        lambda: _bypass(state["bypass"]),
        lambda: _refused(
            leader,
            [{"name": "members", "refused": state["totals"]["refused"]}] if large else state["members"],
            documents["ports"] or {},
        ),
        lambda: [
            _gauge("baton_thresholds_version", "Version of the sieving thresholds.", state["thresholds"]["version"])
        ],
    ]


def _of_large(state: Mapping[str, Any]) -> list[Part]:
    return [lambda: _summed(state)]


def _of_small(state: Mapping[str, Any]) -> list[Part]:
    return [
        lambda: _links(state["links"]),
        lambda: _members(state["members"]),
        lambda: _flows(state["flows"]),
        lambda: _pfc(state["pfc"]),
    ]


def _slice(leader: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge("baton_slice_seconds", "The slice that operators chose.", leader["slice_ns"] / 1e9)
    slot_s = leader["slot_slices"] * leader["slice_ns"] / 1e9
    yield _gauge("baton_slot_seconds", "How long a slot lasts: longer than a slice where there are too many.", slot_s)


def _info(name: str, text: str, told: Mapping[str, Any], fields: Iterable[str]) -> Metric:
    return InfoMetricFamily(name, text, {field: told[field] for field in fields})


def _counted(told: Mapping[str, Any], count: tuple[str, str, str]) -> Iterator[Metric]:
    name, field, text = count
    yield CounterMetricFamily(name, text, value=told.get(field, 0))


def _histograms(telemetry: Mapping[str, Any], one: tuple[str, str, str]) -> Iterator[Metric]:
    name, field, text = one
    if (histogram := telemetry.get(field)) is not None:
        yield _histogram(name, text, histogram)


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
    for name, its in _by_host(members).items():  # a host with two interfaces is two members
        host = [name]
        heard.add_metric(host, max(member["last_heard_ms"] for member in its) / 1000)
        if offsets := [member["offset_us"] for member in its if member["offset_us"] is not None]:
            offset.add_metric(host, max(offsets, key=abs) / 1e6)
        if doubts := [member["uncertainty_us"] for member in its if member["uncertainty_us"] is not None]:
            unsure.add_metric(host, max(doubts) / 1e6)
        late.add_metric(host, sum(member["late_slots"] for member in its))
        granted.add_metric(host, sum(member["slots"] for member in its))
        for kind in sorted({(member["version"], member["gate"]) for member in its}):
            version.add_metric([*host, *kind], 1)
        drift.add_metric(host, sum(len(member["drift"]) for member in its))
        suspect.add_metric(host, sum(len(member["suspect"]) for member in its))
    yield from (heard, offset, unsure, late, granted, version, drift, suspect)


def _by_host(members: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for member in members:
        found.setdefault(member["name"], []).append(member)
    return found


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
    counts = Counter[tuple[str, str]]()
    told = (("coordinator", leader["refused"]), ("switches", ports.get("refused", {})))
    for name, causes in (*told, *((member["name"], member["refused"]) for member in members)):
        for cause, count in causes.items():
            counts[name, cause] += count
    for labels, count in counts.items():
        refused.add_metric(labels, count)
    yield refused


def _pfc(hosts: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[Metric]:
    frames = CounterMetricFamily("baton_pfc_frames", "PFC frames.", labels=("host", "class", "direction"))
    paused = CounterMetricFamily("baton_pfc_paused_seconds", "How long a class was paused.", labels=("host", "class"))
    storms = CounterMetricFamily("baton_pfc_storms", "Pauses that were ended as storms.", labels=("host", "class"))
    counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in ("received", "sent", "paused_ms", "storms")}
    for host, classes in hosts.items():  # of all of its interfaces
        for one in classes:
            for name, count in counts.items():
                count[host, str(one["class"])] += one.get(name, 0)
    for labels in counts["sent"]:
        for direction in ("received", "sent"):
            frames.add_metric([*labels, direction], counts[direction][labels])
        paused.add_metric(labels, counts["paused_ms"][labels] / 1000)
        storms.add_metric(labels, counts["storms"][labels])
    yield from (frames, paused, storms)
