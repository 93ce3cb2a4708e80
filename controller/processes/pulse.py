"""A child tells every few seconds that its loop turns, and who started it learns when it stands still. An edge: a pipe.

A process that hangs ends by nothing, so nobody would start it again. It need not beat: who never has is never found still.
"""

from __future__ import annotations

import contextlib
import os

from protocol.units import SECOND_NS

PULSE = "BATON_PULSE"
"""The environment's name for the child's end of the pipe, a descriptor."""
BEAT_NS = 3 * SECOND_NS
STILL_NS, LOOK_NS = 20 * SECOND_NS, 4 * SECOND_NS
"""How long a loop may stand still: longer than the start of thousands of hosts takes on a machine that is short of processors.
And how often who started it looks."""


class Pulse:
    """The child's end. Without BATON_PULSE in the environment nobody hears it."""

    def __init__(self) -> None:
        self._descriptor = int(os.environ.pop(PULSE, "-1"))
        self._due_ns = 0
        if self._descriptor >= 0:
            os.set_inheritable(self._descriptor, False)

    def beat(self, now_ns: int) -> None:
        """To be called in each turn of the loop; writes every `BEAT_NS` at most, and never blocks."""
        if now_ns < self._due_ns or self._descriptor < 0:
            return
        self._due_ns = now_ns + BEAT_NS
        with contextlib.suppress(OSError):  # full: it was not read for a day; closed: this process ends soon
            os.write(self._descriptor, b".")


class Listener:
    """The other end, which belongs to it."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` does not block."""
        self._descriptor = descriptor
        self._heard_ns = 0
        """When it was heard last; 0: never."""
        self._looked_ns = 0

    def stands_still(self, now_ns: int) -> bool:
        """Whether it has beaten before, and not for `STILL_NS`. To be asked at least every `LOOK_NS`: a listener that was not
        running itself for much longer has heard nothing that counts, and begins anew."""
        late = now_ns - self._looked_ns > 2 * LOOK_NS
        self._looked_ns = now_ns
        try:
            beaten = bool(os.read(self._descriptor, 1 << 16))
        except BlockingIOError:
            beaten = False
        if beaten or (late and self._heard_ns):
            self._heard_ns = now_ns
        return bool(self._heard_ns) and now_ns - self._heard_ns >= STILL_NS

    def close(self) -> None:
        """Closes the end."""
        os.close(self._descriptor)


def pipe() -> tuple[int, int]:
    """The descriptors of the listener's end and of the child's; neither blocks. Raises OSError."""
    return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
