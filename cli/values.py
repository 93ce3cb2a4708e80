"""Values of options, read by topology/units.py."""

from __future__ import annotations

from collections.abc import Callable

import click


def named(option: str, text: str | None, parse: Callable[[str], int]) -> int | None:
    """The value of an option, or None if it was not given. Ends the command with an error that names the option."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
