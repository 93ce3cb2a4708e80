"""Who puts an interface back if its agent is killed: a process that only waits for the agent's end. An edge: processes.

    guardian = Guardian("eth0", run_dir)      # while the agent has the interface
    guardian.dismiss()                        # the agent has put it back by itself

A gate that stays shut keeps the host's large flows from the members behind it, and a killed agent can open none. The guardian
waits at the end of a pipe, as a shell of 1 MB, and becomes this module when the agent is gone without having dismissed it. It
has the rights that netlink needs and no others. The next start of an agent does the same, whoever was killed.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

from agents.kernel.snapshot import InterfaceInUse
from agents.queues.leftovers import put_back_leftovers

log = logging.getLogger("baton.host")

ROOT = Path(__file__).parents[2]
RIGHTS = ("setpriv", "--bounding-set=-all,+net_admin,+net_raw", "--no-new-privs")
"""Of util-linux."""
WAIT = ("sh", "-c", 'trap "" TERM INT HUP; read -r dismissed && exit; exec "$@"', "baton-guardian")
ENDS_S = 5.0


class Guardian:
    """The process that waits. Whatever is asked of it may be refused: the agent goes on without it."""

    def __init__(self, interface: str, run_dir: Path) -> None:
        """Starts it. What forbids that is logged."""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            index = socket.if_nametoindex(interface)
            program = (sys.executable, "-m", "agents.queues.guardian", str(index), str(run_dir.absolute()))
            self._process = subprocess.Popen([*RIGHTS, *WAIT, *program], stdin=subprocess.PIPE, cwd=ROOT)
        except OSError as error:
            log.warning("%s: if this agent is killed, its gates stay shut until it is started again: %s", interface, error)

    def dismiss(self) -> None:
        """Ends it: there is nothing left to be put back."""
        if self._process is None or self._process.stdin is None:
            return
        try:
            os.write(self._process.stdin.fileno(), b"dismissed\n")
            self._process.stdin.close()
            self._process.wait(ENDS_S)
        except (OSError, subprocess.TimeoutExpired) as error:  # it was killed, or is not scheduled: it finds nothing to do
            log.warning("the guardian of the interface did not end: %s", error)
        self._process = None


def main(index: str, run_dir: str) -> None:
    """Puts back what the agent left that has just ended, at an interface by its index."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        put_back_leftovers(int(index), Path(run_dir))
    except InterfaceInUse:  # another agent has begun, which has put it back
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
