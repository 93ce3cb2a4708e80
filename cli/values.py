"""Values of options, read by topology/units.py, and options that do not go together."""

from __future__ import annotations

import getpass
import math
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from topology.interface_names import is_interface_name

FORMATS = (".png", ".svg", ".pdf")
"""What pictures can be written as."""


class File(click.Path):
    """The name of a file, which need not be there: click's own also takes an empty one, which stands for a directory."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; ends the command with an error where it is empty."""
        if not os.fspath(value):
            self.fail("it is empty; name a file", param, ctx)
        return Path(str(super().convert(value, param, ctx)))


class Picture(click.Path):
    """The file of a picture, of a format that can be drawn: told before anything is measured."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; ends the command with an error where its name ends with no format."""
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix.lower() not in FORMATS:
            self.fail(f"{path}: a picture's name ends with {', '.join(FORMATS[:-1])} or {FORMATS[-1]}", param, ctx)
        return path


OPTIONS = {
    "name": "--name", "deadline_ms": "--deadline (ms)", "size_bytes": "--size (bytes)", "for_ms": "--for (ms)",
    "flows": "--flow",
}  # fmt: skip
"""By field of a flow's or a coflow's: the option that gives it."""
FILE = File()
PICTURE = Picture()
SEED = click.IntRange(0, 2**32 - 1)
"""What Python's hashes (in virtual time), numpy and ns-3 all take."""


class Number(click.FloatRange):
    """A finite number in a range: click's own also takes `nan`, which no range refuses, and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 -- click's
        """The number; ends the command with an error where it is none."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is no number to count with; write one such as 10", param, ctx)
        return number


def operator() -> str:
    """Who runs this command, for the record: the number of a user without a name, as containers have."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def interface_name(option: str, text: str) -> str:
    """A name that an interface can have, unchanged. Ends the command with an error otherwise."""
    if not is_interface_name(text):
        says = f"{text!r} is no interface's name; write 1 to 15 bytes without white space, slash and colon, such as eth1"
        raise click.BadParameter(says, param_hint=option)
    return text


def refuse(names: Collection[str], why: str) -> None:
    """Ends the command if one of these parameters was given on the command line; `why` follows the option in the error."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0] if option.opts[0].startswith('-') else '--'} {why}; leave it out")


def named(option: str, text: str | None, parse: Callable[[str], int]) -> int | None:
    """The value of an option, or None if it was not given. Ends the command with an error that names the option."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def of_option(text: str) -> str:
    """What is said of a field, as said of the option that gives it."""
    field = re.split(r"\W", text, maxsplit=1)[0]
    return OPTIONS.get(field, field) + text[len(field) :]
