"""URLs of the store: one Redis, or a set of Sentinels that know which Redis leads. Pure.

* unix:///PATH, redis://[:PASSWORD@]HOST:PORT/DB, rediss://...: as redis-py reads them;
* redis+sentinel://[:PASSWORD@]HOST[:PORT],HOST[:PORT].../SERVICE[/DB]: the Sentinels (port 26379 unless given), the name under
  which they watch the master, and the database there. The password is the Redis servers'.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

SENTINEL = "redis+sentinel://"
SENTINEL_PORT = 26379
PLAIN = re.compile(r"unix:///.|rediss?://[^/]")
EXPECTED = (
    "write the URL of a Redis, such as redis://host:6379/0, of Sentinels, such as "
    "redis+sentinel://host1:26379,host2:26379/baton, or none for a private one"
)


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """The Sentinels to ask, and the service whose master they name."""

    sentinels: tuple[tuple[str, int], ...]
    service: str
    database: int = 0
    password: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a URL that begins with redis+sentinel://. Raises ValueError: it is not of this form; says what is wrong."""
        if not text.startswith(SENTINEL):
            raise ValueError(f"{redacted(text)!r} does not begin with {SENTINEL}")
        place, _, path = text.removeprefix(SENTINEL).partition("/")
        secret, at, hosts = place.rpartition("@")
        service, _, database = path.partition("/")
        if not service:
            raise ValueError(f"{redacted(text)!r} names no service; put the name of the master after the hosts, such as /baton")
        if database and not database.isdecimal():
            raise ValueError(f"{redacted(text)!r}: {database!r} is not the number of a database")
        sentinels = tuple(_address(host, text) for host in hosts.split(","))
        password = secret.partition(":")[2] if at else None
        return cls(sentinels, service, int(database or 0), password or None)


def check(value: object) -> object:
    """A store's URL from the configuration, unchanged (None: a private store). Raises ValueError: it is none; says why."""
    if value is None or not isinstance(value, str):
        return value
    if value.startswith(SENTINEL):
        SentinelUrl.parse(value)
    elif not PLAIN.match(value):
        raise ValueError(f"{redacted(value)!r} is not of this form")
    return value


def redacted(url: str) -> str:
    """The URL without its password, for messages."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)


def _address(text: str, url: str) -> tuple[str, int]:
    host, port = text, str(SENTINEL_PORT)
    if found := re.fullmatch(r"\[(.+)\](?::(.*))?|([^:\[\]]*)(?::(.*))?", text):
        host = found[1] or found[3] or ""
        port = next((part for part in (found[2], found[4]) if part is not None), port)
    else:
        raise ValueError(f"{redacted(url)!r}: {text!r} is not a host and a port")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{redacted(url)!r}: {text!r} is not a host and a port")
    return host, int(port)
