"""The body of HOST_STATE: the properties of a host, and the settings that its agent restored; operators compare hosts by it.
Pure.

REGISTER holds the host's gate and version; this message holds what can drift apart while the fabric works.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.bodies.text import packed_text, printable, unpacked_text
from protocol.wire import BODY_MAX, Layout

HOST_STATE = Layout(
    fingerprint="Q", wall_ns="Q", leader_ns="Q", uncertainty_ns="Q", put_back="I", ago_ms="I", kernel_bytes="B", line_count="B"
)  # fmt: skip
LINE = Layout(line_bytes="B")

TEXT_BYTES_MAX = 160
LINES_MAX = 4
"""How many restored settings a message names: with the longest texts they fit in a frame."""
NEVER_MS = (1 << 32) - 1
WARNING = "warning: "
"""A line that begins so is not of what was put back, but stands in the agent's way now. Such lines come first."""


@dataclass(frozen=True, slots=True)
class HostState:
    """Member to leader, every few seconds and when the agent restored a setting.

    `wall_ns` is the host's CLOCK_REALTIME when the leader's clock showed `leader_ns` (0: not known), by its estimate, which may
    be wrong by `uncertainty_ns`. `put_back` counts how often, since its start, the agent restored a setting that another
    program had changed; the last time was `ago_ms` ago (NEVER_MS: never), and `lines` describe the newest ones in order, after
    those of what stands in the agent's way now (`WARNING`).
    """

    fingerprint: int
    wall_ns: int
    leader_ns: int
    uncertainty_ns: int
    put_back: int
    ago_ms: int
    kernel: str
    lines: tuple[str, ...] = ()


def shortened(text: str) -> str:
    """The text, printable, and cut to the length that fits without splitting a character."""
    return printable(text).encode()[:TEXT_BYTES_MAX].decode(errors="ignore")


def pack_host_state(message: HostState) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if len(message.lines) > LINES_MAX:
        raise ValueError(f"HostState.lines: {len(message.lines)}, at most {LINES_MAX}")
    texts = [packed_text("HostState.kernel", message.kernel, TEXT_BYTES_MAX)]
    texts += [packed_text("HostState.lines", line, TEXT_BYTES_MAX) for line in message.lines]
    values = (message.fingerprint, message.wall_ns, message.leader_ns, message.uncertainty_ns, message.put_back, message.ago_ms)
    body = HOST_STATE.pack("HostState", *values, len(texts[0]), len(message.lines)) + texts[0]
    return body + b"".join(LINE.pack("HostState.lines", len(line)) + line for line in texts[1:])


def unpack_host_state(body: bytes) -> HostState:
    """Raises ValueError or struct.error: not such a body."""
    fingerprint, wall_ns, leader_ns, uncertainty_ns, put_back, ago_ms, kernel_bytes, count = HOST_STATE.struct.unpack_from(body)
    at = HOST_STATE.size
    texts = [_take(body, at, kernel_bytes)]
    at += kernel_bytes
    if count > LINES_MAX:
        raise ValueError("lines")
    for _ in range(count):
        (length,) = LINE.struct.unpack_from(body, at)
        texts.append(_take(body, at + LINE.size, length))
        at += LINE.size + length
    if at != len(body):
        raise ValueError("length")
    kernel, *lines = texts
    return HostState(fingerprint, wall_ns, leader_ns, uncertainty_ns, put_back, ago_ms, kernel, tuple(lines))


def _take(body: bytes, at: int, length: int) -> str:
    if at + length > len(body) or length > TEXT_BYTES_MAX:
        raise ValueError("text")
    return unpacked_text(body[at : at + length])


assert HOST_STATE.size + TEXT_BYTES_MAX + LINES_MAX * (LINE.size + TEXT_BYTES_MAX) <= BODY_MAX
