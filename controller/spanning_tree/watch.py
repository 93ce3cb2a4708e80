"""Tells the coordinator the active tree of switches that run a spanning tree protocol of their own, as it
changes. An edge, but for `OpenFlowPart` and `Tracker`, which are pure.

    python -m controller.spanning_tree.watch --config OPENFLOW.json        (BATON_REDIS: URL of the store)

The supervisor starts it when `sources` names anything but openflow. The fabric is the one written down; this
process finds which of its links are blocked. Every source is read once a second by a thread of its own, so
that one that doesn't answer delays no other. It publishes {"fabric": Fabric.to_dict(), "blocked": [[a, b]],
"sources": [...], "version": n}, and an event when the blocked links changed.

What is not known counts as forwarding, and what forwards must be free of loops. So the tree is the real one
or an error, never a wrong one: the links that really forward reach every switch, and one more makes a loop.

Errors keep the last tree: of a source that can't be read its last states count; while there is a loop
nothing is published. Each is an event once, and so is its end; a loop only after LOOP_PATIENCE_NS, since
sources are not read at one instant.

With openflow among the sources, a port forwards when everybody who reports it says so. The application's
word is on the links between two of its switches: those of its document that are not blocked there forward.
Its document is read from the store and replaced by the joined one, in one transaction, with its word as
"openflow": {"switches": [name], "forwarding": [[a, b]]}, so that a restart of this process loses nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from controller.config.settings import OpenFlowSettings, TreeSource
from controller.spanning_tree.port_states import PortState, TreeSourceError
from controller.spanning_tree.sources import reader, tree_from_port_states
from controller.spanning_tree.wiring import contradictions, with_ports
from controller.store.layout import PREFIX, put
from controller.store.store import Store, StoreUnavailable
from topology import files
from topology.fabric import Fabric, Link
from topology.problems import FabricError

log = logging.getLogger("baton.tree")

PERIOD_S = 1.0
SETTLE_S = 0.02
"""What comes within this time after a look is looked at together: no two watchers can flood a store."""
RETRY_S = 0.25
LOOP_PATIENCE_NS = 3_000_000_000
NOTES_KEPT = 256

Document = dict[str, Any]


class Note(NamedTuple):
    """An event for the operator."""

    kind: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class OpenFlowPart:
    """What the OpenFlow application says of the tree: its switches, and the links between them that
    forward."""

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
        """What a joined document carries."""
        return {"switches": sorted(self.switches), "forwarding": _pairs(self.forwarding)}

    def port_states(self, fabric: Fabric) -> Iterator[PortState]:
        """The same of every port with a name; one towards a host or a switch of others forwards."""
        for switch in self.switches.intersection(fabric.switches):
            for peer in fabric.neighbours(switch):
                if (port := fabric.port((switch, peer))) is not None:
                    forwards = peer not in self.switches or Link.between(switch, peer) in self.forwarding
                    yield PortState(switch, port, forwards)


class Tracker:
    """What every source said last, and the document that follows from it. Pure."""

    def __init__(self, fabric: Fabric, sources: Iterable[TreeSource]) -> None:
        sources = list(sources)
        self.read_sources = [source for source in sources if source.kind != "openflow"]
        self.notes: deque[Note] = deque(maxlen=NOTES_KEPT)
        self._joins_openflow = len(self.read_sources) < len(sources)
        self._openflow: OpenFlowPart | None = None
        self._fabric = fabric
        self._described = fabric.to_dict()
        self._states: dict[TreeSource, frozenset[PortState]] = {}
        self._unheard = set(self.read_sources)
        self._problems: set[TreeSource | str] = set()
        self._contradictions: set[str] = set()
        self._loop_since_ns: int | None = None
        self._blocked: list[list[str]] | None = None

    @property
    def looping(self) -> bool:
        """Whether what was last seen has a loop."""
        return self._loop_since_ns is not None

    def heard(self, source: TreeSource, states: frozenset[PortState]) -> bool:
        """Takes what a source said; returns whether that is new."""
        new = source in self._unheard or self._states.get(source) != states
        self._unheard.discard(source)
        self._states[source] = states
        self._solved(source, f"tree source {source} can be read again")
        return new

    def failed(self, source: TreeSource, problem: str) -> bool:
        """Takes note that a source could not be read; as `heard`. What it said before still counts."""
        new = source in self._unheard
        self._unheard.discard(source)
        self._problem(source, problem)
        return new

    def document(self, stored: Document | None, now_ns: int) -> Document | None:
        """What shall replace the stored document; None when nothing shall: it is right, or the tree is not
        known.

        Can be called again with another document before `published`.
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
        return None if stored == {**wanted, "version": version} else {**wanted, "version": version + 1}

    def published(self, document: Document) -> None:
        """Takes note that this is in the store now."""
        blocked = document["blocked"]
        if blocked != self._blocked:
            shown = ", ".join(f"{a} - {b}" for a, b in blocked) or "no link"
            self.notes.append(Note("tree", "info", f"the active tree has changed, blocked: {shown}"))
        self._blocked = blocked

    def _port_states(self) -> list[PortState]:
        """One of each port, which forwards if everybody says so."""
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
        """Takes from LLDP the ports that the file lacks, and notes where the two differ."""
        if (fabric := with_ports(self._fabric, states)) is not self._fabric:
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


class FabricStore(Store):
    """A store in which one writer can build upon what another has published."""

    def replace_fabric(self, change: Callable[[Document | None], Document | None]) -> Document | None:
        """Publishes what `change` makes of the fabric document, unless it makes None; returns that.

        Nobody publishes between: `change` is called again if somebody did. Unlike other documents, this one
        is not published again by itself when the store has lost it: it might hide another's newer one.

        Raises:
            StoreUnavailable: as every operation.
        """
        key = f"{PREFIX}fabric"

        def attempt(pipe: Any) -> Document | None:  # noqa: ANN401 -- see Store.__init__
            text = pipe.hget(key, "json")
            document = change(None if text is None else json.loads(text))
            pipe.multi()
            if document is not None:
                put(pipe, "fabric", "", document)
            return document

        def replace(client: Any) -> Document | None:  # noqa: ANN401 -- as above
            document: Document | None = client.transaction(attempt, key, value_from_callable=True)
            return document

        return self._call(replace)


class Heard(NamedTuple):
    """A source was read: its states, or the problem."""

    source: TreeSource
    states: frozenset[PortState] | None
    problem: str = ""


class Watcher:
    """Reads the sources and keeps the store's fabric right."""

    def __init__(self, tracker: Tracker, store: FabricStore) -> None:
        self._tracker = tracker
        self._store = store
        self._notices: queue.SimpleQueue[Heard | None] = queue.SimpleQueue()
        self._due = False
        self._available = True

    def run(self) -> None:
        """Serves until the process ends."""
        for source in self._tracker.read_sources:
            threading.Thread(target=self._read, args=(source,), daemon=True).start()
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            self._take(self._notices.get())
            while not self._notices.empty():
                self._take(self._notices.get())
            self._tell(time.monotonic_ns())
            time.sleep(SETTLE_S)

    def _read(self, source: TreeSource) -> None:
        read = reader(source)
        while True:
            began_s = time.monotonic()
            try:
                self._notices.put(Heard(source, read()))
            except TreeSourceError as error:
                self._notices.put(Heard(source, None, str(error)))
            except Exception as error:  # whatever its answer held, it may be better next time
                log.exception("tree source %s", source)
                problem = f"tree source {source}: {type(error).__name__}; see tree.log"
                self._notices.put(Heard(source, None, problem))
            time.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))

    def _listen(self) -> None:
        """Gives notice, as None, when somebody has published a fabric, or the store has come back."""
        while True:
            try:
                for _ in self._store.subscribe(("fabric",)):
                    self._notices.put(None)
            except StoreUnavailable:
                time.sleep(RETRY_S)

    def _take(self, notice: Heard | None) -> None:
        if notice is None:
            new = True
        elif notice.states is not None:
            new = self._tracker.heard(notice.source, notice.states)
        else:
            new = self._tracker.failed(notice.source, notice.problem)
        self._due |= new

    def _tell(self, now_ns: int) -> None:
        tracker, store = self._tracker, self._store
        try:
            if self._due or tracker.looping:
                if document := store.replace_fabric(lambda stored: tracker.document(stored, now_ns)):
                    tracker.published(document)
                self._due = False
            while tracker.notes:
                note = tracker.notes[0]
                store.publish_event(*note)
                log.log(logging.WARNING if note.severity == "warning" else logging.INFO, "%s", note.text)
                tracker.notes.popleft()
            self._available = True
        except StoreUnavailable as error:
            if self._available:
                log.warning("%s", error)
            self._available = False


def _pairs(links: Iterable[Link]) -> list[list[str]]:
    """Links as JSON carries them, sorted."""
    return [list(link) for link in sorted(links)]


def main(arguments: list[str] | None = None) -> int:
    """`python -m controller.spanning_tree.watch --config FILE`: FILE is `OpenFlowSettings` as JSON, as `baton up`
    writes it, with a fabric file.
    """
    parser = argparse.ArgumentParser(prog="tree_watch")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        settings = OpenFlowSettings.from_json(options.config.read_text(encoding="utf-8"))
        if settings.fabric_file is None:
            raise ValueError("fabric: is missing; sources other than openflow need its links and their ports")
        tracker = Tracker(files.load(settings.fabric_file), settings.sources)
        store = FabricStore(os.environ["BATON_REDIS"])
    except KeyError as error:
        parser.error(f"{error} is not in the environment; set it to the URL of the store")
    except (OSError, ValueError, FabricError, StoreUnavailable) as error:
        parser.error(str(error))
    Watcher(tracker, store).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
