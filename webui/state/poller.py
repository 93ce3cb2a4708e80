"""The only reader of the store, which all requests and streams share. An edge: the store, the clock, a thread.

While a dashboard is subscribed, a thread reads the state twice a second (that of a very large fabric once), and the schedule
and the events four times. It encodes each message once and puts it into every subscriber's queue. A subscriber that falls
behind loses the messages in its queue and gets the whole state again. Without subscribers, only requests read the store.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from controller.store.feeds import SLOTS_KEPT
from controller.store.layout import FLUSH_NS
from controller.store.store import EVENTS_KEPT, Snapshot, Store, StoreUnavailable
from protocol.bodies.text import printable
from webui.state import ledger, model
from webui.state.ledger import Ledger
from webui.state.lists import Wanted
from webui.state.liveness import Liveness
from webui.state.model import Picture
from webui.state.subscription import Subscription, after, ids, message
from webui.state.window import KEPT_US, Window

TICK_S = 0.25
STATE_TICKS, STATE_TICKS_MAX = 2, 4
"""Ticks between two messages of the state: more of them if the fabric is so large that encoding it takes long."""
STATE_PART = 0.01
"""The part of a processor that the state may take."""
FRESH_NS = 250_000_000
"""How long a reading may be used again."""
HEAVY_PART = 0.04
"""The part of a processor that reading the members and ports of a large fabric may take: they are read that seldom."""
HEAVY_MAX_NS = 5_000_000_000
"""But at least so often."""
KNOWN_NS = 10_000_000_000
"""How old the groups of a large fabric may be that a page begins with."""
LARGE_FRESH_NS = 900_000_000
"""The same on a large fabric, whose state is told once a second."""
ODD = ("ports", "members", "telemetry", "thresholds", "policy", "status", "fabric")
"""What a dashboard can do without, if something in it is missing: the first of these without which all else can be shown."""
QUEUED_MAX = 64
FIRST_EVENTS = 100
FIRST_BATCHES = 80
WINDOW_BATCHES = KEPT_US * 1000 // FLUSH_NS + 1
IDLE_S = 1.0

log = logging.getLogger("baton.web.poller")


class Reading(NamedTuple):
    """A snapshot of the store, and the documents made from it."""

    snapshot: Snapshot
    picture: Picture
    alive: bool
    state: dict[str, Any]
    fabric: dict[str, Any]
    """The document `fabric`: of a large fabric its groups, else every node and link."""


class Poller:
    """Reads the store for one application. Any thread may call any method."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._seen: Snapshot | None = None
        """What the store held in that reading, also what was left out of it."""
        self._odd = ""
        """Which document was left out of it, and why."""
        self._read_ns = 0
        self._failed: StoreUnavailable | None = None
        self._ledger = Ledger()
        self._heavy_ns = 0
        """When the members and ports of a large fabric are to be read again."""
        self._window = Window()
        self._liveness = Liveness()
        self._subscribers: list[Subscription] = []
        self._subscribing = threading.Lock()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._batch_id: str | None = None
        self._event_id: str | None = None
        self._listing = threading.Lock()
        self._told: Reading | None = None
        """What all subscribers have been told."""
        self.stumbled = 0
        """How often something else than a missing store has kept it from telling subscribers the news."""
        self._clock_us = (0, 0)
        """The coordinator's clock in its last message, and ours at that time, in microseconds."""

    # -- for requests -------------------------------------------------------------------------------------------------

    def read(self, fresh_ns: int = FRESH_NS) -> Reading:
        """A reading at most `fresh_ns` old. Raises StoreUnavailable, also if the last attempt failed within `fresh_ns`."""
        with self._lock:
            now_ns = time.monotonic_ns()
            if fresh_ns and self._ledger.large:
                fresh_ns = LARGE_FRESH_NS
            if now_ns - self._read_ns < fresh_ns:
                if self._failed is not None:
                    raise self._failed
                if self._reading is not None:
                    return self._reading
            self._failed = None  # whatever happens now, it is not the fault of before
            try:
                self._reading = self._look()
            except StoreUnavailable as error:
                self._failed = error
                raise
            finally:
                self._read_ns = time.monotonic_ns()
            return self._reading

    def fabric(self) -> dict[str, Any]:
        """The document `fabric`. Raises StoreUnavailable.

        That of a large fabric may be `KNOWN_NS` old: a page that opens does not wait until thousands of members have been read,
        and the stream tells it what has changed.
        """
        reading = self._reading
        if reading is not None and "groups" in reading.fabric and time.monotonic_ns() - self._read_ns < KNOWN_NS:
            return reading.fabric
        return self.read().fabric

    @contextlib.contextmanager
    def listing(self) -> Iterator[tuple[Reading, Ledger]]:
        """A reading, and its members and flows, which stay the same inside the block. Raises StoreUnavailable."""
        with self._listing:
            reading = self.read()
            with self._lock:
                yield reading, self._ledger

    def timeline(self, wanted: Wanted, batches: int) -> dict[str, Any]:
        """A page of the hosts that had slots in the last seconds, with these slots: all that are known, or those of about the
        last `batches`. Raises StoreUnavailable."""
        with self._listing:
            reading, window = self.read(), self._window
            found = self._store.feeds.slots_after(window.last_id, WINDOW_BATCHES)
            if len(found) == WINDOW_BATCHES and window.last_id is not None:  # nobody has looked for long
                window = self._window = Window()
                found = self._store.feeds.slots_after(None, WINDOW_BATCHES)
            window.add(found)
            names = self._ledger.names
            page = window.page(lambda node: names.get(node, f"node {node}"), wanted)
        since_us = window.now_us - batches * FLUSH_NS // 1000
        rows = [row for host in page.rows for row in host.pop("slots") if row[5] >= since_us]
        telemetry = reading.snapshot.documents["telemetry"] or {}
        nodes = {row[2] for row in rows} | {row[3] for row in rows}
        told = {node: names[node] for node in nodes if node in names}
        return page.document(now_us=window.now_us, slots=rows, names=told, dropped=telemetry.get("dropped_events", 0))

    def schedule(self, batches: int = FIRST_BATCHES) -> dict[str, Any]:
        """The last slots and their outcomes, in rows of controller/scheduling/telemetry.py. Raises StoreUnavailable."""
        found = self._store.feeds.slots_after(None, batches)
        rows = [row for _, batch in found for row in batch["rows"]]
        return {"now_us": found[-1][1]["now_us"] if found else 0, "rows": rows}

    def events(self, count: int) -> list[dict[str, Any]]:
        """The last events as documents `event`, oldest first. Raises StoreUnavailable."""
        return [model.event(entry) for entry in self._store.feeds.events_after(None, count)]

    def audit(self, count: int) -> list[dict[str, Any]]:
        """The last actions of operators as documents `event`, oldest first. Raises StoreUnavailable."""
        return [model.event(entry) for entry in self._store.feeds.audit(count)]

    def refused(self, count: int) -> list[dict[str, Any]]:
        """The last refused logins as documents `refused`, oldest first. Raises StoreUnavailable."""
        return [model.refused(entry) for entry in self._store.feeds.refused(count)]

    def _look(self) -> Reading:
        before = self._reading
        if self._odd:  # the ledger lacks what was left out, and a reading tells only what has changed
            before, self._ledger = None, Ledger()
        now_ns, begun_ns = time.monotonic_ns(), time.thread_time_ns()
        light = before is not None and self._ledger.large and now_ns < self._heavy_ns
        snapshot = self._seen = self._store.feeds.snapshot(self._seen, light=light)
        try:
            reading, odd = self._made(before, snapshot), ""
        except Exception as error:
            reading, odd = self._made_without(snapshot, error)
        if odd and odd != self._odd:
            log.error("%s", odd)
        self._odd = odd
        reading.state["coordinator"]["warnings"] += [*self._store.connection.unread.lines(), *([odd] if odd else [])]
        if not light:
            same = before is not None and reading.picture is before.picture
            cost_ns = time.thread_time_ns() - begun_ns if same else 0  # a new fabric costs once
            self._heavy_ns = now_ns + min(HEAVY_MAX_NS, round(cost_ns / HEAVY_PART))
        return reading

    def _made_without(self, snapshot: Snapshot, error: Exception) -> tuple[Reading, str]:
        """A reading without the documents of `ODD` that can't be shown, and what to do: without one of them if that is enough,
        else without more and more. Raises the error if none of them is to blame."""
        why, out = printable(f"{type(error).__name__}: {error}"), list[str]()
        for names in (*([name] for name in ODD), *(list(ODD[:many]) for many in range(2, len(ODD) + 1))):
            with contextlib.suppress(Exception):
                self._without(snapshot, names)
                out = names
                break
        else:
            self._ledger = Ledger()  # without what the last try left in it
            raise error
        for name in out[:-1]:  # not to blame, it may be
            with contextlib.suppress(Exception):
                self._without(snapshot, rest := [one for one in out if one != name])
                out = rest
        return self._without(snapshot, out), (
            f"{' and '.join(out)} in the store can't be shown, and {'is' if len(out) == 1 else 'are'} left out: write "
            f"{'it' if len(out) == 1 else 'them'} anew ({why})"
        )

    def _without(self, snapshot: Snapshot, names: list[str]) -> Reading:
        left_out: dict[str, Any] = {name: None for name in names if name != "members"}
        rest = snapshot._replace(documents={**snapshot.documents, **left_out})
        self._ledger = Ledger()
        return self._made(None, rest._replace(members={}) if "members" in names else rest)

    def _made(self, before: Reading | None, snapshot: Snapshot) -> Reading:
        document = snapshot.documents["fabric"]
        same = before is not None and document is before.snapshot.documents["fabric"]
        picture = before.picture if before is not None and same else Picture(document, snapshot.versions["fabric"])
        age_ns = snapshot.time_ns - snapshot.at_ns["status"]
        period_ns = int((snapshot.documents["status"] or {}).get("period_ns", 0))
        alive = self._liveness.alive(snapshot.versions["status"], age_ns, now_ns=time.monotonic_ns(), period_ns=period_ns)
        time_ms = snapshot.time_ns // 1_000_000
        was = self._ledger.large
        if self._ledger.update(picture, snapshot):
            state = self._ledger.state(alive=alive, time_ms=time_ms)
            fabric = before.fabric if before is not None and was and picture is before.picture else picture.grouped()
        else:
            state = model.state(
                picture, snapshot.documents, snapshot.members, snapshot.override, alive=alive, time_ms=time_ms
            )
            fabric = picture.shape
        return Reading(snapshot, picture, alive, state, fabric)

    # -- for streams --------------------------------------------------------------------------------------------------

    @property
    def subscribers(self) -> int:
        """The number of subscribers."""
        return len(self._subscribers)

    def subscribe(self, last_id: str | None = None) -> Subscription:
        """Adds a subscriber; it gets what came after the message with the id `last_id`, as far as the store still has it."""
        subscription = Subscription(last_id)
        with self._subscribing:
            self._subscribers.append(subscription)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="poller", daemon=True)
                self._thread.start()
        self._arrived.set()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Removes a subscriber."""
        with self._subscribing:
            self._subscribers.remove(subscription)

    def _run(self) -> None:
        tick, state_tick, empty_s = 0, 0, 0.0
        told: Reading | None = None
        due_s = time.monotonic()
        while True:
            with self._subscribing:
                subscribers = list(self._subscribers)
                empty_s = 0.0 if subscribers else empty_s + TICK_S
                if empty_s > IDLE_S:
                    self._thread = self._batch_id = self._event_id = None
                    return
            if subscribers:
                begun_s, with_state = time.thread_time(), tick >= state_tick
                try:
                    told = self._tell(subscribers, told, with_state=with_state)
                except Exception:  # the next reading may be a better one
                    told = self._told = None
                    self._stumble()
                if with_state:
                    state_tick = tick + state_ticks(time.thread_time() - begun_s)
            tick += 1
            due_s = max(due_s + TICK_S, time.monotonic())
            while self._arrived.wait(max(0.0, due_s - time.monotonic())):
                self._arrived.clear()
                self._welcome()

    def _welcome(self) -> None:
        """Serves subscribers that came between two ticks at once: a page is empty until its first message."""
        with self._subscribing:
            fresh = [one for one in self._subscribers if not one.begun]
        if not fresh or self._batch_id is None:
            return  # the store could not be read yet; the next tick tries again
        try:
            self._begin(fresh)
        except StoreUnavailable as error:
            for one in fresh:
                self._put(one, [message("state", lost(error))])
        except Exception:  # the next tick tries again
            self._stumble()

    def _stumble(self) -> None:
        self.stumbled += 1
        if self.stumbled == 1:  # it may happen four times a second
            log.exception("the dashboards cannot be told what the store holds")

    def _tell(self, subscribers: list[Subscription], told: Reading | None, *, with_state: bool) -> Reading | None:
        """Reads the store and puts new messages into the queues; returns the last reading that was sent."""
        fresh = [one for one in subscribers if not one.begun]
        old = [one for one in subscribers if one.begun]
        messages: list[bytes] = []
        try:
            messages += self._news()
            if with_state:
                reading = self.read(FRESH_NS // 2)
                if told is None or reading.fabric is not told.fabric:
                    messages.append(message("fabric", reading.fabric))
                    messages.append(message("state", reading.state))
                elif reading.state.get("large"):
                    messages.append(message("change", ledger.changes(told.state, reading.state)))
                else:
                    messages.append(message("state", reading.state))
                told = self._told = reading
            if fresh:
                self._begin(fresh)
        except StoreUnavailable as error:
            told = self._told = None
            if with_state or fresh:
                messages.append(message("state", lost(error)))  # after the news, which are not read again
                for one in fresh:
                    self._put(one, messages[-1:])
        for one in old:
            self._put(one, messages)
        return told

    def _begin(self, fresh: list[Subscription]) -> None:
        """Sends new subscribers the fabric, the state, and the schedule and events that the others already have."""
        reading = self._told or self.read()  # a change is of what was told last
        whole = [message("fabric", reading.fabric), message("state", reading.state)]
        for one in fresh:
            event_id, batch_id = ids(one.last_id)
            events = self._store.feeds.events_after(event_id, FIRST_EVENTS if event_id is None else EVENTS_KEPT)
            missed = FIRST_BATCHES if batch_id is None else 2 * SLOTS_KEPT  # the store keeps a few more than it says
            batches = [] if self._ledger.large else self._store.feeds.slots_after(batch_id, missed)
            rows = [row for _, batch in batches for row in batch["rows"]]
            told = [self._event(entry) for entry in events if not after(entry["id"], self._event_id)]
            self._put(one, [b"retry: 1000\n\n", *whole, self._schedule(rows), *told])
            one.begun = True

    def _news(self) -> list[bytes]:
        """Messages with the schedule and the events since the last call."""
        first, large = self._batch_id is None, self._ledger.large
        batches = self._store.feeds.slots_after(None if large else self._batch_id, 1 if first or large else FIRST_BATCHES)
        events = self._store.feeds.events_after(self._event_id, 1 if self._event_id is None else FIRST_EVENTS)
        if batches:
            self._batch_id = batches[-1][0]
            self._clock_us = batches[-1][1]["now_us"], time.monotonic_ns() // 1000
        elif first:
            self._batch_id = "0-0"
        if events:
            self._event_id = events[-1]["id"]
        elif first:
            self._event_id = self._event_id or "0-0"
        rows = [] if large else [row for _, batch in batches for row in batch["rows"]]  # a page asks for those that it shows
        return [*(self._event(entry) for entry in events), self._schedule(rows)]

    def _schedule(self, rows: list[Any]) -> bytes:
        theirs_us, ours_us = self._clock_us
        now_us = theirs_us + time.monotonic_ns() // 1000 - ours_us if theirs_us else 0
        return message("schedule", {"now_us": now_us, "rows": rows}, self._id)

    def _event(self, entry: dict[str, Any]) -> bytes:
        told, number = model.event(entry), f"{entry['id']},{self._batch_id or ''}"
        return message("event", told, number) + (message("audit", told) if "who" in told else b"")

    @property
    def _id(self) -> str:
        return f"{self._event_id or ''},{self._batch_id or ''}"

    def _put(self, subscription: Subscription, messages: list[bytes]) -> None:
        queue = subscription.queue
        if len(queue) + len(messages) > QUEUED_MAX and queue:
            queue.clear()
            subscription.begun = False  # the next tick sends it the whole state
            return
        subscription.put(messages)


def state_ticks(cost_s: float) -> int:
    """The number of ticks until the next message of the state, when making the last one took `cost_s` of processor time."""
    return min(STATE_TICKS_MAX, max(STATE_TICKS, round(cost_s / STATE_PART / TICK_S)))


def lost(error: StoreUnavailable) -> dict[str, Any]:
    """The document `state` when the store can't be read: unknown parts are empty."""
    shape = model.state(Picture(None, 0), {}, {}, None, alive=False, time_ms=time.time_ns() // 1_000_000)
    return shape | {"problem": problem(error)}


def problem(error: StoreUnavailable) -> dict[str, str]:
    """The error and the remedy for a store that can't be read."""
    text, _, remedy = str(error).rpartition(": ")
    return {"error": text or str(error), "remedy": remedy or "see that Redis runs, and that the store's URL is right"}
