"""`baton check`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def check(file: Path, as_json: bool) -> None:
    """Check FILE, a configuration of `baton up` or a fabric file, without changing anything.

    Prints every mistake with its line and its remedy. Exits with 1 when there is one.
    """
    from controller.config.reading import check_file

    kind, problems = check_file(file)
    rows: list[dict[str, object]] = []
    for problem in problems:
        message, _, remedy = problem.text.rpartition("; ")
        rows.append({"line": problem.line, "field": problem.field, "message": message or remedy, "remedy": remedy})
    if as_json:
        click.echo(json.dumps({"file": str(file), "kind": kind, "problems": rows}, indent=1))
    elif rows:
        _show(file, rows)
    else:
        click.echo(f"{file}: a good {kind}")
    sys.exit(bool(rows))


def _show(file: Path, rows: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        "line",
        "field",
        "what is wrong",
        "what to do",
        title=f"{file}: {len(rows)} to correct",
        title_justify="left",
    )
    for row in rows:
        table.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    on_terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it is closed
    Console(width=None if on_terminal else 160, markup=False).print(table)
