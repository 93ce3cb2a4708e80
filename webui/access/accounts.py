"""The accounts that may change settings: users with passwords, and API tokens, in one file (mode 0600). An edge: that file.

The file holds passwords as werkzeug's scrypt hashes (RFC 7914). A token's secret is 32 random bytes, which can't be guessed, so
a plain SHA-256 of it is enough. A change is written to a temporary file, which is then renamed, under a lock. The server reads
the file again when it has changed: a user whom an operator removed has no access from the next request on.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from werkzeug.security import check_password_hash, generate_password_hash

from protocol.key import open_to_others

SHORTEST = 10
LONGEST = 1024
"""Of a password: scrypt hashes any length, but a request must stay cheap."""
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
_NOBODY = generate_password_hash(secrets.token_urlsafe(), method="scrypt")
"""The hash to compare a password with when the user does not exist, so that the answer takes equally long."""


class AccountsError(ValueError):
    """An operation on the accounts that can't be done; the text is one line with the remedy."""


class Token(NamedTuple):
    """An API token without its secret. Times are seconds since 1970; `expires_s` is 0 for never."""

    identifier: str
    name: str
    created_s: int
    expires_s: int


class Accounts:
    """The users and tokens of one file. A missing file holds none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[tuple[int, int, int] | None, dict[str, Any]] = None, _empty()
        """The file that was read last, and its content; replaced together, since threads share this."""
        self._unsaved_secret = secrets.token_hex()

    # -- for the web server ---------------------------------------------------------------------------------------------

    def session_secret(self) -> str:
        """The secret that signs sessions; it is in the file, so that sessions outlive a restart (but for a missing file)."""
        return str(self._load()["secret"] or self._unsaved_secret)

    def generation(self, name: str) -> str | None:
        """A word that changes with the user's password, so that older sessions end; None if there is no such user."""
        user = self._load()["users"].get(name)
        return None if user is None else hashlib.sha256(user["password"].encode()).hexdigest()[:16]

    def is_password(self, name: str, password: str) -> bool:
        """Whether this is the user's password. Takes equally long whether the user exists or not."""
        user = self._load()["users"].get(name)
        right = check_password_hash(_NOBODY if user is None else user["password"], password[:LONGEST])
        return right and user is not None

    def token(self, text: str, *, now_s: int) -> Token | None:
        """The token with this text, or None if there is none or it has expired."""
        kind, _, rest = text.partition("_")
        identifier, _, secret = rest.partition("_")
        known = self._load()["tokens"].get(identifier, {})
        # Compares even when there is no such token, so that the time does not show its absence.
        same = hmac.compare_digest(_digest(secret), known.get("secret", _digest("")))
        if kind != "baton" or not secret or not known or not same:
            return None
        token = _token(identifier, known)
        return None if 0 < token.expires_s <= now_s else token

    # -- for the operator's commands ------------------------------------------------------------------------------------

    def users(self) -> dict[str, int]:
        """Every user, with the time at which the password was set (seconds since 1970)."""
        return {name: int(user["set_s"]) for name, user in sorted(self._load()["users"].items())}

    def tokens(self) -> list[Token]:
        """Every token, ordered by name."""
        known = self._load()["tokens"].items()
        return sorted((_token(identifier, fields) for identifier, fields in known), key=lambda token: token.name)

    def set_user(self, name: str, password: str, *, now_s: int) -> None:
        """Adds a user, or sets a user's password. Raises AccountsError: the name, the password or the file is not usable."""
        _check_name(name)
        if not SHORTEST <= len(password) <= LONGEST:
            raise AccountsError(f"password: {len(password)} characters; use {SHORTEST} to {LONGEST}")
        hashed = generate_password_hash(password, method="scrypt")
        with self._changing() as content:
            content["users"][name] = {"password": hashed, "set_s": now_s}

    def remove_user(self, name: str) -> None:
        """Removes a user and ends all sessions of that name. Raises AccountsError: there is none."""
        with self._changing(adds=False) as content:
            if content["users"].pop(name, None) is None:
                raise AccountsError(f"user {name}: does not exist in {self.path}; `baton user list` shows those of a file")

    def create_token(self, name: str, *, now_s: int, expires_s: int = 0) -> str:
        """Makes a token and returns its text, which is not kept. Raises AccountsError: the name or the file is not usable."""
        _check_name(name)
        identifier, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        with self._changing() as content:
            if any(fields["name"] == name for fields in content["tokens"].values()):
                raise AccountsError(f"token {name}: exists; revoke it, or choose another name")
            fields = {"name": name, "secret": _digest(secret), "created_s": now_s, "expires_s": expires_s}
            content["tokens"][identifier] = fields
        return f"baton_{identifier}_{secret}"

    def revoke_token(self, name: str) -> None:
        """Revokes the token with this name or identifier. Raises AccountsError: there is none."""
        with self._changing(adds=False) as content:
            tokens = content["tokens"]
            chosen = [key for key, fields in tokens.items() if name in (key, fields["name"])]
            if not chosen:
                raise AccountsError(f"token {name}: does not exist in {self.path}; `baton token list` shows those of a file")
            for key in chosen:
                del tokens[key]

    # -- the file -------------------------------------------------------------------------------------------------------

    def _load(self) -> dict[str, Any]:
        """The content, read again if the file has changed. Raises AccountsError: the file is not usable."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._known = None, _empty()
            return _empty()
        except OSError as error:
            raise AccountsError(f"users file {self.path}: {error.strerror}; name `baton user add`'s file") from None
        if not stat.S_ISREG(status.st_mode):
            raise AccountsError(f"users file {self.path}: not a regular file; name `baton user add`'s file")
        if complaint := open_to_others(status, user=os.geteuid()):
            raise AccountsError(f"users file {self.path}: {complaint}")
        seen = status.st_ino, status.st_mtime_ns, status.st_size
        read, content = self._known
        if seen != read:
            try:
                found = json.loads(self.path.read_text(encoding="utf-8"))
                content = {"secret": str(found["secret"]), **{key: dict(found[key]) for key in ("users", "tokens")}}
                _check_entries(content)
            except OSError as error:
                raise AccountsError(f"users file {self.path}: {error.strerror}; run this as its owner") from None
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                raise AccountsError(f"users file {self.path}: not one of Baton's; restore a copy, or remove it") from None
            self._known = seen, content
        return content

    @contextmanager
    def _changing(self, *, adds: bool = True) -> Iterator[dict[str, Any]]:
        """Gives the content to the block to change, and writes it when the block ends without an error. `adds`: whether a
        missing file is made; else the block gets no user and no token then, and nothing is written."""
        try:
            if not adds and not self.path.exists():
                yield _empty()
                return
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                content: dict[str, Any] = json.loads(json.dumps(self._load()))
                content["secret"] = content["secret"] or secrets.token_hex()
                yield content
                _replace(self.path, json.dumps(content, indent=1) + "\n")
            finally:
                os.close(lock)
        except OSError as error:
            raise AccountsError(f"users file {self.path}: {error.strerror}; run this as root, or name another file") from None


def _replace(path: Path, text: str) -> None:
    """Replaces a file by one of mode 0600 in a single step: no reader finds half a file, or none."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _empty() -> dict[str, Any]:
    return {"secret": "", "users": {}, "tokens": {}}


def _check_entries(content: dict[str, Any]) -> None:
    """Raises ValueError, KeyError or TypeError: a user or a token lacks a field, or has another type."""
    for user in content["users"].values():
        int(user["set_s"])
        if re.fullmatch(r"(scrypt|pbkdf2)(:[^$]*)?\$[^$]+\$[^$]+", user["password"]) is None:
            raise ValueError("a password is no hash")
    for identifier, fields in content["tokens"].items():
        _token(identifier, fields)
        hmac.compare_digest(fields["secret"], "")


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise AccountsError(f"name {name!r}: use 1 to 32 of a-z, 0-9, '_', '.' and '-', beginning with a letter or digit")


def _token(identifier: str, fields: dict[str, Any]) -> Token:
    return Token(identifier, str(fields["name"]), int(fields["created_s"]), int(fields["expires_s"]))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
