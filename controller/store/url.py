"""URLs of the store: one Redis, or a set of Sentinels that know which Redis leads. Pure.

* unix:///PATH, redis://[:PASSWORD@]HOST:PORT/DB, rediss://...: as redis-py reads them;
* redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT],HOST[:PORT].../SERVICE[/DB][?OPTIONS]: the Sentinels (port 26379 unless
  given), the name under which they watch the master, and the database there. User and password are the Redis servers', with
  %2F for a slash, %3F for a question mark and %25 for a percent sign, as in the other URLs. The options are
  sentinel_username and sentinel_password, for the Sentinels themselves;
* rediss+sentinel://...: the same, but Sentinels and servers by TLS. The option ssl_ca_certs names the file of the authority
  that signed their certificates; left out: those that the machine trusts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

SENTINEL, SENTINEL_TLS = "redis+sentinel://", "rediss+sentinel://"
SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password", "ssl_ca_certs")
SENTINEL_PORT = 26379
PLAIN = re.compile(r"unix://([^/@]+@)?/.|rediss?://[^/]")
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
    user: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    tls: bool = False
    ssl_ca_certs: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a URL of Sentinels. Raises ValueError: it is not of this form; says what is wrong."""
        scheme = next((scheme for scheme in (SENTINEL, SENTINEL_TLS) if text.startswith(scheme)), None)
        if scheme is None:
            raise ValueError(f"{redacted(text)!r} does not begin with {SENTINEL}")
        plain, _, query = text.removeprefix(scheme).partition("?")
        place, _, path = plain.partition("/")
        secret, at, hosts = place.rpartition("@")
        service, _, database = path.partition("/")
        if not service:
            raise ValueError(f"{redacted(text)!r} names no service; put the name of the master after the hosts, such as /baton")
        if database and not database.isdecimal():
            raise ValueError(f"{redacted(text)!r}: {database!r} is not the number of a database")
        options = dict(parse_qsl(query))
        if unknown := options.keys() - set(SENTINEL_OPTIONS):
            raise ValueError(f"{redacted(text)!r}: {min(unknown)} is unknown; choose from {', '.join(SENTINEL_OPTIONS)}")
        if "ssl_ca_certs" in options and scheme != SENTINEL_TLS:
            raise ValueError(f"{redacted(text)!r}: ssl_ca_certs is for TLS; begin with {SENTINEL_TLS}")
        sentinels = tuple(_address(host, text) for host in hosts.split(","))
        user, _, password = map(unquote, secret.partition(":")) if at else ("", "", "")
        return cls(
            sentinels, service, int(database or 0), password or None, user or None, tls=scheme == SENTINEL_TLS, **options
        )


def with_login(url: str, user: str, password: str) -> str:
    """The URL with this user and password in the place of those that it has, if any."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    hosts = place.rpartition("@")[2]
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{hosts}{slash}{path}"


def is_of_sentinels(url: str) -> bool:
    """Whether Sentinels name the master of the store at this URL."""
    return url.startswith((SENTINEL, SENTINEL_TLS))


def socket_of(url: str) -> str | None:
    """The path of the Unix socket that a URL names; None: it names none."""
    scheme, _, rest = url.partition("://")
    return unquote("/" + rest.partition("/")[2].partition("?")[0]) if scheme == "unix" else None


def check(value: object) -> object:
    """A store's URL from the configuration, unchanged (None: a private store). Raises ValueError: it is none; says why."""
    if value is None or not isinstance(value, str):
        return value
    if is_of_sentinels(value):
        SentinelUrl.parse(value)
    elif not PLAIN.match(value):
        raise ValueError(f"{redacted(value)!r} is not of this form")
    elif socket_of(value) is None:
        _check_plain(value)
    return value


def _check_plain(value: str) -> None:
    """Raises ValueError: the port or the database of a Redis' URL is none (redis-py takes database 0 then); shows no secret."""
    try:
        place = urlsplit(value)
    except ValueError as error:
        raise ValueError(f"{redacted(value)!r}: {without_secrets(error)}") from None
    try:
        port = place.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{redacted(value)!r} names no port from 1 to 65535")
    check_host(place.hostname or "")
    if not re.fullmatch("/?[0-9]*", place.path):
        raise ValueError(f"{redacted(value)!r} does not end with the number of a database")


def check_host(name: str) -> None:
    """Raises ValueError: no host can have this name; to look it up would be an error of Python's own."""
    try:
        name.encode("idna")
    except UnicodeError:
        raise ValueError(f"{name!r} can't be the name of a host") from None


def redacted(url: str) -> str:
    """The URL without its passwords, for messages."""
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url))


def without_secrets(error: ValueError) -> str:
    """What `urlsplit` or redis-py says of a URL: some of its words would show the password."""
    return "it has characters that no host's name has" if "netloc" in str(error) else str(error)


def _address(text: str, url: str) -> tuple[str, int]:
    host, port = text, str(SENTINEL_PORT)
    if found := re.fullmatch(r"\[(.+)\](?::(.*))?|([^:\[\]]*)(?::(.*))?", text):
        host = found[1] or found[3] or ""
        port = next((part for part in (found[2], found[4]) if part is not None), port)
    else:
        raise ValueError(f"{redacted(url)!r}: {text!r} is not a host and a port")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{redacted(url)!r}: {text!r} is not a host and a port")
    check_host(host)
    return host, int(port)
