"""The report's text as Markdown, without its pictures: for a document beside the code. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figures.report import Section

HEAD = """# Published figures, measured again

`baton bench figures --report --summary FILE` has written this from the records of `make figures`; the report has the pictures,
too ([experiments.md](experiments.md) says how to get it). In each cell stands our value, then in brackets the published one, if
the document states it.
"""


def markdown(sections: Sequence[Section]) -> str:
    """The figures that were measured, each with its values and its verdict; the names of the others."""
    measured = [one for one in sections if one.state.status == "done"]
    missing = [one.entry.name for one in sections if one.state.status != "done"]
    finished = max((one.state.finished for one in measured), default="")
    last = f", the last one {finished[:10]}" if measured else ""
    lines = [HEAD, f"Measured: {len(measured)} of {len(sections)} figures{last}."]
    lines += [f"Not in this sample: {', '.join(missing)}."] if missing else []
    for one in measured:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def _section(one: Section) -> Iterator[str]:
    yield f"## {one.entry.name}: {one.entry.source}"
    yield ""
    yield f"{one.entry.question} **{one.verdict}**"
    if one.lines:
        yield ""
        yield f"| | {' | '.join(one.columns)} |"
        yield f"|---|{'---|' * len(one.columns)}"
        for line in one.lines:
            yield f"| {line.what} | {' | '.join(_cell(*cell) for cell in line.cells)} |"
    yield ""
    commit = f", commit {one.commit}" if one.commit else ""
    yield f"`{one.entry.command}`: {one.environment}; {one.level}; {one.state.seconds:.0f} s{commit}."


def _cell(ours: str, published: str) -> str:
    if not published:
        return ours
    return f"{ours} ({published})" if ours else f"({published})"
