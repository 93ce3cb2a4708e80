"""`baton virtual`: commands in virtual time."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from cli.experiment_time import NoVirtualTime
from cli.values import SEED


@click.group()
def virtual() -> None:
    """Run commands in a kernel whose clock stands still while anything computes."""


@virtual.command(context_settings={"ignore_unknown_options": True})
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of every random number: the same seed, the same run.")
@click.option("--memory", default=3072, show_default=True, type=click.IntRange(256), help="MB of the guest.")
@click.option(
    "--writable",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A directory in which the command may write, besides the working one; may be given often.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(seed: int, memory: int, writable: tuple[Path, ...], command: tuple[str, ...]) -> None:
    """Run COMMAND in virtual time, on this machine's files.

    The command's output appears as it is written, and its exit status is this command's. Files that it writes below the working
    directory are kept; whatever else it writes goes with the guest.
    """
    from emulation.virtual import machine
    from emulation.virtual.kernel import KernelError

    try:
        status = machine.run(command, seed=seed, memory_mb=memory, writable=writable)
    except KernelError as error:
        raise NoVirtualTime(str(error)) from None
    sys.exit(status)


@virtual.command()
def doctor() -> None:
    """Say what virtual time needs and this machine lacks, and the package that has it."""
    from emulation.virtual import kernel

    built = kernel.find()
    absent = f"not built: run `make virtual`, which fetches {kernel.PACKAGE}"
    click.echo(f"kernel  {f'{kernel.release(built)}, {built}' if built else absent}")
    lacks = kernel.missing()
    for what, package in lacks:
        click.echo(f"missing {what}: apt-get install {package}")
    if not lacks:
        click.echo("build   nothing is missing")
    free = shutil.disk_usage(next(path for path in (kernel.cache(), *kernel.cache().parents) if path.exists())).free
    click.echo(f"disk    {free >> 30} GB free for {kernel.cache()}, a build takes {kernel.DISK_BYTES >> 30}")
    if built is None and (lacks or free < kernel.DISK_BYTES):
        sys.exit(1)
