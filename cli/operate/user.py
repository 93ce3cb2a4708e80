"""`baton user` and `baton token`: the accounts that may change settings through the dashboard and the REST interface."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webui.settings import DEFAULT_USERS

if TYPE_CHECKING:
    from webui.access.accounts import Accounts

MOST_BYTES = 65_536
"""Read of standard input: more than the longest password."""
UNITS_S = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}

_file: Callable[[Callable[..., None]], Callable[..., None]] = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_USERS,
    show_default=True,
    help="The users file (mode 0600) that the dashboard reads.",
)


@click.group()
def user() -> None:
    """Users who may log in to the dashboard and change settings; visitors may only read."""


@user.command("add")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of a prompt.")
@_file
def add_user(name: str, password_stdin: bool, file: Path) -> None:
    """Add the user NAME, or give NAME a new password; all sessions of NAME end."""
    if password_stdin:
        if sys.stdin is None:
            raise click.UsageError("--password-stdin: standard input is closed; give the password there")
        try:
            password = sys.stdin.buffer.readline(MOST_BYTES).decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise click.ClickException("standard input: the password is not UTF-8 text; write it as such") from None
    elif not _at_terminal():
        raise click.UsageError("there is no terminal to ask for the password; give it on standard input, with --password-stdin")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    with _accounts(file) as accounts:
        accounts.set_user(name, password, now_s=int(time.time()))
    click.echo(f"{name} may log in")


@user.command("remove")
@click.argument("name")
@_file
def remove_user(name: str, file: Path) -> None:
    """Remove the user NAME; all sessions of NAME end at once."""
    with _accounts(file) as accounts:
        accounts.remove_user(name)
    click.echo(f"{name} is removed")


@user.command("list")
@_file
def list_users(file: Path) -> None:
    """List the users who may log in."""
    with _accounts(file) as accounts:
        if not accounts.users():
            click.echo(f"{file} has no user: `baton user add NAME{_option(file)}` adds one")
        for name, set_s in accounts.users().items():
            click.echo(f"{name}\tpassword set {_day(set_s)}")


@click.group()
def token() -> None:
    """API tokens: programs send one as `Authorization: Bearer TOKEN`."""


@token.command("create")
@click.argument("name")
@click.option("--expires", default="1y", show_default=True, help="Lifetime: 12h, 30d, 8w, 1y, or never.")
@_file
def create_token(name: str, expires: str, file: Path) -> None:
    """Print a new token for NAME. This is the only time it is shown: only its hash is kept."""
    now_s = int(time.time())
    expires_s = 0 if expires == "never" else now_s + _seconds(expires)
    with _accounts(file) as accounts:
        click.echo(accounts.create_token(name, now_s=now_s, expires_s=expires_s))


@token.command("revoke")
@click.argument("name")
@_file
def revoke_token(name: str, file: Path) -> None:
    """Revoke the token NAME (or the token with this identifier) at once."""
    with _accounts(file) as accounts:
        accounts.revoke_token(name)
    click.echo(f"{name} is revoked")


@token.command("list")
@_file
def list_tokens(file: Path) -> None:
    """List the tokens, without their secrets."""
    with _accounts(file) as accounts:
        if not accounts.tokens():
            click.echo(f"{file} has no token: `baton token create NAME{_option(file)}` makes one")
        for known in accounts.tokens():
            expires = f"expires {_day(known.expires_s)}" if known.expires_s else "never expires"
            click.echo(f"{known.name}\t{known.identifier}\tmade {_day(known.created_s)}\t{expires}")


@contextmanager
def _accounts(file: Path) -> Iterator[Accounts]:
    """The accounts of a users file; an AccountsError in the block ends the command with its message."""
    from webui.access.accounts import Accounts, AccountsError

    try:
        yield Accounts(file)
    except AccountsError as error:
        raise click.ClickException(str(error)) from None


def _option(file: Path) -> str:
    """The option that a command needs to mean this file."""
    return "" if file == DEFAULT_USERS else f" --file {shlex.quote(str(file))}"


def _at_terminal() -> bool:
    """Whether a password can be asked for without being shown: as getpass does, at this process's terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin is not None and sys.stdin.isatty()
    return True


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,4})([hdwy])", text)
    if match is None:
        raise click.BadParameter(f"{text}: write a number and h, d, w or y, such as 30d, or never", param_hint="--expires")
    return int(match[1]) * UNITS_S[match[2]]


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))
