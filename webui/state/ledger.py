"""The state of a large fabric: sums by group, kept up to date from the members that changed, and lists made when asked for.

A fabric is large with more than `HOSTS` hosts or members, or more than `FLOWS` flows. Its document `state` has the sums only;
its members and flows are served in pages (webui/state/lists.py). Pure, but it keeps what it has been told.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controller.store.feeds import Snapshot
from webui.state import lists, model
from webui.state.groups import Crossed
from webui.state.link_sums import LinkSums
from webui.state.lists import Flow, Member
from webui.state.model import Picture

HOSTS, FLOWS = 400, 2_000
FEWER = 0.75
"""A fabric stays large until it has fewer flows than this part of `FLOWS`: a page would not bear to and fro."""
NAMED = 8
"""How many links, hosts and warnings the state names of each kind; it says how many more there are."""
PFC_HOSTS = 100
BYPASSED = 100
"""Links of `bypass`: those with an alarm first, of these and of the others those that most bytes crossed without permission."""


class Share(NamedTuple):
    """What one member adds to the sums of its group."""

    switch: str
    flows: int = 0
    regulated: int = 0
    rate_bps: int = 0
    backlog_bytes: int = 0
    waiting_us: int = 0
    odd: int = 0
    suspect: int = 0


class Ledger:
    """The members of one store over time, and sums of them."""

    def __init__(self) -> None:
        self.picture = Picture(None, 0)
        self.names: dict[int, str] = {}
        self.members: Mapping[int, Mapping[str, Any]] = {}
        self.large = False
        self._snapshot: Snapshot | None = None
        self._shares: dict[int, Share] = {}
        self._contended: list[Any] = []
        self._crossed: Crossed | None = None
        self._flows: list[Flow] | None = None
        self._loads: LinkSums | None = None
        self._loads_of: tuple[Any, list[Any]] = (None, [])
        self._by_group: tuple[dict[str, float], dict[str, int], dict[str, int]] = ({}, {}, {})

    def update(self, picture: Picture, snapshot: Snapshot) -> bool:
        """Takes a new snapshot; returns whether the fabric is large."""
        status = snapshot.documents["status"] or {}
        contended = [list(link) for link in status.get("contended", ())]
        changed, known = snapshot.members_read.changed, self._snapshot is not None and picture is self.picture
        moved = contended != self._contended
        if moved or not known:
            self._crossed = None
        uncounted = self._loads is not None and not self._loads.counted
        if not known or uncounted:
            self._loads = None
        self.picture, self.members, self._contended = picture, snapshot.members, contended
        names = self._named(picture, snapshot, None if not known else changed)
        override = None if self._snapshot is None else self._snapshot.override
        weighted = self._snapshot is None or _weights(self._snapshot) != _weights(snapshot)
        if not known or changed is None or names != self.names or snapshot.override != override:
            self._shares, stale = {}, list(snapshot.members)
        else:
            stale = [node for node in changed if node in snapshot.members]
            if moved:
                derived = (node for node, one in snapshot.members.items() if "regulated" not in one)
                stale = sorted({*stale, *derived})
            for node in self._shares.keys() - snapshot.members.keys():
                del self._shares[node]
        self.names, self._snapshot = names, snapshot
        if stale or not known or moved or weighted:
            self._flows = None
        for node in stale:
            self._shares[node] = self._share(node, snapshot.members[node])
        count = sum(share.flows for share in self._shares.values())
        self.large = (
            max(len(picture.fabric.hosts), len(snapshot.members)) > HOSTS or count > (FLOWS * FEWER if self.large else FLOWS)
        )
        return self.large

    def _named(self, picture: Picture, snapshot: Snapshot, changed: frozenset[int] | None) -> dict[int, str]:
        if changed is None:
            return {node: picture.host(member) for node, member in snapshot.members.items()}
        names = {node: self.names[node] for node in snapshot.members if node in self.names}
        names |= {node: picture.host(snapshot.members[node]) for node in changed if node in snapshot.members}
        return names

    def _share(self, node: int, told: Mapping[str, Any]) -> Share:
        sent, backlog = told.get("sent_bps", {}), told.get("backlog_bytes", {})
        to = sent.keys() | backlog.keys()
        return Share(
            self.picture.groups.home.get(self.names[node], ""),
            len(to),
            len(self._regulated(node, told, to)),
            sum(sent.values()),
            sum(backlog.values()),
            max(told.get("waiting_us", {}).values(), default=0),
            bool(told.get("suspect") or told.get("warnings") or told.get("drift")),
            bool(told.get("suspect")),
        )

    def _regulated(self, node: int, told: Mapping[str, Any], to: Iterable[str]) -> set[str]:
        """Of these destinations, those to which large flows need permission. A member that names none is asked of the tree."""
        if "regulated" in told:
            return set(map(str, told["regulated"])).intersection(to)
        if not self._contended or (self._snapshot is not None and self._snapshot.override == "free"):
            return set()
        if self._crossed is None:
            self._crossed = Crossed(self.picture.groups, self.picture.tree.parent, self._contended)
        source = self.names[node]
        return {one for one in to if self._crossed.crosses(source, self.names.get(int(one), one))}

    # -- lists ------------------------------------------------------------------------------------------------------------

    def flows(self) -> list[Flow]:
        """All flows; made once for each snapshot."""
        if self._flows is None:
            self._flows = [flow for node in self.members for flow in self.flows_of(node)]
        return self._flows

    def flows_of(self, node: int) -> list[Flow]:
        """The flows that one member sends."""
        assert self._snapshot is not None
        told, source = self.members[node], self.names[node]
        weights = {(one, other): weight for one, other, weight in _weights(self._snapshot)}
        sent, backlog, waiting = told.get("sent_bps", {}), told.get("backlog_bytes", {}), told.get("waiting_us", {})
        to = sent.keys() | backlog.keys()
        regulated = self._regulated(node, told, to)
        return [
            Flow(
                source,
                name := self.names.get(int(one), one),
                sent.get(one, 0),
                backlog.get(one, 0),
                one in regulated,
                waiting.get(one, 0) / 1000,
                (weights.get((source, name)) or weights.get((source, ""), 1)) if weights else 1,
            )
            for one in to
        ]

    def listed(self) -> list[Member]:
        """All members."""
        return [Member(node, self.names[node], told) for node, told in self.members.items()]

    # -- the state --------------------------------------------------------------------------------------------------------

    def state(self, *, alive: bool, time_ms: int) -> dict[str, Any]:
        """The document `state` of a large fabric: without lists of members and flows, and with `totals` and `groups`."""
        assert self._snapshot is not None
        snapshot, picture = self._snapshot, self.picture
        status = snapshot.documents["status"] or {}
        links = self.links()
        sums = list(self._shares.values())
        busy = links.busiest(NAMED)
        pfc = {self.names[node]: list(told["pfc"]) for node, told in self.members.items() if told.get("pfc")}
        bypass = list(status.get("bypass", ()))
        versions: dict[str, int] = {}
        refused: dict[str, int] = {}
        for told in self.members.values():
            for cause, number in told.get("refused", {}).items():
                if number:
                    word = model.CAUSES.get(int(cause), str(cause))
                    refused[word] = refused.get(word, 0) + number
            version = str(told.get("version", ""))
            versions[version] = versions.get(version, 0) + 1
        return {
            "time_ms": time_ms,
            "large": True,
            "coordinator": model.coordinator(snapshot.documents, snapshot.override, alive=alive),
            "totals": {
                "links": len(links),
                "contended": len(links.contended),
                "members": len(self.members),
                "odd": sum(share.odd for share in sums),
                "suspect": sum(share.suspect for share in sums),
                "versions": versions,
                "refused": refused,
                "flows": sum(share.flows for share in sums),
                "regulated": sum(share.regulated for share in sums),
                "rate_bps": sum(share.rate_bps for share in sums),
                "backlog_bytes": sum(share.backlog_bytes for share in sums),
                "waiting_ms": max((share.waiting_us for share in sums), default=0) / 1000,
                "pfc_hosts": len(pfc),
                "bypass": len(bypass),
                "bypass_alarms": sum(one["alarm"] for one in bypass),
            },
            "links": links.named([*busy, *sorted(links.contended)[:NAMED]]),
            "groups": self._groups(links),
            "members": [],
            "flows": [],
            "thresholds": model.thresholds(snapshot.documents["thresholds"]),
            "pfc": dict(heapq.nlargest(PFC_HOSTS, pfc.items(), key=lambda item: _paused(item[1]))),
            "bypass": heapq.nlargest(BYPASSED, bypass, key=lambda one: (one["alarm"], one["uncoordinated_bytes"])),
            "problem": model.problem_of(picture, alive=alive),
        }

    def links(self) -> LinkSums:
        """The loads of the links; made once for each document of ports and list of contended links, and for each snapshot where
        hosts must report what no switch counts."""
        assert self._snapshot is not None
        ports = self._snapshot.documents["ports"]
        if self._loads is None or self._loads_of[0] is not ports or self._loads_of[1] != self._contended:
            self._loads, self._loads_of = LinkSums(self.picture, ports, self._contended), (ports, self._contended)
            if not self._loads.counted:
                self._loads.report(self.flows())
            self._by_group = self._loads.by_group()
        return self._loads

    def _groups(self, links: LinkSums) -> dict[str, dict[str, Any]]:
        """What each group shows while it is closed: the load of the link to the switch above (`up`, and `down` from it), the
        highest load in it, and sums over its links and members."""
        groups = self.picture.groups
        most, contended, drops = self._by_group
        own = {name: dict.fromkeys(groups.of, 0) for name in ("members", "odd", "flows", "regulated", "backlog_bytes")}
        members, odd, flows, regulated, backlog = own.values()
        for share in self._shares.values():
            switch = share.switch
            if switch:
                members[switch] += 1
                odd[switch] += share.odd
                flows[switch] += share.flows
                regulated[switch] += share.regulated
                backlog[switch] += share.backlog_bytes
        sums = {name: groups.summed(values) for name, values in own.items()}
        return {
            switch: {
                "up": round(links.part(switch, group.above), 2),
                "down": round(links.part(group.above, switch), 2),
                "most": round(most[switch], 2),
                "contended": contended[switch],
                "drops": drops[switch],
                **{name: sums[name][switch] for name in own},
            }
            for switch, group in groups.of.items()
        }


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What differs between two states of a large fabric: the fields that differ, and of `groups` the entries that do."""
    found = {name: value for name, value in now.items() if name != "groups" and before.get(name) != value}
    old = before["groups"]
    if groups := {name: one for name, one in now["groups"].items() if old.get(name) != one}:
        found["groups"] = groups
    return found


def _weights(snapshot: Snapshot) -> list[Any]:
    return list((snapshot.documents["status"] or {}).get("weights", ()))


def _paused(classes: Iterable[Mapping[str, Any]]) -> tuple[int, float]:
    rows = list(classes)
    return sum(one.get("storms", 0) for one in rows), sum(one.get("paused_ms", 0) for one in rows)


def node_document(ledger: Ledger, name: str, listed: int) -> dict[str, Any] | None:
    """Everything about one node, for the dashboard's details: the groups to open, loads, queues and the hosts at a switch.

    `listed` is how many flows it names; None: there is no such node.
    """
    picture, links = ledger.picture, ledger.links()
    fabric, groups = picture.fabric, picture.groups
    if name not in fabric:
        return None
    near = [hop for other in fabric.neighbours(name) for hop in ((name, other), (other, name))]
    found: dict[str, Any] = {
        "id": name,
        "kind": "host" if fabric.is_host(name) else "switch",
        "way": groups.way(name),
        "ports": len(fabric.neighbours(name)),
        "blocked": [other for other in fabric.neighbours(name) if (name, other) not in picture.forwarding],
    }
    if fabric.is_host(name):
        node = next((number for number, host in ledger.names.items() if host == name), None)
        sent = sorted(ledger.flows_of(node), key=lambda flow: -flow.rate_bps) if node is not None else []
        incoming = [flow for flow in ledger.flows() if flow.destination == name]
        found |= {
            "vms": [str(one) for one in fabric.addresses(name)],
            "member": None if node is None else model.member(node, name, ledger.members[node]),
            "pfc": [] if node is None else list(ledger.members[node].get("pfc", ())),
            "flows": [flow._asdict() for flow in sent[:listed]],
            "sent": len(sent),
            "incoming": {"flows": len(incoming), "rate_bps": sum(flow.rate_bps for flow in incoming)},
        }
    else:
        by_name = {host: node for node, host in ledger.names.items()}
        found["hosts"] = [_host_at(ledger, links, host, name, by_name.get(host)) for host in groups.of[name].own]
    between = [hop for hop in near if hop[0] in groups.of and hop[1] in groups.of]  # a switch's hosts have loads of their own
    shown = links.named(near if fabric.is_host(name) else between)
    most = sorted(shown.items(), key=lambda item: -item[1]["load"])
    return found | {"links": dict(most[: 3 * NAMED]), "links_total": len(shown)}


def _host_at(ledger: Ledger, links: LinkSums, host: str, switch: str, node: int | None) -> dict[str, Any]:
    told = {} if node is None else ledger.members[node]
    up, down = (host, switch), (switch, host)
    return {
        "id": host,
        "up": round(links.part(*up), 3),
        "down": round(links.part(*down), 3),
        "contended": (up in links.contended) + (down in links.contended),
        "member": node is not None,
        "odd": len(lists.odd(told)),
    }
