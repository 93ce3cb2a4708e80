"""Documents that are kept as parts: what a publication writes is what has changed, and so is what a reader reads. An edge:
Redis, by a `Connection`.

The key of the document is a hash, as every document's. Besides `version` and `at_ns` it has:

* `=PART`: a part as JSON (controller/store/parts.py);
* `+N`: the change that made version N, for the last `KEPT` versions, unless it was large: {"put": parts, "gone": names};
* `line`: a random name of the writer's series of changes. Whoever writes all anew (a new process, a store that was lost, a
  change whose outcome is not known) begins another;
* `parts`: the version that the parts have. A Baton that knows no parts writes `json` and counts `version` on: then the two
  differ, and `json` is the newer one;
* `json`: the whole document, only while a controller is there that knows no parts (`Elders`).

A publication is one transaction, which fails if another process wrote since the writer looked: it looks again then, and finds
that the line is another's. So a reader finds all of a publication or nothing, wherever its writer died. A reader that knows a
version asks for the changes since. If it missed some, or the line is another one, it reads all parts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from controller.store.connection import Connection
from controller.store.layout import PREFIX, Client, Pipeline, new_line, put_fields
from controller.store.parts import Change, Parts, applied, difference, join, split
from controller.store.unreadable import Unreadable, document_of, of_its_type

KEPT, KEPT_BYTES = 64, 1 << 16
"""How many changes are kept, and how long one may be."""
ASKED = 16
"""How many changes a reader asks for at once."""
WHOLE_S = 2.0
"""How often the whole document is written at most, while a controller is there that knows no parts."""
LOOK_S = 1.0
HEAD = ("version", "at_ns", "line", "parts")
ALL = """
local all, found = redis.call('HGETALL', KEYS[1]), {}
for at = 1, #all, 2 do
  if string.byte(all[at]) == 61 then found[#found + 1] = string.sub(all[at], 2); found[#found + 1] = all[at + 1] end
end
return {redis.call('HMGET', KEYS[1], 'version', 'at_ns', 'line', 'parts', 'json'), found}
"""
"""The head, the whole document if it is there, and the names and values of all parts, at one moment."""


class Known(NamedTuple):
    """A document as a reader knows it. `line` is empty if it was not in parts."""

    version: int
    at_ns: int
    line: str
    parts: Parts


class Elders:
    """Whether a controller is there that reads no parts: one whose newest schema is 1."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._looked_s: float | None = None
        self._found = False

    def there(self) -> bool:
        """As it was a second ago at most. Raises StoreUnavailable."""
        now_s = time.monotonic()
        if self._looked_s is None or now_s - self._looked_s >= LOOK_S:
            controllers = self._connection.items("controller").values()
            self._found = any(_newest(one) < 2 for one in controllers)
            self._looked_s = now_s
        return self._found


def _newest(controller: dict[str, Any]) -> int:
    """The newest schema that a controller reads; 1 if its document does not say it as this Baton does."""
    schemas = controller.get("schemas")
    newest = schemas[1] if isinstance(schemas, list) and len(schemas) == 2 else 1
    return newest if isinstance(newest, int) else 1


class Parted:
    """One document that this process publishes. Threads may share it."""

    def __init__(self, connection: Connection, name: str, elders: Elders | None) -> None:
        """`elders`: None if no earlier Baton reads this document."""
        self._connection = connection
        self._name, self._key = name, PREFIX + name
        self._elders = elders
        self._lock = threading.Lock()
        self._known: Known | None = None
        """What the store has of us."""
        self._owes = False
        self._whole_s: float | None = None

    def publish(self, parts: Parts) -> None:
        """Writes what differs from the last publication; all if this is the first one, or another has written since. Raises
        StoreUnavailable."""
        with self._lock:
            self._connection.keep(self._name, dict(parts))
            elders = self._elders_there()
            self._connection.replace(self._key, lambda pipe: self._fill(pipe, parts, elders))

    def change(self, pipe: Pipeline, parts: Parts) -> None:
        """Adds a publication to a transaction that watches the key."""
        with self._lock:
            self._fill(pipe, parts, self._elders_there())

    @property
    def owes(self) -> bool:
        """Whether the whole document is behind the parts for controllers that know no parts."""
        return self._owes

    def settle(self) -> None:
        """Writes the whole document if it is owed and due. Raises StoreUnavailable."""
        with self._lock:
            known = self._known
            if not self._owes or known is None or not self._due():
                return
            if self._elders_there():
                self._connection.replace(self._key, lambda pipe: self._fill_whole(pipe, known))
            self._owes = False

    def _elders_there(self) -> bool:
        return self._elders is not None and self._elders.there()

    def _due(self) -> bool:
        return self._whole_s is None or time.monotonic() - self._whole_s >= WHOLE_S

    def _fill_whole(self, pipe: Pipeline, known: Known) -> None:
        """Adds the whole document to a transaction, unless another has written: it is no publication of its own."""
        ours = pipe.hmget(self._key, "version", "line") == [str(known.version), known.line]
        pipe.multi()
        if ours:
            self._whole_s = time.monotonic()
            put_fields(pipe, self._name, {"json": orjson.dumps(join(known.parts)), "at_ns": time.time_ns()})

    def _fill(self, pipe: Pipeline, parts: Parts, elders: bool) -> None:
        known, at_ns = self._known, time.time_ns()
        version, line, upto = pipe.hmget(self._key, "version", "line", "parts")
        number = int(version) + 1 if version and version.isdecimal() else 1
        pipe.multi()
        if known is not None and (version, line, upto) == (str(known.version), known.line, str(known.version)):
            line = known.line
            change = difference(known.parts, parts)
            fields: dict[str, Any] = {f"={name}": orjson.dumps(value) for name, value in change.put.items()}
            text = orjson.dumps(change._asdict())
            if len(text) <= KEPT_BYTES:
                fields[f"+{number}"] = text
            gone = [f"={name}" for name in change.gone]
            pipe.hdel(self._key, f"+{number - KEPT}", *([] if elders else ["json"]), *gone)
        else:
            line = new_line()
            fields = {f"={name}": orjson.dumps(value) for name, value in parts.items()}
            pipe.delete(self._key)
        if elders and self._due():
            fields["json"] = orjson.dumps(join(parts))
            self._whole_s, self._owes = time.monotonic(), False
        else:
            self._owes = elders
        put_fields(pipe, self._name, fields | {"version": number, "at_ns": at_ns, "line": line, "parts": number})
        self._known = Known(number, at_ns, line, dict(parts))


# -- readers ----------------------------------------------------------------------------------------------------------


def asked(known: Known | None) -> tuple[str, ...]:
    """The fields of the hash that a reader asks for first: the head, and the changes since the version that it knows."""
    return HEAD if known is None or not known.line else (*HEAD, *(f"+{known.version + 1 + at}" for at in range(ASKED)))


def read(client: Client, name: str, known: Known | None, answer: Sequence[str | None] | None = None) -> Known | None:
    """The document as it is now: `known` itself if nothing was published since; None: there is none. `answer`: what the store
    has answered to `asked`, if it was asked already. Raises Unreadable."""
    try:
        with of_its_type():
            return _read(client, name, known, answer)
    except Unreadable:
        raise
    except (ValueError, TypeError) as error:
        raise Unreadable(str(error)) from None


def document_in(known: Known | None) -> dict[str, Any] | None:
    """The whole document; None: there is none. Raises Unreadable."""
    try:
        return None if known is None else join(known.parts)
    except ValueError as error:
        raise Unreadable(str(error)) from None


def _read(client: Client, name: str, known: Known | None, answer: Sequence[str | None] | None) -> Known | None:
    key = PREFIX + name
    while True:
        version, at_ns, line, upto, *changes = answer or client.hmget(key, *asked(known))
        answer = None
        if version is None:
            return None
        number = int(version)
        if known is None or not known.line or known.line != line or upto != version:
            if known is not None and (known.version, str(known.at_ns)) == (number, at_ns) and upto != version:
                return known
            return _read_all(client, name)
        missed = number - known.version
        if missed <= 0:
            return known if missed == 0 else _read_all(client, name)
        parts = known.parts
        for text in changes[:missed]:
            if text is None:
                return _read_all(client, name)
            parts = applied(parts, Change(**orjson.loads(text)))
        known = Known(known.version + min(missed, ASKED), int(at_ns or 0), known.line, parts)
        if missed <= ASKED:
            return known


def _read_all(client: Client, name: str) -> Known | None:
    (version, at_ns, line, upto, whole), found = client.eval_ro(ALL, 1, PREFIX + name)
    if version is None:
        return None
    if upto == version:
        texts = iter(found)
        return Known(int(version), int(at_ns or 0), line, {part: orjson.loads(next(texts)) for part in texts})
    document = document_of(whole)
    return None if document is None else Known(int(version), int(at_ns or 0), "", split(name, document))
