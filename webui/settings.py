"""How one web server works. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
DEFAULT_USERS = Path("/etc/baton/users.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """What the application is told at its start; docs/operating.md has the fields as the section `web`."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    cert: Path | None = None
    """The server's certificate (PEM) and its key: needed for any address but loopback."""
    key: Path | None = None
    run_dir: Path = Path("/run/baton")
    """Where secrets of the web server's lifetime may lie (mode 0700)."""
    users: Path = DEFAULT_USERS
    """Who may change something: the file of `baton user` and `baton token`."""
    login_to_read: bool = False
    """Whether reading needs a login, too."""
    names: tuple[str, ...] = ()
    """The host names by which this server may be asked; none: those of loopback if it listens there, else any."""

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.cert is not None


STORE, SETTINGS, POLLER = "baton.store", "baton.settings", "baton.poller"
"""Where `Flask.extensions` holds them."""
