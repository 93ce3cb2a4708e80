"""`baton bench figures`: every published figure, measured again, and one report of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from cli.experiment_time import NoVirtualTime
from cli.experiments import handle_ends, make_console

HEAD = "figures"
REPORT = "report.html"
FOLDER: click.Path = click.Path(path_type=Path, file_okay=False)


@click.command(short_help="every published figure, and a report of all of them")
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@click.option("--into", default="results", show_default=True, type=FOLDER, help="A folder.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="Figures in virtual time at once.")
@click.option("--again", is_flag=True, help="Measure those that are done, too.")
@click.option("--list", "listed", is_flag=True, help="List the figures and their commands, and measure nothing.")
@click.option("--report", "only_report", is_flag=True, help="Write the report of what is there, and measure nothing.")
@click.option("--summary", type=click.Path(path_type=Path, dir_okay=False), help="Write its text here, too (Markdown).")
def figures(
    names: tuple[str, ...], into: Path, jobs: int, again: bool, listed: bool, only_report: bool, summary: Path | None
) -> None:
    """Measure all published figures, or those that are named, and write one report of all.

    A figure that is done runs again only if its code or its command has changed. Ctrl-C keeps what is done; the same command
    goes on. The report is report.html in the folder. Ends with 1 if a figure failed.
    """
    from bench.figures import report
    from bench.figures.catalogue import ENTRIES, chosen
    from bench.figures.summary import markdown
    from emulation.files import write_whole

    try:
        entries = chosen(names)
    except KeyError as error:
        known = ", ".join(entry.name for entry in ENTRIES)
        raise click.BadParameter(f"there is no figure {error}; name some of {known}", param_hint="FIGURE") from None
    if listed:
        for entry in entries:
            click.echo(f"{entry.name:26}{entry.command}\n{'':26}{entry.question}")
        return
    results, page = into.absolute() / HEAD, into.absolute() / REPORT
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{into} cannot be made: {error.strerror}; name another folder", param_hint="--into") from None
    if summary is not None:  # told now, not after all figures
        try:
            summary.parent.mkdir(parents=True, exist_ok=True)
            summary.open("a").close()
        except OSError as error:
            problem = f"{summary} cannot be written: {error.strerror}; name another file"
            raise click.BadParameter(problem, param_hint="--summary") from None
    try:
        failed = [] if only_report else _measure(entries, results, jobs, again)
    finally:
        with _told(page):
            sections = report.write(ENTRIES, results, page)
        click.echo(f"written: {page}")
        if summary is not None:
            with _told(summary):
                write_whole(summary, markdown(sections))
            click.echo(f"written: {summary}")
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(entries)} figures failed: {', '.join(failed)}")


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Ends the command with one line if this file cannot be written."""
    try:
        yield
    except OSError as error:
        says = f"{file} cannot be written: {error.strerror}; make room, and write it by the same command with --report"
        raise click.ClickException(says) from None


def _measure(entries: list[Any], results: Path, jobs: int, again: bool) -> list[str]:
    """Measures what is to be measured, with a progress bar; the names of those that failed."""
    from rich.progress import BarColumn, Progress, TextColumn

    from bench.figures.catalogue import Entry
    from bench.figures.runner import Progress as Far
    from bench.figures.runner import Runner, State
    from emulation.virtual import kernel

    if kernel.find() is None and any(entry.virtual for entry in entries):
        raise NoVirtualTime("there is no kernel of virtual time: run `make virtual`")
    handle_ends(_interrupt)
    console = make_console()
    columns = (TextColumn("{task.description:45}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0, left="")

        def tell(far: Far) -> None:
            progress.update(task, description=", ".join(far.running), completed=far.share, left=left(far.left_s))

        def ended(entry: Entry, state: State) -> None:
            said = state.line or f"{state.seconds:.0f} s"
            console.print(f"{entry.name:26}{state.status:8}{said}", highlight=False, soft_wrap=True)

        found = Runner(entries, results, jobs=jobs, again=again).run(tell, ended)
    return [name for name, state in found.items() if state.status == "failed"]


def left(seconds: float) -> str:
    """The time that is left, in words for a progress bar."""
    return f"{seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
