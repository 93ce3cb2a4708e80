"""Whether a network interface obeys PFC by itself, and for which priorities; read back by `dcb`. An edge: processes.

Nothing is set here: which priorities are lossless is a decision for the whole path, of which the interface is one end. What was
found is compared once a while, and what changed is told.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass

from agents.host_control.nic_classes import NicClasses

ANSWER_S = 5.0
LOOK_NS = 10_000_000_000
"""`changes` is asked each second, in the agent's loop, and a process takes milliseconds: it looks this often."""


class NoPfc(Exception):
    """The interface does not do PFC, or not now; one line with the remedy."""


@dataclass(frozen=True, slots=True)
class PfcSetting:
    """What `dcb pfc show` says: how many classes can have PFC at once, and which have."""

    capability: int
    enabled: tuple[int, ...]


def read(interface: str) -> PfcSetting:
    """Asks the interface. Raises NoPfc."""
    instead = "use --pfc software"
    try:
        done = subprocess.run(
            ("dcb", "-j", "pfc", "show", "dev", interface), capture_output=True, text=True, check=False, timeout=ANSWER_S
        )
    except FileNotFoundError:
        raise NoPfc(f"--pfc nic: the command dcb (of iproute2) is not installed; install it, or {instead}") from None
    except subprocess.TimeoutExpired:
        raise NoPfc(f"--pfc nic: {interface} did not answer `dcb pfc show` in {ANSWER_S:g} s; {instead}") from None
    if done.returncode:
        why = (done.stderr or done.stdout).strip().splitlines() or [f"dcb ended with {done.returncode}"]
        raise NoPfc(f"--pfc nic: {interface} does no PFC ({why[-1]}); {instead}")
    return parse(done.stdout, interface)


def parse(text: str, interface: str) -> PfcSetting:
    """What `dcb -j pfc show dev INTERFACE` prints. Raises NoPfc: not that."""
    try:
        shown = json.loads(text)
        found = shown[0] if isinstance(shown, list) else shown
        enabled = found["prio_pfc"]
        pairs = enabled.items() if isinstance(enabled, dict) else enumerate(enabled)
        on = tuple(sorted(int(priority) for priority, state in pairs if state in (True, "on", 1)))
        return PfcSetting(int(found["pfc_cap"]), on)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise NoPfc(f"--pfc nic: {interface}: `dcb -j pfc show` printed what is not understood; use --pfc software") from None


class NicPfc:
    """The PFC settings of one interface, as found, and the classes of its packets.

    Raises:
        NoPfc: it has none, or no priority is enabled.
        BuildError, BpfError: packets cannot be given classes.
    """

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self.setting = read(interface)
        if not self.setting.enabled:
            raise NoPfc(
                f"--pfc nic: {interface} can do PFC, but no priority has it; "
                f"enable one, such as `dcb pfc set dev {interface} prio-pfc 3:on`"
            )
        self.classes = NicClasses(interface, self.setting.enabled)
        self._looked_ns = time.monotonic_ns()

    def changes(self) -> list[str]:
        """What differs from what was found at the start; nothing is put back."""
        if (now_ns := time.monotonic_ns()) - self._looked_ns < LOOK_NS:
            return []
        self._looked_ns = now_ns
        try:
            found = read(self.interface)
        except NoPfc as error:
            return [str(error)]
        before, self.setting = self.setting, found
        if found == before:
            return []
        return [f"{self.interface}: PFC is on for priorities {list(found.enabled)}, no longer {list(before.enabled)}"]
