"""Files that are written whole or not at all. An edge: files."""

from __future__ import annotations

from pathlib import Path


def can_be_replaced(path: Path) -> bool:
    """Whether there is a file, or nothing yet: no device, and no pipe."""
    return path.is_file() or not path.exists()


def write_whole(path: Path, text: str) -> None:
    """Writes a file by renaming a complete one, so that neither an interrupt nor a full disk leaves half of it; the directory
    is made if it is missing. A device or a pipe is written to directly. Raises OSError: nothing is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not can_be_replaced(path):
        path.write_text(text)
        return
    target = path.resolve()
    fresh = target.with_name(f"{target.name}.new")
    try:
        fresh.write_text(text)
        fresh.replace(target)
    except BaseException:  # Ctrl-C, too
        fresh.unlink(missing_ok=True)
        raise
