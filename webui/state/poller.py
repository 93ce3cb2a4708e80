"""The one reader of the store: what it finds is shared by all who look. An edge: the store, the clock, a thread.

While anybody is subscribed a thread reads twice a second (a very large fabric once; the schedule and the events four times) and
puts each message, made into bytes once, into every subscriber's queue. A subscriber that doesn't keep up loses what it has not
read and gets the whole state again. While nobody is, nothing is read but what a request asks for.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from controller.store.store import Snapshot, Store, StoreUnavailable
from webui.state import model
from webui.state.model import Picture

TICK_S = 0.25
STATE_TICKS, STATE_TICKS_MAX = 2, 4
"""The state of a fabric that takes long to tell is told less often: twice a second at most, once at least."""
STATE_PART = 0.01
"""Of a processor: more than that the state should not take."""
FRESH_NS = 250_000_000
"""How long an answer to a request may be used again."""
SILENT_NS = 750_000_000
"""A coordinator that has published nothing for so long is gone; it does so four times a second."""
PUBLISHED_NS = 2_000_000_000
"""By the clocks of two machines, when nobody looked of late."""
QUEUED_MAX = 64
FIRST_EVENTS = 100
FIRST_BATCHES = 80
IDLE_S = 1.0
_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,9}")


class Reading(NamedTuple):
    """What the store held, and what that means."""

    snapshot: Snapshot
    picture: Picture
    alive: bool
    state: dict[str, Any]


@dataclass(eq=False, slots=True)
class Subscription:
    """One who looks: messages wait in `queue`, whose bound is kept by the poller."""

    last_id: str | None
    queue: deque[bytes] = field(default_factory=deque)
    ready: threading.Event = field(default_factory=threading.Event)
    begun: bool = False

    def take(self, timeout_s: float) -> bytes:
        """What waits, joined; empty when nothing came in time."""
        if not self.ready.wait(timeout_s):
            return b""
        self.ready.clear()
        found = []
        while self.queue:
            found.append(self.queue.popleft())
        return b"".join(found)


class Liveness:
    """Whether the coordinator speaks, by the version of its status. Pure."""

    def __init__(self) -> None:
        self._version = 0
        self._changed_ns = self._looked_ns = 0

    def alive(self, version: int, age_ns: int, *, now_ns: int) -> bool:
        """`version` 0: there is no status. `age_ns`: since it was published, by the clocks of those who publish and store."""
        unseen = self._version == 0 or now_ns - self._looked_ns > SILENT_NS
        self._looked_ns = now_ns
        if version != self._version:
            self._version = version
            self._changed_ns = now_ns - (SILENT_NS if unseen and age_ns > PUBLISHED_NS else 0)
        return version != 0 and now_ns - self._changed_ns < SILENT_NS


class Poller:
    """One for an application. Every method may be called by any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._read_ns = 0
        self._failed: StoreUnavailable | None = None
        self._liveness = Liveness()
        self._subscribers: list[Subscription] = []
        self._subscribing = threading.Lock()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._batch_id: str | None = None
        self._event_id: str | None = None
        self._clock_us = (0, 0)
        """The coordinator's clock when last told, and ours then, in microseconds."""

    # -- for requests -------------------------------------------------------------------------------------------------

    def read(self, fresh_ns: int = FRESH_NS) -> Reading:
        """What the store holds, at most `fresh_ns` old. Raises StoreUnavailable, at once while it was so a moment ago."""
        with self._lock:
            now_ns = time.monotonic_ns()
            if now_ns - self._read_ns < fresh_ns:
                if self._failed is not None:
                    raise self._failed
                if self._reading is not None:
                    return self._reading
            try:
                self._reading, self._failed = self._look(), None
            except StoreUnavailable as error:
                self._failed = error
                raise
            finally:
                self._read_ns = time.monotonic_ns()
            return self._reading

    def schedule(self, batches: int = FIRST_BATCHES) -> dict[str, Any]:
        """What became of slots of late, as the coordinator tells it (controller/scheduling/telemetry.py). Raises
        StoreUnavailable.
        """
        found = self._store.slots_after(None, batches)
        rows = [row for _, batch in found for row in batch["rows"]]
        return {"now_us": found[-1][1]["now_us"] if found else 0, "rows": rows}

    def events(self, count: int) -> list[dict[str, Any]]:
        """The last events in the shape `event`, oldest first. Raises StoreUnavailable."""
        return [model.event(entry) for entry in self._store.events_after(None, count)]

    def audit(self, count: int) -> list[dict[str, Any]]:
        """The last actions of operators in the shape `event`, oldest first. Raises StoreUnavailable."""
        return [model.event(entry) for entry in self._store.audit(count)]

    def _look(self) -> Reading:
        before = self._reading
        snapshot = self._store.snapshot(None if before is None else before.snapshot)
        document = snapshot.documents["fabric"]
        same = before is not None and document is before.snapshot.documents["fabric"]
        picture = before.picture if before is not None and same else Picture(document, snapshot.versions["fabric"])
        age_ns = snapshot.time_ns - snapshot.at_ns["status"]
        alive = self._liveness.alive(snapshot.versions["status"], age_ns, now_ns=time.monotonic_ns())
        state = model.state(
            picture,
            snapshot.documents,
            snapshot.members,
            snapshot.override,
            alive=alive,
            time_ms=snapshot.time_ns // 1_000_000,
        )
        return Reading(snapshot, picture, alive, state)

    # -- for streams --------------------------------------------------------------------------------------------------

    @property
    def subscribers(self) -> int:
        """How many look."""
        return len(self._subscribers)

    def subscribe(self, last_id: str | None = None) -> Subscription:
        """Begins to tell; from after `last_id`, the id of a message, if what came since is still there."""
        subscription = Subscription(last_id)
        with self._subscribing:
            self._subscribers.append(subscription)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="poller", daemon=True)
                self._thread.start()
        self._arrived.set()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends telling."""
        with self._subscribing:
            self._subscribers.remove(subscription)

    def _run(self) -> None:
        tick, state_tick, empty_s = 0, 0, 0.0
        told: Picture | None = None
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
                told = self._tell(subscribers, told, with_state=with_state)
                if with_state:
                    state_tick = tick + state_ticks(time.thread_time() - begun_s)
            tick += 1
            due_s = max(due_s + TICK_S, time.monotonic())
            while self._arrived.wait(max(0.0, due_s - time.monotonic())):
                self._arrived.clear()
                self._welcome()

    def _welcome(self) -> None:
        """Tells who came between two ticks at once: a page is empty until it has heard."""
        with self._subscribing:
            fresh = [one for one in self._subscribers if not one.begun]
        if not fresh or self._batch_id is None:
            return  # the store could not be read yet: with the next tick
        try:
            self._begin(fresh)
        except StoreUnavailable as error:
            for one in fresh:
                self._put(one, [message("state", lost(error))])

    def _tell(self, subscribers: list[Subscription], told: Picture | None, *, with_state: bool) -> Picture | None:
        """Reads, and puts what is new into the queues; returns the fabric that was told last."""
        fresh = [one for one in subscribers if not one.begun]
        old = [one for one in subscribers if one.begun]
        messages: list[bytes] = []
        try:
            messages += self._news()
            if fresh:
                self._begin(fresh)
            if with_state:
                reading = self.read(FRESH_NS // 2)
                if reading.picture is not told:
                    told = reading.picture
                    messages.append(message("fabric", told.shape))
                messages.append(message("state", reading.state))
        except StoreUnavailable as error:
            told = None
            if with_state or fresh:
                messages.append(message("state", lost(error)))  # after the news, which is not read again
                for one in fresh:
                    self._put(one, messages[-1:])
        for one in old:
            self._put(one, messages)
        return told

    def _begin(self, fresh: list[Subscription]) -> None:
        """Tells who is new: the fabric, the state, and the last of the schedule and of the events that the others know."""
        reading = self.read()
        whole = [message("fabric", reading.picture.shape), message("state", reading.state)]
        for one in fresh:
            event_id, batch_id = ids(one.last_id)
            events = self._store.events_after(event_id, FIRST_EVENTS)
            batches = self._store.slots_after(batch_id, FIRST_BATCHES)
            rows = [row for _, batch in batches for row in batch["rows"]]
            told = [self._event(entry) for entry in events if not _after(entry["id"], self._event_id)]
            self._put(one, [b"retry: 1000\n\n", *whole, self._schedule(rows), *told])
            one.begun = True

    def _news(self) -> list[bytes]:
        """The schedule and the events since the last time."""
        first = self._batch_id is None
        batches = self._store.slots_after(self._batch_id, 1 if first else FIRST_BATCHES)
        events = self._store.events_after(self._event_id, 1 if self._event_id is None else FIRST_EVENTS)
        if batches:
            self._batch_id = batches[-1][0]
            self._clock_us = batches[-1][1]["now_us"], time.monotonic_ns() // 1000
        elif first:
            self._batch_id = "0-0"
        if events:
            self._event_id = events[-1]["id"]
        elif first:
            self._event_id = self._event_id or "0-0"
        rows = [row for _, batch in batches for row in batch["rows"]]
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
            subscription.begun = False  # it gets the whole again
            return
        queue.extend(messages)
        if messages:
            subscription.ready.set()


def state_ticks(cost_s: float) -> int:
    """After how many ticks to tell the state again, when telling it took so much of a processor's time."""
    return min(STATE_TICKS_MAX, max(STATE_TICKS, round(cost_s / STATE_PART / TICK_S)))


def message(name: str, value: object, number: str | None = None) -> bytes:
    """One message of a stream (WHATWG HTML, server-sent events)."""
    head = f"event: {name}\n" if number is None else f"id: {number}\nevent: {name}\n"
    return b"%bdata: %b\n\n" % (head.encode(), orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))


def lost(error: StoreUnavailable) -> dict[str, Any]:
    """The shape `state` when the store can't be read: what is not known is empty."""
    shape = model.state(Picture(None, 0), {}, {}, None, alive=False, time_ms=time.time_ns() // 1_000_000)
    return shape | {"problem": problem(error)}


def problem(error: StoreUnavailable) -> dict[str, str]:
    """What is wrong with the store, and the remedy."""
    text, _, remedy = str(error).rpartition(": ")
    return {"error": text or str(error), "remedy": remedy or "see that Redis runs, and the store's URL"}


def ids(text: str | None) -> tuple[str | None, str | None]:
    """The ids of the last event and the last batch of slots in the id of a message; None for what is not one."""
    event_id, _, batch_id = (text or "").partition(",")
    return (event_id if _ID.fullmatch(event_id) else None), (batch_id if _ID.fullmatch(batch_id) else None)


def _after(one: str, other: str | None) -> bool:
    """Whether an id of a Redis stream comes after another."""
    if other is None:
        return True
    return tuple(map(int, one.split("-"))) > tuple(map(int, other.split("-")))
