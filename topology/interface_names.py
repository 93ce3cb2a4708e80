"""What Linux takes as the name of a network interface. Pure."""

from __future__ import annotations

import os

LONGEST = 15
"""Bytes (IFNAMSIZ without the null byte). Names of ports in OpenFlow are no longer either."""


def is_interface_name(text: str) -> bool:
    """Whether an interface can have this name (the kernel's dev_valid_name)."""
    fits = 0 < len(os.fsencode(text)) <= LONGEST
    return fits and text not in (".", "..") and text.isprintable() and not set("/: ") & set(text)
