"""Reads by `dcb` whether a network interface does PFC itself, and for which priorities. An edge: processes.

This module sets nothing: which priorities are lossless is a decision for the whole path, of which the interface is one end. The
agent compares the settings at intervals with those at its start, and logs changes.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass

from agents.host_control.nic_classes import NicClasses

ANSWER_S = 5.0
CHECK_NS = 10_000_000_000
"""How often `changes` runs `dcb`. The agent's loop calls it each second, and a process takes milliseconds."""


class NoPfc(Exception):
    """The interface does no PFC, or has it disabled; the text is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class PfcSetting:
    """The output of `dcb pfc show`: how many classes can have PFC at once, and the priorities that have it."""

    capability: int
    enabled: tuple[int, ...]


def read(interface: str) -> PfcSetting:
    """Reads the settings of an interface. Raises NoPfc."""
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
    """Parses the output of `dcb -j pfc show dev INTERFACE`. Raises NoPfc if it is malformed."""
    try:
        shown = json.loads(text)
        found = shown[0] if isinstance(shown, list) else shown
        enabled = found["prio_pfc"]
        pairs = enabled.items() if isinstance(enabled, dict) else enumerate(enabled)
        on = tuple(sorted(int(priority) for priority, state in pairs if state in (True, "on", 1)))
        return PfcSetting(int(found["pfc_cap"]), on)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise NoPfc(f"--pfc nic: {interface}: cannot parse the output of `dcb -j pfc show`; use --pfc software") from None


class NicPfc:
    """The PFC settings of one interface at the agent's start, and the classes of its packets.

    Raises:
        NoPfc: the interface has no PFC, or no priority is enabled.
        BuildError, BpfError: the programs that give packets classes cannot be built or loaded.
    """

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self.setting = read(interface)
        if not self.setting.enabled:
            raise NoPfc(
                f"--pfc nic: {interface} can do PFC, but no priority has it enabled; "
                f"enable one, such as `dcb pfc set dev {interface} prio-pfc 3:on`"
            )
        self.classes = NicClasses(interface, self.setting.enabled)
        self._checked_ns = time.monotonic_ns()

    def changes(self) -> list[str]:
        """Lines to log about settings that changed since the last call; restores nothing."""
        if (now_ns := time.monotonic_ns()) - self._checked_ns < CHECK_NS:
            return []
        self._checked_ns = now_ns
        try:
            found = read(self.interface)
        except NoPfc as error:
            return [str(error)]
        before, self.setting = self.setting, found
        if found == before:
            return []
        return [f"{self.interface}: PFC is on for priorities {list(found.enabled)}, no longer {list(before.enabled)}"]
