"""`baton key`."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.reach import open_store, store_options
from protocol.key import Key, KeyFileError
from protocol.key_files import name, new_beside

if TYPE_CHECKING:
    from controller.store.store import Store

FINISHED = ("drop", "cancel")
LEADER_S = 5.0
"""How long the coordinator may take to begin a step."""


@click.group()
def key() -> None:
    """The shared key, without which nobody can grant or take permission."""


@key.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def generate(file: Path) -> None:
    """Write a new random key to FILE (mode 0600); a file that is there is never overwritten.

    Copy it to the controller and to every host, readable by root only.
    """
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Key.generate(file)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}; name a directory you may write") from None
    click.echo(f"{file} written; copy it to the controller and to every host, and keep it secret")


@key.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path("/etc/baton/key"))
@click.option("--wait", type=click.FloatRange(0, 86_400), default=10.0, show_default=True, help="For each step, in seconds.")
@click.option("--force", is_flag=True, help="Leave behind the members that do not follow: they send freely until mended.")
@click.option("--cancel", is_flag=True, help="Give the new key up and stay with the old one.")
@store_options
def rotate(file: Path, wait: float, force: bool, cancel: bool, run_dir: Path, store: str | None) -> None:
    """Change the key of a running fabric, without a gap. FILE is the key's file on this controller.

    The first call writes FILE.new: copy it to every host and every other controller, beside its key and named likewise. Call
    this again, and again if it says who is missing: members take both keys, then send with the new one, then drop the old one.
    """
    from controller.store.store import StoreUnavailable

    shared = open_store(run_dir, store)
    try:
        if cancel:
            _cancel(shared, wait)
        elif _is_begun(shared, file):
            _go_on(shared, file, wait, force)
        else:
            _begin(shared, file)
    except (KeyFileError, StoreUnavailable) as error:
        raise click.ClickException(str(error)) from None


def _is_begun(store: Store, file: Path) -> bool:
    """Whether a change is under way: to the key that is in FILE.new, or that has just taken FILE's place."""
    known = store.rotation()
    if known is None or known["step"] == "cancel":
        return False
    if new_beside(file).exists():
        return name(Key.load(new_beside(file)).fingerprint) == str(known["new"])
    return known["step"] != "drop" or bool(_report(store).get("waiting_for"))


def _begin(store: Store, file: Path) -> None:
    old = Key.load(file)
    fresh = new_beside(file)
    new = Key.load(fresh) if fresh.exists() else Key.generate(fresh)
    _step(store, "accept", name(old.fingerprint), name(new.fingerprint))
    click.echo(f"{fresh} written; copy it to every host and every other controller, beside its key and with .new at the end,")
    click.echo("mode 0600, owned by root. Then run this again. Nothing has changed yet, and --cancel ends it here.")


def _go_on(store: Store, file: Path, wait_s: float, force: bool) -> None:
    known = store.rotation() or {}
    old, new = known["old"], known["new"]
    steps = ("accept", "send", "drop")
    for step in steps[steps.index(known["step"]) if known["step"] in steps else 0 :]:
        if (store.rotation() or {}).get("step") != step:
            _step(store, step, old, new)
        _await(store, step, wait_s, force)
        click.echo({
            "accept": "every member takes both keys",
            "send": "every member sends with the new key",
            "drop": f"every member takes the new key only; {file} holds it, here and there",
        }[step])  # fmt: skip


def _cancel(store: Store, wait_s: float) -> None:
    known = store.rotation()
    if known is None or known["step"] in FINISHED:
        raise click.ClickException("key: no change is under way, so there is nothing to cancel")
    _step(store, "accept", known["old"], known["new"])
    _until(LEADER_S, lambda: _report(store).get("step") == "accept" and not _report(store)["sending_new"])
    _step(store, "cancel", known["old"], known["new"])
    _await(store, "cancel", wait_s, force=False)
    click.echo("every member takes the old key only, and the new one is removed")


def _step(store: Store, step: str, old: str, new: str) -> None:
    store.set_rotation(step, old, new)
    who = getpass.getuser()
    store.publish_event("audit", "warning", f"{who}: change of the key to {new}: step {step}", by=who)


def _await(store: Store, step: str, wait_s: float, force: bool) -> None:
    """Returns when all members follow. Raises ClickException: nobody leads, or some do not (and not `force`)."""
    if not _until(LEADER_S, lambda: _report(store).get("step") == step):
        raise click.ClickException(f"key: no coordinator took up step {step}; see `baton status`, then run this again")
    found = _until(wait_s, lambda: not _report(store).get("problem") and not _report(store)["waiting_for"])
    report = _report(store)
    if report.get("problem"):
        raise click.ClickException(f"key: {report['problem']}; then run this again")
    if not found and not force:
        missing = ", ".join(report.get("waiting_for", ()))
        raise click.ClickException(f"key: step {step} waits for {missing}: copy the new key's file there, and run this again")


def _report(store: Store) -> dict[str, Any]:
    return dict((store.status() or {}).get("key", {}))


def _until(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
