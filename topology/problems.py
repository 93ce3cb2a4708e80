"""Problems of a fabric, or of any YAML that `marked_yaml` reads, with their places. Pure.

A problem's text is one line: what is wrong, a semicolon, and the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake: the path of its field ("links[2].rate"; empty for the whole), and its line in the file (from 1)."""

    field: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line is not None else []
        return ": ".join([*where, *([self.field] if self.field else []), self.text])


class FabricError(ValueError):
    """An invalid fabric; `problems` holds all of its mistakes, in the order of their lines."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
