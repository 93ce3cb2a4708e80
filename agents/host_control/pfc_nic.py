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
from protocol.units import SECOND_NS

ANSWER_S = 5.0
CHECK_NS = 10_000_000_000
"""How often `changes` runs `dcb`. The agent's loop calls it each second, and a process takes milliseconds."""
INSTEAD = "use --pfc software"


class NoPfc(Exception):
    """The interface does no PFC, or has it disabled; the text is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class PfcSetting:
    """The output of `dcb pfc show`: how many classes can have PFC at once, and the priorities that have it."""

    capability: int
    enabled: tuple[int, ...]


def read(interface: str) -> PfcSetting:
    """Reads the settings of an interface. Raises NoPfc."""
    asked = _ask(interface)
    try:
        asked.wait(ANSWER_S)
    except subprocess.TimeoutExpired:
        asked.kill()
        raise _late(interface) from None
    return _answer(asked, interface)


def _ask(interface: str) -> subprocess.Popen[str]:
    """Raises NoPfc: there is no `dcb`."""
    command = ("dcb", "-j", "pfc", "show", "dev", interface)
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise NoPfc(f"--pfc nic: the command dcb (of iproute2) is not installed; install it, or {INSTEAD}") from None


def _late(interface: str) -> NoPfc:
    return NoPfc(f"--pfc nic: {interface} did not answer `dcb pfc show` in {ANSWER_S:g} s; {INSTEAD}")


def _answer(asked: subprocess.Popen[str], interface: str) -> PfcSetting:
    """What a process that has ended printed. Raises NoPfc."""
    output, errors = asked.communicate()
    if asked.returncode:
        why = (errors or output).strip().splitlines() or [f"dcb ended with {asked.returncode}"]
        raise NoPfc(f"--pfc nic: {interface} does no PFC ({why[-1]}); {INSTEAD}")
    return parse(output, interface)


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
        self._asked: subprocess.Popen[str] | None = None
        """The `dcb` that runs now."""
        self._late = False
        """Whether it was told that it takes too long."""

    def changes(self) -> list[str]:
        """Lines to log about settings that changed since the last call; restores nothing. It waits for no process: what `dcb`
        answers, a later call says."""
        now_ns = time.monotonic_ns()
        try:
            found = self._look(now_ns)
        except NoPfc as error:
            return [str(error)]
        if found is None:
            return []
        before, self.setting = self.setting, found
        if found == before:
            return []
        return [f"{self.interface}: PFC is on for priorities {list(found.enabled)}, no longer {list(before.enabled)}"]

    def _look(self, now_ns: int) -> PfcSetting | None:
        """The settings, if `dcb` has said them since the last call. Raises NoPfc."""
        asked = self._asked
        if asked is None:
            if now_ns - self._checked_ns >= CHECK_NS:
                self._checked_ns, self._late = now_ns, False
                self._asked = _ask(self.interface)
            return None
        if asked.poll() is None:
            if not self._late and now_ns - self._checked_ns >= ANSWER_S * SECOND_NS:
                self._late = True
                asked.kill()  # it may stay for as long as the interface's driver holds it
                raise _late(self.interface)
            return None
        self._asked = None
        return None if self._late else _answer(asked, self.interface)

    def close(self) -> None:
        """Ends what runs, and frees the programs."""
        if self._asked is not None:
            self._asked.kill()
        self.classes.close()
