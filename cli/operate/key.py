"""`baton key`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.hosts.host import next_directory, save_next
from cli.reach import open_store, store_options, using_store
from cli.values import FILE, Number, operator
from controller.members.enrolments import EnrolmentFile, Enrolments
from controller.processes.waiting import wait_until
from protocol.key import Key, KeyFileError
from protocol.key_files import name, new_beside

if TYPE_CHECKING:
    from controller.store.store import Store

FINISHED = ("drop", "cancel")
LEADER_S = 5.0
"""How long the coordinator may take to begin a step."""


@click.group()
def key() -> None:
    """The controllers' master key: every host's own key is derived from it. Only controllers may have it."""


@key.command()
@click.argument("file", type=FILE)
def generate(file: Path) -> None:
    """Write a new random key to FILE (mode 0600); an existing file is never overwritten.

    Keep it on the controllers alone, readable by root only; hosts get files of their own by `baton host enroll`.
    """
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Key.generate(file)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}; name a directory you may write") from None
    click.echo(f"{file} written; keep it on the controllers alone, and enroll each host: baton host enroll NAME --key {file}")


@key.command()
@click.argument("file", type=FILE, default=Path("/etc/baton/key"))
@click.option(
    "--wait",
    type=Number(0, 86_400),
    default=10.0,
    show_default=True,
    help="How long to wait for the members in each step, in seconds.",
)
@click.option("--force", is_flag=True, help="Go on without members that do not follow; they send freely until they have it.")
@click.option("--cancel", is_flag=True, help="Cancel the change and keep the old key.")
@store_options
@using_store()
def rotate(file: Path, wait: float, force: bool, cancel: bool, run_dir: Path, store: str | None) -> None:
    """Change the key of a running fabric, without a gap. FILE is the key's file on this controller.

    The first call writes FILE.new and, for each enrolled host, FILE.new.d/NAME. Copy FILE.new to every other controller, beside
    its key; copy each host's file to its host, beside the one there and with .new at the end of its name. Then call this again,
    as often as it names members that are missing. All first take both keys, then send with the new, then drop the old.
    """
    if cancel and force:
        raise click.UsageError("--cancel waits for every member, which --force would leave behind; give one of them")
    shared = open_store(run_dir, store)
    try:
        _check_rotation(shared)
        if cancel:
            _cancel(shared, file, wait)
        elif _is_begun(shared, file):
            _go_on(shared, file, wait, force)
        else:
            _begin(shared, file)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None


def _check_rotation(store: Store) -> None:
    """Ends the command where the last step can't be read: to begin anew would take hosts back to a key that others may have
    dropped, and what is under way can't be cancelled."""
    store.commands.rotation()
    if any(line.startswith("rotation ") for line in store.connection.unread.lines()):
        remedy = "if no change of the key is under way, delete the key baton:rotation there, and run this again"
        raise click.ClickException(f"the last step of a change in the store can't be read; {remedy}")


def _is_begun(store: Store, file: Path) -> bool:
    """Whether a change to the key in FILE.new is under way, or one to the key that has just replaced FILE."""
    known = store.commands.rotation()
    if known is None or known["step"] == "cancel":
        return False
    if new_beside(file).exists():
        return name(Key.load(new_beside(file)).fingerprint) == str(known["new"])
    return known["step"] != "drop" or bool(_report(store).get("waiting_for"))


def _begin(store: Store, file: Path) -> None:
    old = Key.load(file)
    fresh = new_beside(file)
    new = Key.load(fresh) if fresh.exists() else Key.generate(fresh)
    enrolments = Enrolments()
    enrolments.merge(EnrolmentFile(file).read())
    enrolments.merge(store.commands.hosts() or {})
    save_next(file, {salt: one.name for salt, one in enrolments.valid()})
    _step(store, "accept", name(old.fingerprint), name(new.fingerprint))
    click.echo(f"{fresh} written; copy it to every other controller, beside its key there and with .new at the end.")
    click.echo(f"Copy each file of {next_directory(file)} to the host of its name, beside its file there and with .new at the")
    click.echo("end. All mode 0600, owned by root. Then run this again. Nothing has changed yet, and --cancel ends it here.")


def _go_on(store: Store, file: Path, wait_s: float, force: bool) -> None:
    known = store.commands.rotation() or {}
    old, new = known["old"], known["new"]
    steps = ("accept", "send", "drop")
    for step in steps[steps.index(known["step"]) if known["step"] in steps else 0 :]:
        if (store.commands.rotation() or {}).get("step") != step:
            _step(store, step, old, new)
        _await(store, step, wait_s, force)
        click.echo({
            "accept": "every member takes both keys",
            "send": "every member sends with the new key",
            "drop": f"every member takes the new key only; {file} holds it, here and on every controller",
        }[step])  # fmt: skip
    shutil.rmtree(next_directory(file), ignore_errors=True)


def _cancel(store: Store, file: Path, wait_s: float) -> None:
    known = store.commands.rotation()
    if known is None or known["step"] in FINISHED:
        raise click.ClickException("key: no change is under way, so there is nothing to cancel")
    _step(store, "accept", known["old"], known["new"])
    wait_until(lambda: (now := _report(store)).get("step") == "accept" and not now["sending_new"], timeout_s=LEADER_S)
    _step(store, "cancel", known["old"], known["new"])
    _await(store, "cancel", wait_s, force=False)
    shutil.rmtree(next_directory(file), ignore_errors=True)
    click.echo("every member takes the old key only, and the new one is removed")


def _step(store: Store, step: str, old: str, new: str) -> None:
    store.commands.set_rotation(step, old, new)
    who = operator()
    store.publish_event("audit", "warning", f"{who}: change of the key to {new}: step {step}", by=who)


def _await(store: Store, step: str, wait_s: float, force: bool) -> None:
    """Returns when all members follow. Raises ClickException: no coordinator leads, or members are missing without `force`."""
    if not wait_until(lambda: _report(store).get("step") == step, timeout_s=LEADER_S):
        raise click.ClickException(f"key: no coordinator took up step {step}; see `baton status`, then run this again")
    report: dict[str, Any] = {}

    def follow() -> bool:
        nonlocal report
        report = _report(store)  # without a step while another controller takes over
        return report.get("step") == step and not report["problem"] and not report["waiting_for"]

    found = wait_until(follow, timeout_s=wait_s)
    if report.get("step") != step:
        raise click.ClickException(f"key: nobody tells who follows step {step}; see `baton status`, then run this again")
    if report["problem"]:
        raise click.ClickException(f"key: {report['problem']}; then run this again")
    if not found and not force:
        missing = ", ".join(report["waiting_for"])
        raise click.ClickException(f"key: step {step} waits for {missing}: copy its new file there, and run this again")


def _report(store: Store) -> dict[str, Any]:
    return dict((store.status() or {}).get("key", {}))
