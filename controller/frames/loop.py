"""The loop of slots: a thread in C that takes frames, has a policy's cores plan, and sends directives; Python does all else. An
edge: a thread, and an event.

The loop and Python share the frames' state and the cores. Whoever touches them holds `Frames.lock`: the loop for a turn, Python
for a call. What the loop tells is in batches (controller/frames/told.py).
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from controller.frames import library as compiled
from controller.frames.frames import Frames
from controller.policies.compiled.batches import Batched, Core
from controller.slots.slot_length import Work

PLANNERS = 2
"""Of so many cores a policy may be, beside the one that chooses."""
NEVER = -1
LONGEST = ("turn", "wait", "delay")


class SlotLoop:
    """The loop over the two sockets of a control link.

    Args:
        frames: what it takes frames by.
        descriptors: of the sockets, the main one and that of the deferred frames. They stay open for as long as this.
    """

    def __init__(self, frames: Frames, descriptors: tuple[int, int]) -> None:
        """Raises OSError: there is no memory, or no descriptor."""
        self._pointer: int | None = None
        self._frames = frames
        self._c, state = frames.shared()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._pointer = pointer = self._c.loop_new(state, *descriptors, self._event)
        if pointer is None:
            os.close(self._event)
            raise OSError("no memory for the loop of slots")
        self._steering = compiled.Steering.from_address(self._c.loop_steering(pointer))
        self._planners = (compiled.Planner * PLANNERS).from_address(self._c.loop_planners(pointer))
        self._chooser = compiled.Planner.from_address(self._c.loop_chooser(pointer))
        self._policy: Batched | None = None
        self._size, self._read_ns = ctypes.c_uint32(), ctypes.c_int64()
        self.lock = frames.lock

    def fileno(self) -> int:
        """Readable when something was told that must not wait."""
        return self._event

    def start(self) -> None:
        """Begins to serve, at the priority of this thread. Raises OSError: there can be no thread."""
        if error := self._c.loop_start(self._pointer):
            raise OSError(error, os.strerror(error))

    def end(self) -> None:
        """Ends the thread, and frees what the loop had."""
        if self._pointer is not None:
            self._c.loop_free(self._pointer)
            self._pointer = None
            os.close(self._event)

    def __del__(self) -> None:
        self.end()

    # -- what it plans by -----------------------------------------------------------------------------------------------

    def adopt(self, policy: Batched | None, now_ns: int) -> None:
        """Has the cores of this policy plan from now on, in place of those before; None: nobody plans here. What the one before
        has planned to take back is sent at once; what it has planned to grant is dropped: it could not be taken back."""
        with self.lock:
            self._c.loop_drop_plan(self._pointer)
            self._c.frames_begin_era(self._frames.shared()[1])  # this policy has met no pair
            cores, chooser = ((), None) if policy is None else policy.cores()
            for planner, core in zip(self._planners, cores, strict=False):
                _set(planner, core)
            _set(self._chooser, chooser)
            steering = self._steering
            steering.planners, steering.plans, steering.review_ns = len(cores), 0, NEVER
            steering.last_number = max(steering.last_number, now_ns, 0 if policy is None else policy.last_number())
            self._policy = policy

    def steer(self, *, lead_ns: int, slice_ns: int, plans: bool) -> None:
        """How long before its start a slot is announced, the longest slot, and whether to plan at all. It plans at once."""
        with self.lock:
            steering = self._steering
            steering.lead_ns, steering.slice_ns, steering.plans = lead_ns, slice_ns, plans
        self._c.loop_poke(self._pointer)

    def latest_ns(self, now_ns: int) -> int:
        """This time, or the last one that a core was told, if that is later. The caller holds the lock."""
        return max(now_ns, int(self._steering.now_ns))

    def look(self, review_ns: int | None, watched: int) -> None:
        """When the policy wants Python's attention next of itself (None: never), and of how many grants more to tell."""
        with self.lock:
            self._steering.review_ns = NEVER if review_ns is None else review_ns
            self._steering.watched_room = watched

    def set_prompt(self, *, prompt: bool) -> None:
        """Whether it reads frames that wake nobody as they come, and tells of them at once; else some milliseconds later, and
        many together."""
        with self.lock:
            self._steering.prompt = prompt
        self._c.loop_poke(self._pointer)

    # -- what it told ---------------------------------------------------------------------------------------------------

    def told(self) -> tuple[bytes, int]:
        """What it told since the last call, and the time (ns) before which all frames that came are in that, or were."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        where = self._c.loop_told(self._pointer, ctypes.byref(self._size), ctypes.byref(self._read_ns))
        size = self._size.value
        return ctypes.string_at(where, size) if size else b"", self._read_ns.value

    def take_withheld(self) -> int:
        """How many frames it did not send since the last call, because the lease was over."""
        with self.lock:
            found, self._steering.withheld = int(self._steering.withheld), 0
        return found

    @property
    def dropped(self) -> int:
        """Frames for Python, and slots of members whose frames Python sends, that were lost because it had no time for them."""
        return int(self._steering.dropped + self._steering.unsaid)

    def take_longest_us(self) -> dict[str, float]:
        """The longest since the last call: turn, wait for the lock, and delay of a plan that was due (us)."""
        with self.lock:
            found = {name: round(getattr(self._steering, f"longest_{name}_ns") / 1e3, 1) for name in LONGEST}
            for name in LONGEST:
                setattr(self._steering, f"longest_{name}_ns", 0)
        return found

    def take_work(self) -> Work:
        """What it did since the last call."""
        with self.lock:
            steering = self._steering
            found = Work(int(steering.busy_ns), int(steering.delayed_ns) // max(1, steering.plans_due))
            steering.busy_ns = steering.delayed_ns = steering.plans_due = 0
        return found


def _set(planner: compiled.Planner, core: Core | None) -> None:
    for name in Core._fields:
        setattr(planner, name, None if core is None else getattr(core, name))
