"""The settings of a web server. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
DEFAULT_USERS = Path("/etc/baton/users.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The settings of the application; docs/operating.md explains the same fields in the section `web`."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    cert: Path | None = None
    """The server's certificate (PEM); any address but loopback needs it and `key`."""
    key: Path | None = None
    run_dir: Path = Path("/run/baton")
    """The directory (mode 0700) for secrets that live as long as the web server."""
    users: Path = DEFAULT_USERS
    """The users file that `baton user` and `baton token` write: the accounts that may change settings."""
    login_to_read: bool = False
    """Whether reading needs a login, too."""
    names: tuple[str, ...] = ()
    """The hosts that requests may name; if empty, those of loopback when the server listens there, else any."""

    @property
    def secure(self) -> bool:
        """Whether the server uses TLS."""
        return self.cert is not None


STORE, SETTINGS, POLLER, PLACES = "baton.store", "baton.settings", "baton.poller", "baton.places"
"""The names of the store, the settings, the poller and the places of event streams in `Flask.extensions`."""

SUBSCRIPTION, USER, STILL = "baton.subscription", "baton.user", "baton.still"
"""The names in a request's WSGI environment under which the application leaves the `Subscription` of an event stream, the
user who sent the request, and a function that tells later whether this user still has access."""
