"""JSON values over a stream socket between two processes, one value a line. An edge: sockets."""

from __future__ import annotations

import socket
from typing import Any

import orjson

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def encode(value: object) -> bytes:
    """A value as JSON, on one line: what json.dumps would write, names that are numbers and named tuples included.

    Raises TypeError: JSON has no such value, or an integer has more than 64 bits.
    """
    return orjson.dumps(value, default=_tuple, option=OPTIONS)


def _tuple(value: object) -> list[object]:
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__}: JSON has no such value")



class JsonLines:
    """Whole JSON values over a stream socket; the reading end never blocks once `setblocking(False)` was called."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._unread = b""
        self._unsent = b""

    def fileno(self) -> int:
        """For select."""
        return self.socket.fileno()

    def read(self) -> list[dict[str, Any]] | None:
        """The values that have arrived completely; None when the other end is gone."""
        try:
            data = self.socket.recv(1 << 20)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [orjson.loads(line) for line in lines]

    def write(self, value: dict[str, Any]) -> bool:
        """Sends a value; False, and nothing is sent, while the other end does not keep up and this end does not block."""
        if self._unsent and not self._flush():
            return False
        self._unsent = encode(value) + b"\n"
        self._flush()
        return True

    def _flush(self) -> bool:
        while self._unsent:
            try:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:
                self._unsent = b""
        return True
