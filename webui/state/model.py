"""Turns the store's documents into the JSON documents that /api serves. Pure.

`Picture` is the part that depends on the fabric alone, made anew only when the fabric changes; `state` is the rest, made
twice a second.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from protocol.bodies.flows.size_bins import EDGES, bin_of
from protocol.messages import Cause
from protocol.units import MILLISECOND_NS
from topology.fabric import Fabric
from topology.paths import NoPathError, Routes
from topology.problems import FabricError
from topology.spanning_tree import Tree
from webui.state.groups import Groups
from webui.state.layout import places

Document = Mapping[str, Any]
FLOWS_MAX = 2_000
CAUSES = {int(cause): cause.name.lower() for cause in Cause}
REPORT_NS = 50 * MILLISECOND_NS
"""How often hosts report to a leader of the version before, which does not say it, unless it is configured otherwise."""
NO_LEADER = {
    "error": "no coordinator is alive: every gate is open, no host is coordinated",
    "remedy": "see `baton status` and coordinator.log on the controller; `baton up` starts it",
}
NO_FABRIC = {
    "error": "the fabric is not known yet",
    "remedy": "point the switches at the controller (docs/operating.md), or name a fabric file in the configuration",
}


class Picture:
    """A fabric as the dashboard draws it, and the position of each member in it."""

    def __init__(self, document: Document | None, version: int) -> None:
        """`document` is the store's; None, or one that can't be read, makes an empty fabric."""
        document = document or {}
        self.version = version
        self.document = document
        try:
            self.fabric = Fabric.from_dict(document["fabric"])
            self._routes = Routes(self.fabric, Tree.from_blocked(self.fabric, document.get("blocked", ())))
        except (FabricError, KeyError):
            self.fabric = Fabric.from_dict({"switches": [], "hosts": [], "links": []})
            self._routes = Routes(self.fabric, Tree.from_blocked(self.fabric, ()))
        fabric = self.fabric
        self.tree = self._routes.tree
        self._by_mac = {fabric.mac(host): host for host in fabric.hosts}
        self._by_address = {str(address): host for host in fabric.hosts for address in fabric.addresses(host)}
        self.rates = {(a, b): fabric.capacity_bps((a, b)) for link in fabric.links for a, b in link.directions}
        self.forwarding = {(a, b) for link in self._routes.tree.forwarding for a, b in link.directions}
        self._shape: dict[str, Any] | None = None
        self._groups: Groups | None = None

    @property
    def shape(self) -> dict[str, Any]:
        """Every node with its position, and every link."""
        if self._shape is None:
            self._shape = self._drawn()
        return self._shape

    @property
    def groups(self) -> Groups:
        """The fabric as groups that open."""
        if self._groups is None:
            self._groups = Groups(self.fabric, self.tree)
        return self._groups

    def grouped(self) -> dict[str, Any]:
        """The document `fabric` of a large fabric: its groups, how much there is of each kind, no single hosts and links."""
        fabric = self.fabric
        kinds = {"switches": fabric.switches, "hosts": fabric.hosts, "links": fabric.links, "blocked": self.tree.blocked}
        return {
            "version": self.version,
            "nodes": [],
            "links": [],
            "groups": self.groups.shape(),
            "counts": {name: len(found) for name, found in kinds.items()},
        }

    def host(self, member: Document) -> str:
        """A member's name in the fabric, found as the coordinator does by MAC address, IP address or name; or its own name."""
        found = self._by_mac.get(member.get("mac"))
        if found is None:
            addresses = member.get("addresses", ())
            found = next((self._by_address[one] for one in addresses if one in self._by_address), None)
        return found or str(member.get("name", ""))

    def path(self, source: str, destination: str) -> Sequence[tuple[str, str]]:
        """The directed links between two hosts on the active tree; empty if the position of either is not known."""
        try:
            return self._routes.path(source, destination)
        except NoPathError:
            return ()

    def _drawn(self) -> dict[str, Any]:
        fabric, forwarding = self.fabric, self.tree.forwarding
        nodes = [
            {
                "id": name,
                "kind": "host" if fabric.is_host(name) else "switch",
                "tier": tier,
                "x": x,
                "y": y,
                "vms": [str(one) for one in fabric.addresses(name)] if fabric.is_host(name) else [],
            }
            for name, (tier, x, y) in places(fabric).items()
        ]
        links = [
            {"id": f"{link.a}-{link.b}", "a": link.a, "b": link.b, "rate_bps": self.rates[link], "tree": link in forwarding}
            for link in sorted(fabric.links)
        ]
        return {"version": self.version, "nodes": nodes, "links": links}


def state(
    picture: Picture,
    documents: Mapping[str, Document | None],
    members: Mapping[int, Document],
    override: str | None,
    *,
    alive: bool,
    time_ms: int,
) -> dict[str, Any]:
    """The document `state`. `documents` are the store's by name; `alive`: whether the coordinator is alive."""
    status = documents.get("status") or {}
    names = {node: picture.host(told) for node, told in members.items()}
    flows = list(_flows(picture, members, names, status, free=override == "free"))
    return {
        "time_ms": time_ms,
        "coordinator": coordinator(documents, override, alive=alive),
        "links": links(picture, documents.get("ports"), status, flows),
        "members": [member(node, names[node], told) for node, told in members.items()],
        "flows": busiest(flows),
        "thresholds": thresholds(documents.get("thresholds")),
        "pfc": {names[node]: list(told["pfc"]) for node, told in members.items() if told.get("pfc")},
        "bypass": list(status.get("bypass", ())),
        "problem": problem_of(picture, alive=alive),
    }


def coordinator(documents: Mapping[str, Document | None], override: str | None, *, alive: bool) -> dict[str, Any]:
    """The part of the state about the leading coordinator."""
    status, policy = documents.get("status") or {}, documents.get("policy") or {}
    return {
        "alive": alive,
        "leader": str(status.get("leader") or (f"pid {status['pid']}" if "pid" in status else "")),
        "epoch": status.get("epoch", 0),
        "policy": status.get("policy", policy.get("policy", "")),
        "slice_ns": status.get("slice_ns", policy.get("slice_ns", 0)),
        "report_ms": status.get("report_ns", REPORT_NS) // MILLISECOND_NS,
        "override": (status.get("override") if alive else None) or override or "coordinate",
        **{name: status.get(name, 0) for name in ("late_slots", "slots", "acknowledged", "lost", "yields", "loop_busy")},
        "slot_slices": status.get("slot_slices", 1),
        "refused": {cause: count for cause, count in status.get("refused", {}).items() if count},
        "unplaced": list(status.get("unplaced", ())),
        "warnings": list(status.get("warnings", ())),
        "weights": [list(weight) for weight in status.get("weights", ())],
        "choices": list(status.get("choices", ())),
    }


def problem_of(picture: Picture, *, alive: bool) -> dict[str, str] | None:
    """The error and the remedy that the page shows above everything else."""
    return NO_LEADER if not alive else NO_FABRIC if not (picture.fabric.switches or picture.fabric.hosts) else None


def busiest(flows: list[dict[str, Any]], most: int = FLOWS_MAX) -> list[dict[str, Any]]:
    """At most `most` flows: those with the highest rate and backlog."""
    if len(flows) <= most:
        return flows
    return heapq.nlargest(most, flows, key=lambda flow: flow["rate_bps"] + 8 * flow["backlog_bytes"])


def thresholds(document: Document | None) -> dict[str, Any]:
    """The thresholds in force, and the flow sizes that they come from: [[upper bound in bytes, flows]]."""
    document = document or {}
    cuts = document.get("thresholds") or {}
    counts: dict[int, int] = {}
    for rows in document.get("sizes", {}).values():
        for least, flows, _ in rows:
            upper = EDGES[bin_of(least) + 1]
            counts[upper] = counts.get(upper, 0) + flows
    return {
        "version": document.get("version", 0),
        "beta_bytes": list(cuts.get("beta", ())),
        "alpha_bytes": list(cuts.get("alpha", ())),
        "sizes": [[upper, counts[upper]] for upper in sorted(counts)],
    }


def slots(rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """The coordinator's rows (controller/scheduling/telemetry.py) with named fields, as in /v1.0/schedule."""
    return [
        {
            "slot": slot,
            "node": node,
            "destination": destination,
            "start_us": start_us,
            "end_us": end_us,
            "bytes": size,
            "kind": kind,
        }
        for kind, slot, node, destination, start_us, end_us, size in rows
    ]


def event(entry: Document) -> dict[str, Any]:
    """The document `event`; it has `who` if the event is a user's action."""
    found = {name: entry[name] for name in ("id", "severity", "text", "kind")} | {"time_ms": entry["at_ms"]}
    return found | ({"who": entry["by"]} if "by" in entry else {})


def refused(entry: Document) -> dict[str, Any]:
    """The document `refused`: an event with the user and the address of a login, where it is not a sum of several."""
    return event(entry) | {name: entry[name] for name in ("user", "address") if name in entry}


# -- parts of the state -------------------------------------------------------------------------------------------------


def links(picture: Picture, ports: Document | None, status: Document, flows: list[dict[str, Any]]) -> dict[str, Any]:
    """The load of each direction of each link: from the switches' counters, or else from the hosts' reports."""
    contended = {tuple(link) for link in status.get("contended", ())}
    found = {}
    for reading in (ports or {}).get("links", ()):
        link = reading["source"], reading["target"]
        found[link] = load(reading["load_bps"], reading["rate_bps"], link in contended, reading["dropped"])
    if uncounted := picture.forwarding - found.keys():
        reported = dict.fromkeys(uncounted, 0)
        for flow in flows:
            for hop in picture.path(flow["source"], flow["destination"]):
                if hop in reported:
                    reported[hop] += flow["rate_bps"]
        for link, load_bps in reported.items():
            found[link] = load(load_bps, picture.rates[link], link in contended, 0)
    return {f"{source}>{target}": load for (source, target), load in found.items()}


def load(load_bps: int, rate_bps: int, contended: bool, drops: int) -> dict[str, Any]:
    return {"load": round(load_bps / max(1, rate_bps), 4), "bps": load_bps, "contended": contended, "drops": drops}


def member(node: int, host: str, told: Document) -> dict[str, Any]:
    """A member, as `schema.Member`; `told` is its document in the store."""
    refused = {CAUSES.get(int(cause), str(cause)): count for cause, count in told.get("refused", {}).items() if count}
    return {
        "node": node,
        "name": host,
        "enrolled": told.get("name", ""),
        "version": told.get("version", ""),
        "wire": told.get("wire"),
        "gate": told.get("gate", ""),
        "rate_bps": told.get("rate_bps", 0),
        "addresses": list(told.get("addresses", ())),
        "offset_us": told.get("offset_us"),
        "uncertainty_us": told.get("uncertainty_us"),
        "lateness_us": told.get("lateness_us", 0),
        "last_heard_ms": told.get("heard_ms_ago", 0),
        "slots": told.get("slots", 0),
        "late_slots": told.get("late_slots", 0),
        "yields": told.get("yields", 0),
        "refused": refused,
        "drift": list(told.get("drift", ())),
        "suspect": list(told.get("suspect", ())),
        "warnings": list(told.get("warnings", ())),
        "thresholds_version": told.get("thresholds_version"),
        "guest_marks": told.get("guest_marks"),
    }


def _flows(
    picture: Picture, members: Mapping[int, Document], names: Mapping[int, str], status: Document, *, free: bool
) -> Iterator[dict[str, Any]]:
    """The V2V flows between hosts that send or wait."""
    of_pair = {(source, destination): weight for source, destination, weight in status.get("weights", ())}
    contended = set() if free else {tuple(link) for link in status.get("contended", ())}
    for node, told in members.items():
        source = names[node]
        sent, backlog = told.get("sent_bps", {}), told.get("backlog_bytes", {})
        regulated = set(map(str, told["regulated"])) if "regulated" in told else None
        waiting = told.get("waiting_us", {})
        for to in sent.keys() | backlog.keys():
            destination = names.get(int(to), to)
            weight = of_pair.get((source, destination)) or of_pair.get((source, "")) if of_pair else None
            crosses = (
                any(hop in contended for hop in picture.path(source, destination)) if regulated is None else to in regulated
            )
            yield {
                "source": source,
                "destination": destination,
                "rate_bps": sent.get(to, 0),
                "backlog_bytes": backlog.get(to, 0),
                "regulated": crosses,
                "waiting_ms": waiting.get(to, 0) / 1000,
                "weight": weight or 1,
            }
