"""One page with every figure: our picture, the published values beside ours, a verdict, how sure it is. An edge: files.

The page needs nothing but itself: pictures are inlined. It has a light and a dark form, and one for paper.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import pictures
from bench.figures.catalogue import Entry
from bench.figures.conclusions import column, conclude
from bench.figures.runner import State, read_state
from bench.record import Experiment
from emulation.files import write_whole
from emulation.measuring.confidence import level_of

TEMPLATE = Path(__file__).with_name("report.html")
MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
ENVIRONMENT = {
    "kernel": "Linux {}",
    "cpus": "processors: {}",
    "machine": "{}",
    "open_vswitch": "Open vSwitch {}",
    "python": "Python {}",
    "rate_mbps": "links of {:g} Mb/s",
}
"""What the report shows of a record's environment, and how."""


class Line(NamedTuple):
    """A line of the table of values: what it is, and for each column ours and the published text."""

    what: str
    cells: Sequence[tuple[str, str]]


class Section(NamedTuple):
    """A figure as the page shows it."""

    entry: Entry
    state: State
    verdict: str = ""
    columns: Sequence[str] = ()
    lines: Sequence[Line] = ()
    pictures: Sequence[tuple[str, str]] = ()
    """Of each picture the light form and the dark one, as data URIs."""
    published: str = ""
    scale: str = ""
    confidence: Mapping[str, Any] = {}
    level: str = ""
    commit: str = ""
    environment: str = ""


def write(entries: Sequence[Entry], results: Path, page: Path) -> list[Section]:
    """Writes the page about these figures, from what their folders in `results` hold; its sections."""
    from jinja2 import Environment, StrictUndefined

    sections = [section(entry, results / entry.name) for entry in entries]
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
        TEMPLATE.read_text()
    )
    counts = {status: sum(one.state.status == status for one in sections) for status in ("done", "failed", "missing")}
    commits = sorted({one.commit for one in sections if one.commit})
    finished = max((one.state.finished for one in sections), default="")
    text = template.render(sections=sections, counts=counts, commits=commits, finished=finished)
    write_whole(page, text)
    return sections


def section(entry: Entry, directory: Path) -> Section:
    """What the page shows of one figure; of one that failed or was not measured, that."""
    state = read_state(directory)
    if state.status != "done":
        return Section(entry, state)
    try:
        return _measured(entry, state, directory, pictures.load(directory))
    except Exception as error:  # whatever is wrong with one record, the page shows the other figures
        line = f"its record is not as expected: {type(error).__name__}: {error}"
        return Section(entry, state._replace(status="failed", line=line))


def _measured(entry: Entry, state: State, directory: Path, found: Experiment) -> Section:
    record = found.record
    concluded = conclude(entry.name, record)
    columns = list(dict.fromkeys(name for row in concluded.compared for name in (*row.ours, *row.published)))
    lines = [
        Line(row.what, [_cell(row.ours.get(name), row.published.get(name, "")) for name in columns])
        for row in concluded.compared
    ]
    themes = [pictures.pictures(directory, name) for name in ("light", "dark")]
    environment = record.get("environment", {})
    return Section(
        entry,
        state,
        verdict=concluded.verdict,
        columns=[column(name) for name in columns],
        lines=lines,
        pictures=[(inlined(light), inlined(dark)) for light, dark in zip(*themes, strict=True)],
        published=record.get("published", {}).get("result", ""),
        scale=record.get("scale", ""),
        confidence=record.get("confidence", {}),
        level=level_of(record).value,
        commit=environment.get("commit", ""),
        environment=_described(environment),
    )


def _cell(ours: float | None, published: str) -> tuple[str, str]:
    """A cell's two texts; a value that only the paper has stands alone."""
    return "" if ours is None and published else shown(ours), published


def _described(environment: Mapping[str, Any]) -> str:
    """A record's environment in a line."""
    words = ["virtual time" if environment.get("virtual_time") else "real time"]
    words += [how.format(environment[name]) for name, how in ENVIRONMENT.items() if environment.get(name)]
    return ", ".join(words)


def shown(value: float | None) -> str:
    """A measured value in a table's cell; a dash if there is none."""
    if value is None:
        return "–"  # noqa: RUF001 -- a dash in a table
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def inlined(path: Path) -> str:
    """A picture as a data URI."""
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


