"""Parses rates, sizes and durations as people write them into integers, and the other way round. Pure.

| kind     | integer     | written                                             | plain number       |
|----------|-------------|-----------------------------------------------------|--------------------|
| rate     | bit/s       | `100Mbit`, `10G`, `2.5Gbit/s`, `100 Mb/s`, `40Mbps` | bit/s              |
| size     | bytes       | `1500B`, `60KB` (60,000), `64KiB` (65,536), `4M`    | bytes              |
| duration | nanoseconds | `10ms`, `300us`, `1.5s`, `250ns`, `2min`            | refused, but for 0 |

`b` means bits and `B` bytes, as in IEEE 260.1; prefixes are decimal and may be in either case. A rate in
bytes is refused, because it is easily mistaken for one in bits. Every parser raises ValueError with one line
that says what to write instead.
"""

from __future__ import annotations

import re
from decimal import Decimal

MAX_VALUE = 2**63 - 1  # the largest that the control protocol and the store carry

_QUANTITY = re.compile(r"\s*([0-9][0-9_]{0,24}(?:\.[0-9]{1,12})?)\s*([A-Za-z\xb5\u03bc/]{0,12})\s*")
_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_RATE_UNIT = re.compile(r"([kmgt]?)(?:|b|bit|bits|b/s|bit/s|bits/s|bps)", re.IGNORECASE)
_SIZE_UNIT = re.compile(r"([kmgt]?)(i?)(?:B?|bytes?)", re.IGNORECASE)
_DURATION_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\xb5s": 10**3,  # the micro sign
    "\u03bcs": 10**3,  # the Greek letter, which looks the same
    "ms": 10**6,
    "s": 10**9,
    "sec": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}


LEAST_LINK_BPS, MOST_LINK_BPS = 10**6, 10**12


def parse_rate(value: int | float | str) -> int:
    """A positive rate in bit/s."""
    number, unit = _split("rate", value, "100Mbit, 10G or a whole number of bit/s")
    match = _RATE_UNIT.fullmatch(unit)
    if match is None or "B" in unit:
        raise ValueError(f"rate {value!r} is not in bits; write 100Mbit, 10G or a whole number of bit/s")
    rate_bps = _whole("rate", value, number * _PREFIXES[match[1].lower()], "bit/s")
    if rate_bps == 0:
        raise ValueError(f"rate {value!r} is zero; write a rate above 0, such as 100Mbit")
    return rate_bps


def parse_link_rate(value: int | float | str) -> int:
    """The rate of a link in bit/s: from 1 Mbit/s to 1 Tbit/s. What is outside has probably lost its unit."""
    rate_bps = parse_rate(value)
    if not LEAST_LINK_BPS <= rate_bps <= MOST_LINK_BPS:
        raise ValueError(f"rate {value!r} is not from 1Mbit to 1Tbit; write the link's rate, such as 10Gbit")
    return rate_bps


def format_rate(rate_bps: int) -> str:
    """The shortest exact text that `parse_rate` reads: 100000000 is "100Mbit", 2500000000 "2.5Gbit"."""
    for prefix, scale in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if rate_bps >= scale and rate_bps % (scale // 1000) == 0:
            whole, thousandths = divmod(rate_bps, scale)
            fraction = f".{thousandths * 1000 // scale:03}".rstrip("0").rstrip(".")
            return f"{whole}{fraction}{prefix}bit"
    return f"{rate_bps}bit"


def parse_size(value: int | float | str) -> int:
    """A size in bytes, 0 or more."""
    number, unit = _split("size", value, "60KB, 64KiB or a whole number of bytes")
    match = _SIZE_UNIT.fullmatch(unit)
    if match is None or (match[2] and not match[1]) or "b" in unit.removesuffix("bytes").removesuffix("byte"):
        raise ValueError(f"size {value!r} is not in bytes; write 60KB, 64KiB or a whole number of bytes")
    scale = _PREFIXES[match[1].lower()]
    if match[2]:
        scale = {1: 1, 10**3: 2**10, 10**6: 2**20, 10**9: 2**30, 10**12: 2**40}[scale]
    return _whole("size", value, number * scale, "bytes")


def parse_duration(value: int | float | str) -> int:
    """A duration in nanoseconds, 0 or more."""
    number, unit = _split("duration", value, "10ms, 300us or 2s")
    if unit == "" and number == 0:
        return 0
    if unit not in _DURATION_UNITS:
        what = f"has the unknown unit {unit!r}" if unit else "has no unit"
        raise ValueError(f"duration {value!r} {what}; write 10ms, 300us or 2s")
    return _whole("duration", value, number * _DURATION_UNITS[unit], "nanoseconds")


def format_duration(duration_ns: int) -> str:
    """The shortest exact text that `parse_duration` reads: 50000000 is "50ms"."""
    for unit in ("h", "min", "s", "ms", "us"):
        if duration_ns and duration_ns % _DURATION_UNITS[unit] == 0:
            return f"{duration_ns // _DURATION_UNITS[unit]}{unit}"
    return f"{duration_ns}ns" if duration_ns else "0"


def format_size(size: int) -> str:
    """The shortest exact text that `parse_size` reads: 65536 is "64KiB"."""
    for unit, scale in (("GiB", 2**30), ("GB", 10**9), ("MiB", 2**20), ("MB", 10**6), ("KiB", 2**10), ("KB", 10**3)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return f"{size}B"


def _split(kind: str, value: int | float | str, example: str) -> tuple[Decimal, str]:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{kind} {value!r} is not a number or a text; write {example}")
    shown = value if isinstance(value, str) else format(Decimal(str(value)), "f")
    match = _QUANTITY.fullmatch(shown)
    if match is None:
        raise ValueError(f"{kind} {value!r} can't be read; write {example}")
    return Decimal(match[1].replace("_", "")), match[2]


def _whole(kind: str, value: int | float | str, number: Decimal, unit: str) -> int:
    if number != int(number):
        raise ValueError(f"{kind} {value!r} is not a whole number of {unit}; round it")
    if number > MAX_VALUE:
        raise ValueError(f"{kind} {value!r} is too large; write at most {MAX_VALUE} {unit}")
    return int(number)
