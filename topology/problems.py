"""What is wrong with a fabric, or with any YAML read by `marked_yaml`: values that say where and what. Pure.

A problem's text is one line: what is wrong, a semicolon, and the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its field's path ("links[2].rate"; empty for the whole), its line in a file (from 1)."""

    field: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line is not None else []
        return ": ".join([*where, *([self.field] if self.field else []), self.text])


class FabricError(ValueError):
    """A fabric that can't be; `problems` holds everything that was found, in the order of the lines."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
