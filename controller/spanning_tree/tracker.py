"""Joins the reports of all sources into one tree, and keeps track of their problems. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from controller.config.settings import TreeSource
from controller.spanning_tree.port_states import PortState
from controller.spanning_tree.sources import tree_from_port_states
from controller.spanning_tree.wiring import contradictions, with_ports
from controller.store.parts import split
from topology.fabric import Fabric, Link
from topology.problems import FabricError

LOOP_PATIENCE_NS = 3_000_000_000
"""How long a loop may last before it is an event: the sources are not read at the same instant."""
NOTES_KEPT = 256

Document = dict[str, Any]


class Note(NamedTuple):
    """An event for the operator."""

    kind: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class OpenFlowPart:
    """What the OpenFlow application reports of the tree: its switches, and the links between them that forward."""

    switches: frozenset[str]
    forwarding: frozenset[Link]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self | None:
        """The part in a document of the application, or in one it was joined into; None if that has none."""
        if "sources" in document:
            part = document.get("openflow")
            if part is None:
                return None
            forwarding = frozenset(Link.between(*pair) for pair in part["forwarding"])
            return cls(frozenset(part["switches"]), forwarding)
        switches = frozenset(switch["name"] for switch in document["fabric"]["switches"])
        links = frozenset(Link.between(link["a"], link["b"]) for link in document["fabric"]["links"])
        blocked = frozenset(Link.between(*pair) for pair in document["blocked"])
        return cls(switches, frozenset(link for link in links - blocked if switches.issuperset(link)))

    def to_dict(self) -> Document:
        """This part as a joined document has it."""
        return {"switches": sorted(self.switches), "forwarding": _pairs(self.forwarding)}

    def port_states(self, fabric: Fabric) -> Iterator[PortState]:
        """The same by port, for ports with a name; a port towards a host or a switch of another source forwards."""
        for switch in self.switches.intersection(fabric.switches):
            for peer in fabric.neighbours(switch):
                if (port := fabric.port((switch, peer))) is not None:
                    forwards = peer not in self.switches or Link.between(switch, peer) in self.forwarding
                    yield PortState(switch, port, forwards)


class Tracker:
    """The last report of every source, and the document that follows from them."""

    def __init__(self, fabric: Fabric, sources: Iterable[TreeSource]) -> None:
        sources = list(sources)
        self.read_sources = [source for source in sources if source.kind != "openflow"]
        self.notes: deque[Note] = deque(maxlen=NOTES_KEPT)
        self._joins_openflow = len(self.read_sources) < len(sources)
        self._openflow: OpenFlowPart | None = None
        self._file = self._fabric = fabric
        self._described = fabric.to_dict()
        self._states: dict[TreeSource, frozenset[PortState]] = {}
        self._unheard = set(self.read_sources)
        self._problems: set[TreeSource | str] = set()
        self._contradictions: set[str] = set()
        self._loop_since_ns: int | None = None
        self._blocked: list[list[str]] | None = None

    @property
    def looping(self) -> bool:
        """Whether the last reports have a loop."""
        return self._loop_since_ns is not None

    def heard(self, source: TreeSource, states: frozenset[PortState]) -> bool:
        """Takes the report of a source; returns whether it is new."""
        new = source in self._unheard or self._states.get(source) != states
        self._unheard.discard(source)
        self._states[source] = states
        self._solved(source, f"tree source {source} can be read again")
        return new

    def failed(self, source: TreeSource, problem: str) -> bool:
        """Takes the problem of a source that could not be read; returns as `heard`. Its last report still counts."""
        new = source in self._unheard
        self._unheard.discard(source)
        self._problem(source, problem)
        return new

    def document(self, stored: Document | None, now_ns: int) -> Document | None:
        """The document to store in place of the stored one; None when that is right, or the tree is not known.

        The caller may call it again with another document before `published`.
        """
        if stored is not None and self._joins_openflow:
            self._openflow = OpenFlowPart.of(stored) or self._openflow
        if self._unheard:
            return None
        states = self._port_states()
        self._learn_wiring(states)
        if not any(state.switch in self._fabric for state in states):
            names = ", ".join(sorted({state.switch for state in states})) or "none"
            self._problem("names", f"fabric: lacks the switches that report ({names}); name them alike")
            return None
        self._solved("names", "fabric: has switches that the sources report")
        try:
            blocked = _pairs(tree_from_port_states(self._fabric, states).blocked)
        except FabricError as error:
            if self._loop_since_ns is None:
                self._loop_since_ns = now_ns
            if now_ns - self._loop_since_ns >= LOOP_PATIENCE_NS:
                self._problem("loop", f"the last tree stays: {error}, with all its switches in sources")
            return None
        self._loop_since_ns = None
        self._solved("loop", "what forwards has no loop any more")
        wanted: Document = {"fabric": self._described, "blocked": blocked}
        wanted["sources"] = [str(source) for source in self.read_sources]
        if self._openflow is not None:
            wanted["openflow"] = self._openflow.to_dict()
        version = stored.get("version", 0) if stored is not None else 0
        same = stored is not None and split("fabric", stored) == split("fabric", {**wanted, "version": version})
        return None if same else {**wanted, "version": version + 1}

    def published(self, document: Document) -> None:
        """Takes note that this document is in the store now."""
        blocked = document["blocked"]
        if blocked != self._blocked:
            shown = ", ".join(f"{a} - {b}" for a, b in blocked) or "no link"
            self.notes.append(Note("tree", "info", f"the active tree has changed, blocked: {shown}"))
        self._blocked = blocked

    def _port_states(self) -> list[PortState]:
        """One state for each port, which forwards if all sources that report it say so."""
        said = [state for states in self._states.values() for state in states]
        if self._openflow is not None:
            said += self._openflow.port_states(self._fabric)
        joined: dict[tuple[str, str], PortState] = {}
        for state in said:
            before = joined.get((state.switch, state.port), state)
            forwarding, neighbour = state.forwarding and before.forwarding, state.neighbour or before.neighbour
            joined[state.switch, state.port] = state._replace(forwarding=forwarding, neighbour=neighbour)
        return list(joined.values())

    def _learn_wiring(self, states: Iterable[PortState]) -> None:
        """Takes ports that the file lacks from LLDP, and notes where the two differ."""
        if (fabric := with_ports(self._file, states, self._fabric)) is not self._fabric:
            self._fabric, self._described = fabric, fabric.to_dict()
        found = contradictions(self._fabric, states)
        for text in self._contradictions - set(found):
            self._solved(text, f"no longer so: {text.partition(';')[0]}")
        for text in found:
            self._problem(text, text)
        self._contradictions = set(found)

    def _problem(self, key: TreeSource | str, text: str) -> None:
        if key not in self._problems:
            self._problems.add(key)
            self.notes.append(Note("tree_source", "warning", text))

    def _solved(self, key: TreeSource | str, text: str) -> None:
        if key in self._problems:
            self._problems.discard(key)
            self.notes.append(Note("tree_source", "info", text))


def _pairs(links: Iterable[Link]) -> list[list[str]]:
    """Links as JSON carries them, sorted."""
    return [list(link) for link in sorted(links)]
