"""What commands that run an experiment share: root and the sandbox, the console, the progress bar, the JSON result.

Everything slow to import is imported inside the functions, so that `--help` stays quick.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

NEEDS_ROOT = "an emulated fabric needs root: run the command with sudo"
WIDTH = 110
"""Columns of the output when it does not go to a terminal."""
MOST_REASONS = 5
"""Of what disturbed an experiment: so many are printed."""


Tell = Callable[[str, float], None]
"""Shows what the experiment does now, and how far it has come, in the unit of the bar's total."""


def require_root(message: str = NEEDS_ROOT) -> None:
    """Ends the command with `message` if it does not run as root."""
    if os.geteuid() != 0:
        raise click.ClickException(message)


def enter_box() -> None:
    """Runs this same command again inside the sandbox (emulation/box.py), unless it runs there already. Inside, SIGTERM ends it
    as Ctrl-C does, and so does a terminal that is closed: what it made is removed, temporary keys among it."""
    from emulation import box

    if not box.inside():
        box.enter([sys.executable, "-m", "cli.main", *sys.argv[1:]])
    end_on_sigterm()


def end_on_sigterm() -> None:
    """Has SIGTERM, and SIGHUP if `nohup` did not have it ignored, end this process as Ctrl-C does. A second one, as when a box
    hands on what its whole group has got, does not end the ending. A process that a library forks from it ends at once, without
    undoing what is its parent's: pyroute2 forks and ends one for each socket in another network namespace."""
    owner, ending = os.getpid(), False

    def end(number: int, _: object) -> None:
        nonlocal ending
        if os.getpid() != owner:
            os._exit(128 + number)
        if not ending:
            ending = True
            sys.exit(128 + number)

    handle_ends(end)


def handle_ends(handler: Callable[[int, Any], object]) -> None:
    """Has this handle SIGTERM, and SIGHUP (a terminal that is closed) unless `nohup` has it ignored."""
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handler)


def make_console() -> Console:
    """A console that keeps a fixed width when its output goes to a file or a pipe."""
    from rich.console import Console

    console = Console(markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


@contextmanager
def progress_bar(console: Console, total: float = 1.0) -> Iterator[tuple[Tell, Any]]:
    """Shows a progress bar; gives the function that moves it, and rich's Progress, whose `stop()` removes it early."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:45}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=total)

        def tell(what: str, done: float) -> None:
            progress.update(task, description=what, completed=min(done, total))

        yield tell, progress


@contextmanager
def in_a_line() -> Iterator[None]:
    """Ends the command with one line if the emulation, or Baton over it, does not come up."""
    from ebpf.build import BuildError
    from ebpf.libbpf import BpfError
    from emulation.fabric.naming import EmulationError
    from emulation.stack.stack import StackError

    try:
        yield
    except (EmulationError, StackError, BuildError, BpfError) as error:
        raise click.ClickException(str(error)) from None


def print_outcome(console: Console, written: list[Path], record: Mapping[str, Any]) -> None:
    """Names the files that the experiment wrote, and says how exact its links were, how sure its figures are and what holds."""
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
    for line in (*link_lines(record["runs"]), *confidence_lines(record["confidence"])):
        console.print(line, highlight=False, soft_wrap=True)


def link_lines(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What runs' records say of the emulation: how exactly packets left the links, and which host used up its processor."""
    from emulation.fabric.cpu_shares import sentence as of_shares
    from emulation.measuring.spacing import sentence as of_links

    links = of_links([run["fidelity"]["all"] for run in runs if "fidelity" in run])
    shares = of_shares([run["throttled"] for run in runs if "throttled" in run])
    return [line for line in (links, shares) if line]


def confidence_lines(confidence: Mapping[str, Any]) -> list[str]:
    """How sure a result is, in lines: the level, what was disturbed (at most `MOST_REASONS`), what holds all the same."""
    lines = [f"confidence: {confidence['level']}"]
    disturbed = confidence["disturbed"] if confidence["level"] in ("indicative", "poor") else []
    lines += [f"  {text}" for text in disturbed[:MOST_REASONS]]
    if len(disturbed) > MOST_REASONS:
        lines.append(f"  and {len(disturbed) - MOST_REASONS} more, which the record lists")
    lines += [f"  {text}" for text in confidence["affected"]] if disturbed else []
    return [*lines, f"  holds: {confidence['holds']}"]


def print_json(result: object, json_file: Path | None) -> None:
    """Prints a benchmark's result as JSON, and writes it to `json_file` if there is one, even where it cannot be printed."""
    text = json.dumps(result, indent=1)
    try:
        click.echo(text)
    finally:
        write_text(text, json_file)


def write_text(text: str, file: Path | None) -> None:
    """Writes a text to a file, whole or not at all; its directory is made if it is missing. Writes nothing if there is no
    file."""
    if file is not None:
        from emulation.files import write_whole

        write_whole(file, text + "\n")
