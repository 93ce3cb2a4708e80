"""`baton host`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.reach import open_store, store_options
from cli.values import FILE, operator
from controller.members.enrolments import EnrolmentFile, Enrolments
from protocol.bodies.text import packed_text
from protocol.key import KeyFileError
from protocol.key_files import new_beside
from protocol.keys import host_file
from protocol.keys.hosts import Master

if TYPE_CHECKING:
    from controller.store.store import Store

KEY = Path("/etc/baton/key")
KEY_OPTION = click.option(
    "--key", type=FILE, default=KEY, show_default=True,
    help="The controllers' key file, made by `baton key generate`.",
)  # fmt: skip


@click.group()
def host() -> None:
    """The fabric's hosts: each has a key of its own, which a controller makes and can revoke.

    Enrolments and revocations are in FILE.hosts beside the key file, and in the store, from which other controllers learn them.
    """


@host.command()
@click.argument("name")
@click.option("--mac", "macs", multiple=True, help="The only address that the host may speak from; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write.  [default: NAME.host]")
@KEY_OPTION
@store_options
def enroll(name: str, macs: tuple[str, ...], out: Path | None, key: Path, run_dir: Path, store: str | None) -> None:
    """Write the file that makes a machine the host NAME: copy it there, mode 0600, and name it to `baton agent --key`.

    Enrolling a host again gives it a newer key. Copy it beside the old one, with .new at the end of its name: the agent takes
    it without a gap. Then `baton host revoke NAME --but-newest`.
    """
    out = out or Path(f"{name}.host")
    try:
        if not packed_text("NAME", name, host_file.NAME_BYTES_MAX):
            raise KeyFileError("NAME: it is empty; name the host as operators should know it")
        if "/" in name or ">" in name or any(map(str.isspace, name)):
            raise KeyFileError(f"NAME: {name!r} has a slash, a '>' or white space; name the host as operators should know it")
        if name in (".", ".."):  # its file in the directory of the new key could not be written
            raise KeyFileError(f"NAME: {name!r} is a directory's; name the host as operators should know it")
        addresses = tuple(dict.fromkeys(map(_mac, macs)))
        made = Master.load(key).enroll(name)
        again = False

        def add(enrolments: Enrolments) -> None:
            nonlocal again
            again = any(one.name == name for _, one in enrolments.valid())
            _check_free(enrolments, name, addresses)  # with what the store knows, too
            enrolments.add(made.enrolment, name, addresses, int(time.time()))

        known = Enrolments()
        known.merge(EnrolmentFile(key).read())
        _check_free(known, name, addresses)
        if changes := new_beside(key).exists():
            Master.load(new_beside(key))  # one that can't be read is told before anything is written
        host_file.save(made, out)
        try:
            reached = change(key, add, f"{name} is enrolled", run_dir, store)
        except BaseException:  # a key that is noted nowhere could not be revoked
            out.unlink(missing_ok=True)
            raise
        if changes:  # not before: the file there may be of an older key of this host, which is noted
            save_next(key, {made.enrolment: name})
    except (KeyFileError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{out} written; move it to {name}, mode 0600, readable by root only")
    if again:
        click.echo(f"{name} has an older key: put this file beside its own, with .new at the end of the name;")
        click.echo(f"its agent then takes it, and `baton host revoke {name} --but-newest` ends the older one")
    if macs and not reached:
        click.echo("no store was reached: other controllers learn the addresses when Baton runs here")


def _check_free(known: Enrolments, name: str, addresses: tuple[str, ...]) -> None:
    """Raises KeyFileError: the list of hosts is full, or one of the addresses is reserved for another host."""
    known.check_room()
    for address in addresses:
        if (owner := known.reserved(bytes.fromhex(address.replace(":", "")))) not in (None, name):
            raise KeyFileError(f"--mac {address}: is reserved for {owner}; `baton host revoke {owner}`, or name another")


@host.command()
@click.argument("name")
@click.option("--but-newest", is_flag=True, help="Keep the key that NAME was given last.")
@KEY_OPTION
@store_options
def revoke(name: str, but_newest: bool, key: Path, run_dir: Path, store: str | None) -> None:
    """End what the keys of the host NAME are good for, at once and for ever."""
    count = 0

    def end(enrolments: Enrolments) -> None:
        nonlocal count
        count = enrolments.revoke(name, int(time.time()), but_newest=but_newest)
        if not count:
            raise KeyFileError(f"{name}: has no {'older ' if but_newest else ''}key to revoke; see `baton host list`")

    _require_file(key)
    try:
        reached = change(key, end, f"the keys of {name} are revoked", run_dir, store)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{name}: {count} {'key' if count == 1 else 'keys'} revoked")
    if not reached:
        click.echo("no store was reached: other controllers go on taking it until they learn it from the store, or this file")


@host.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON, by the first half of each enrolment.")
@KEY_OPTION
@store_options
def list_hosts(as_json: bool, key: Path, run_dir: Path, store: str | None) -> None:
    """Show the enrolled hosts: name, when, addresses, and whether the key is revoked."""
    try:
        found = Enrolments()
        found.merge(EnrolmentFile(key).read())
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    if not _with_store(run_dir, store, lambda shared: found.merge(shared.commands.hosts() or {})):
        _require_file(key)
    if as_json:
        click.echo(json.dumps(found.document(), indent=2))
        return
    if not found.document():
        click.echo("no host is enrolled yet: `baton host enroll NAME`")
    for _, fields in sorted(found.document().items(), key=lambda item: (item[1]["name"], item[1]["enrolled"])):
        state = f"revoked {_when(fields['revoked'])}" if fields["revoked"] else "valid"
        click.echo(f"{fields['name']:20} {_when(fields['enrolled'])}  {state:26} {' '.join(fields['macs']) or 'any address'}")


def _require_file(key: Path) -> None:
    """Ends the command where neither the key file nor the list of hosts beside it exists: the path is mistyped."""
    if not key.exists() and not EnrolmentFile(key).path.exists():
        raise click.ClickException(f"{key}: there is no such file; name the controllers' key file by --key")


def _when(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _mac(text: str) -> str:
    try:
        mac = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        mac = b""
    if len(mac) != 6 or mac[0] & 1:
        raise ValueError(f"--mac {text}: is no address of an interface; write one such as 02:00:00:00:00:01")
    return mac.hex(":")


def change(key: Path, make: Callable[[Enrolments], None], said: str, run_dir: Path, store: str | None) -> bool:
    """Changes the enrolments beside the key file, then in the store if there is one; returns whether there is.

    Raises KeyFileError: the file cannot be read or written.
    """
    with EnrolmentFile(key).changing() as enrolments:
        _with_store(run_dir, store, lambda shared: enrolments.merge(shared.commands.hosts() or {}))
        make(enrolments)

    def merged(known: dict[str, Any] | None) -> dict[str, Any]:
        enrolments.merge(known or {})
        return dict(enrolments.document())

    def tell(shared: Store) -> None:
        shared.commands.change_hosts(merged)
        who = operator()
        shared.publish_event("audit", "warning", f"{who}: {said}", by=who)

    return _with_store(run_dir, store, tell)


def _with_store(run_dir: Path, url: str | None, use: Callable[[Store], object]) -> bool:
    """Has `use` use the store; False if none was reached. Ends the command with an error where `--store` names it."""
    from controller.store.store import StoreUnavailable

    try:
        shared = open_store(run_dir, url)
    except click.ClickException:
        if url is not None:
            raise
        return False
    try:
        use(shared)
    except StoreUnavailable as error:
        if url is not None:
            raise click.ClickException(str(error)) from None
        return False
    finally:
        shared.close()
    return True


def next_directory(key: Path) -> Path:
    """Where the hosts' files of a new master key are."""
    return key.with_name(key.name + ".new.d")


def save_next(key: Path, hosts: dict[bytes, str]) -> None:
    """Writes the files that hosts (names by enrolment) need when the new master key takes the place of this one.

    Raises KeyFileError: a key is missing, or a file cannot be written.
    """
    master, directory = Master.load(new_beside(key)), next_directory(key)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise KeyFileError(f"{directory}: {error.strerror}; make room and try again") from None
    for salt, name in hosts.items():
        file = directory / name.replace("/", "_")
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise KeyFileError(f"{file}: {error.strerror}; remove it, or revoke the keys of {name}, and try again") from None
        host_file.save(master.enroll(name, salt), file)
