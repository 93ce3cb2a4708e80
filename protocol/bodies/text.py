"""Text on the wire: UTF-8 of printable characters, because it reaches logs, terminals and pages. Pure.

A newline would forge a line of a log, an escape sequence would command the terminal of whoever reads it, and a control
character of writing direction would show another text than there is.
"""

from __future__ import annotations


def packed_text(name: str, text: str, limit: int) -> bytes:
    """The text as bytes. Raises ValueError naming the field: it is longer than `limit` bytes, or not printable."""
    if not text.isprintable():
        raise ValueError(f"{name}: {text!r} must be printable text: no newlines, escapes or other control characters")
    data = text.encode()
    if len(data) > limit:
        raise ValueError(f"{name}: {len(data)} bytes of UTF-8, at most {limit}")
    return data


def unpacked_text(data: bytes) -> str:
    """The inverse of `packed_text`. Raises ValueError: not UTF-8, or not printable."""
    text = data.decode()
    if not text.isprintable():
        raise ValueError("text")
    return text


def printable(text: str) -> str:
    """The text with a question mark for each character that is not printable: for what the kernel or a program tells."""
    return text if text.isprintable() else "".join([one if one.isprintable() else "?" for one in text])
