"""The text of a file that an operator named, however long it is and whatever it is. An edge: opens a file."""

from __future__ import annotations

from pathlib import Path

MOST_CHARACTERS = 64 << 20
"""Far more than the file of a fabric of thousands of hosts has."""


class Unreadable(Exception):
    """There is no such text; says why."""


def text_of(path: Path) -> str:
    """The text of a file. Raises Unreadable: it can't be read, is not UTF-8, or is too long, as a device or a pipe may be."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8 text") from None
    except ValueError:
        raise Unreadable("its name has a null byte") from None
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it is longer than {MOST_CHARACTERS >> 20} MiB")
    return text
