"""Clients of Redis by URL: one server, or the master that Sentinels name. An edge: Redis.

A client by Sentinels asks them for the master whenever it connects, and drops the connection to a server that has become
read-only; so it follows a failover by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ConnectionError, ReadOnlyError, RedisError, TimeoutError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from controller.store.layout import Client
from controller.store.url import SentinelUrl, check_host, is_of_sentinels, redacted


def connect(url: str, *, timeout_s: float, connected: Callable[[Any], None] | None = None) -> Client:
    """A client that waits no longer than `timeout_s` for anything; it connects at its first use. It calls `connected` with
    every new connection; that function has to call the connection's `on_connect`. Raises ValueError: not a URL of Redis."""
    options: dict[str, Any] = {
        "decode_responses": True,
        "encoding_errors": "replace",  # what is no text makes one document unreadable, not an answer with many
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "lib_name": None,  # otherwise every new connection sends two more commands
        "lib_version": None,
    }
    if connected is not None:
        # A server on this machine ends its connections when it ends: asking before each use whether it is there tells nothing.
        health = {} if url.startswith("unix:") else {"health_check_interval": 5}
        options |= {"redis_connect_func": connected, **health}
    if not is_of_sentinels(url):
        client: Client = redis.Redis.from_url(url, **options)
        _check(client.connection_pool)
        return client
    where = SentinelUrl.parse(url)
    secured: dict[str, Any] = {"ssl": True, "ssl_ca_certs": where.ssl_ca_certs, "ssl_check_hostname": True} if where.tls else {}
    asking = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "retry": Retry(NoBackoff(), 0), **secured}
    asking |= {"username": where.sentinel_username, "password": where.sentinel_password}
    sentinel: Any = Sentinel(list(where.sentinels), sentinel_kwargs={**asking, "decode_responses": True})  # type: ignore[no-untyped-call]
    login = {"username": where.user, "password": where.password}
    return sentinel.master_for(where.service, db=where.database, **login, **secured, **options)


def _check(pool: Any) -> None:  # noqa: ANN401 -- redis-py's
    """Raises ValueError: no connection can be made with what the URL says. redis-py would find out at the first use."""
    check_host(pool.connection_kwargs.get("host") or "")
    try:
        pool.connection_class(**pool.connection_kwargs)  # does not connect
    except TypeError as error:
        raise ValueError(f"the option {str(error).rpartition(' ')[2]} is unknown") from None
    except RedisError as error:
        raise ValueError(str(error)) from None


def has_moved(client: Client, connection: Any) -> bool:  # noqa: ANN401 -- redis-py's
    """Whether the Sentinels name another server as master now than the one that this connection leads to."""
    pool: Any = client.connection_pool
    if not isinstance(pool, SentinelConnectionPool):
        return False
    named = tuple(pool.get_master_address())  # type: ignore[no-untyped-call]  # redis.sentinel has no types
    return named != (connection.host, connection.port)


def explained(url: str, error: RedisError, timeout_s: float) -> str:
    """An error of redis-py in one line: which store, what happened and the remedy."""
    if isinstance(error, AuthenticationError):
        why, remedy = "refused the password", "put it into the store's URL"
    elif isinstance(error, MasterNotFoundError):
        why, remedy = "has no master at the moment", "see that the Sentinels run, and that they watch a service of this name"
    elif isinstance(error, TimeoutError):
        why, remedy = f"did not answer in {timeout_s:g} s", "see whether its machine is overloaded or gone"
    elif isinstance(error, ReadOnlyError):
        why, remedy = "is read-only", "name the master in the store's URL, or its Sentinels"
    elif isinstance(error, ConnectionError):
        why, remedy = f"can't be reached ({error})", "see that it runs, and the store's URL"
    else:
        why, remedy = f"refused a command ({error})", "see its log"
    return f"store {redacted(url)} {why}: {remedy}"
