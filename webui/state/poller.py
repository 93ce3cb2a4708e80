"""The only reader of the store, which all requests and streams share. An edge: the store, the clock, a thread.

While a dashboard is subscribed, a thread reads the state twice a second (that of a very large fabric once), and the schedule
and the events four times. It encodes each message once and puts it into every subscriber's queue. A subscriber that falls
behind loses the messages in its queue and gets the whole state again. Without subscribers, only requests read the store.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from controller.store.store import Snapshot, Store, StoreUnavailable
from webui.state import model
from webui.state.model import Picture

TICK_S = 0.25
STATE_TICKS, STATE_TICKS_MAX = 2, 4
"""Ticks between two messages of the state: more of them if the fabric is so large that encoding it takes long."""
STATE_PART = 0.01
"""The part of a processor that the state may take."""
FRESH_NS = 250_000_000
"""How long a reading may be used again."""
SILENT_NS = 750_000_000
"""A coordinator that has published nothing for this long is gone, if it publishes four times a second, as it says itself: one
that publishes more seldom is gone when it has missed three times."""
PUBLISHED_NS = 2_000_000_000
"""The same limit when this server has not looked lately, and must compare the clocks of two machines."""
QUEUED_MAX = 64
FIRST_EVENTS = 100
FIRST_BATCHES = 80
IDLE_S = 1.0
_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,9}")


class Reading(NamedTuple):
    """A snapshot of the store, and the documents made from it."""

    snapshot: Snapshot
    picture: Picture
    alive: bool
    state: dict[str, Any]


@dataclass(eq=False, slots=True)
class Subscription:
    """A subscriber to the stream: messages wait in `queue`, whose length the poller limits."""

    last_id: str | None
    queue: deque[bytes] = field(default_factory=deque)
    ready: threading.Event = field(default_factory=threading.Event)
    begun: bool = False
    _call: Callable[[], object] | None = None

    def take(self, timeout_s: float = 0.0) -> bytes:
        """The waiting messages, joined; empty if none came in time."""
        if not self.ready.wait(timeout_s):
            return b""
        self.ready.clear()
        found = []
        while self.queue:
            found.append(self.queue.popleft())
        return b"".join(found)

    def call_when_ready(self, call: Callable[[], object]) -> None:
        """Calls this, in the poller's thread, whenever messages have come; at once if there are some."""
        self._call = call
        if self.ready.is_set():
            call()

    def put(self, messages: list[bytes]) -> None:
        """Adds messages; the poller calls this."""
        self.queue.extend(messages)
        if messages:
            self.ready.set()
            if self._call is not None:
                self._call()


class Liveness:
    """Tells whether the coordinator is alive, by the version of its status. Pure."""

    def __init__(self) -> None:
        self._version = 0
        self._changed_ns = self._looked_ns = 0

    def alive(self, version: int, age_ns: int, *, now_ns: int, period_ns: int = 0) -> bool:
        """Whether the coordinator is alive.

        Args:
            version: the version of its status; 0 if there is none.
            age_ns: the age of the status, by the clocks of the coordinator and of the store.
            period_ns: how often the coordinator says that it publishes its status.
        """
        silent_ns, published_ns = max(SILENT_NS, 3 * period_ns), max(PUBLISHED_NS, 3 * period_ns)
        unseen = self._version == 0 or now_ns - self._looked_ns > silent_ns
        self._looked_ns = now_ns
        if version != self._version:
            self._version = version
            self._changed_ns = now_ns - (silent_ns if unseen and age_ns > published_ns else 0)
        return version != 0 and now_ns - self._changed_ns < silent_ns


class Poller:
    """Reads the store for one application. Any thread may call any method."""

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
        """The coordinator's clock in its last message, and ours at that time, in microseconds."""

    # -- for requests -------------------------------------------------------------------------------------------------

    def read(self, fresh_ns: int = FRESH_NS) -> Reading:
        """A reading at most `fresh_ns` old. Raises StoreUnavailable, also if the last attempt failed within `fresh_ns`."""
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
        snapshot = self._store.feeds.snapshot(None if before is None else before.snapshot)
        document = snapshot.documents["fabric"]
        same = before is not None and document is before.snapshot.documents["fabric"]
        picture = before.picture if before is not None and same else Picture(document, snapshot.versions["fabric"])
        age_ns = snapshot.time_ns - snapshot.at_ns["status"]
        period_ns = int((snapshot.documents["status"] or {}).get("period_ns", 0))
        alive = self._liveness.alive(snapshot.versions["status"], age_ns, now_ns=time.monotonic_ns(), period_ns=period_ns)
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

    def _tell(self, subscribers: list[Subscription], told: Picture | None, *, with_state: bool) -> Picture | None:
        """Reads the store and puts new messages into the queues; returns the last fabric that was sent."""
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
                messages.append(message("state", lost(error)))  # after the news, which are not read again
                for one in fresh:
                    self._put(one, messages[-1:])
        for one in old:
            self._put(one, messages)
        return told

    def _begin(self, fresh: list[Subscription]) -> None:
        """Sends new subscribers the fabric, the state, and the schedule and events that the others already have."""
        reading = self.read()
        whole = [message("fabric", reading.picture.shape), message("state", reading.state)]
        for one in fresh:
            event_id, batch_id = ids(one.last_id)
            events = self._store.feeds.events_after(event_id, FIRST_EVENTS)
            batches = self._store.feeds.slots_after(batch_id, FIRST_BATCHES)
            rows = [row for _, batch in batches for row in batch["rows"]]
            told = [self._event(entry) for entry in events if not _after(entry["id"], self._event_id)]
            self._put(one, [b"retry: 1000\n\n", *whole, self._schedule(rows), *told])
            one.begun = True

    def _news(self) -> list[bytes]:
        """Messages with the schedule and the events since the last call."""
        first = self._batch_id is None
        batches = self._store.feeds.slots_after(self._batch_id, 1 if first else FIRST_BATCHES)
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
            subscription.begun = False  # the next tick sends it the whole state
            return
        subscription.put(messages)


def state_ticks(cost_s: float) -> int:
    """The number of ticks until the next message of the state, when making the last one took `cost_s` of processor time."""
    return min(STATE_TICKS_MAX, max(STATE_TICKS, round(cost_s / STATE_PART / TICK_S)))


def message(name: str, value: object, number: str | None = None) -> bytes:
    """A message of the stream (WHATWG HTML, server-sent events)."""
    head = f"event: {name}\n" if number is None else f"id: {number}\nevent: {name}\n"
    return b"%bdata: %b\n\n" % (head.encode(), orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))


def lost(error: StoreUnavailable) -> dict[str, Any]:
    """The document `state` when the store can't be read: unknown parts are empty."""
    shape = model.state(Picture(None, 0), {}, {}, None, alive=False, time_ms=time.time_ns() // 1_000_000)
    return shape | {"problem": problem(error)}


def problem(error: StoreUnavailable) -> dict[str, str]:
    """The error and the remedy for a store that can't be read."""
    text, _, remedy = str(error).rpartition(": ")
    return {"error": text or str(error), "remedy": remedy or "see that Redis runs, and that the store's URL is right"}


def ids(text: str | None) -> tuple[str | None, str | None]:
    """The ids of the last event and the last batch of slots in a message's id; None for a part that is not valid."""
    event_id, _, batch_id = (text or "").partition(",")
    return (event_id if _ID.fullmatch(event_id) else None), (batch_id if _ID.fullmatch(batch_id) else None)


def _after(one: str, other: str | None) -> bool:
    """Whether an id of a Redis stream comes after another."""
    if other is None:
        return True
    return tuple(map(int, one.split("-"))) > tuple(map(int, other.split("-")))
