"""Units in which everything is counted: time in integer nanoseconds, frames in bytes. Pure."""

from __future__ import annotations

MICROSECOND_NS = 1_000
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000

FRAME_BYTES = 1514
"""The largest untagged Ethernet frame without its check sequence: 14 bytes of header, 1500 of payload (IEEE 802.3, 3.2)."""

COUNT_MAX = 2**63 - 1
"""The largest count: JSON documents and compiled code hold 64 bits. What members say, and its sums, stay there beyond it."""
