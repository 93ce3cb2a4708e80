"""Who puts an interface back if its agent is killed or stands still: a process that only waits. An edge: processes.

    guardian = Guardian("eth0", run_dir)      # while the agent has the interface
    guardian.beat()                           # once a second, as long as the agent's loop turns
    guardian.dismiss()                        # the agent has put it back by itself

A gate that stays shut keeps the host's large flows from the members behind it, and an agent that was killed, or hangs, opens
none. The guardian waits at the end of a pipe, as a shell of 3 MB. It becomes this module when the agent is gone without having
dismissed it. An agent that has begun to beat and then does not for `STILL_S` is killed first: whoever watches it, as systemd
does, starts another. The guardian has the rights that netlink needs and no others. The next start of an agent puts back, too,
whoever was killed.
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
RIGHTS = ("setpriv", "--bounding-set=-all,+net_admin,+net_raw,+dac_read_search", "--no-new-privs")
"""Of util-linux. Baton may be installed where only its user can read, such as a home directory."""
STILL_S, AGAIN_S = 10, 3
"""A host that is short of processors may keep an agent waiting for a second or two. The last `AGAIN_S` are a second look:
agent and guardian may have been frozen together, or the guardian alone was not scheduled and the beats lie in the pipe."""
WAIT = """
trap '' TERM INT HUP PIPE
agent=$1 patience= && shift
while :; do
    read -r $patience said
    why=$?
    if [ $why -gt 128 ]; then
        read -r -t AGAIN_S said
        why=$?
    fi
    [ $why = 0 ] || break
    [ "$said" = dismissed ] && exit
    patience='-t FIRST_S'
done
if [ $why -gt 128 ]; then
    kill -KILL "$agent"
    # apart: who reads this may stand still, and the agent because of that
    echo "the agent has stood still for STILL_S s: it is killed, and its interface put back" >&2 &
    while read -r said; do :; done
fi
exec "$@"
""".replace("STILL_S", str(STILL_S)).replace("FIRST_S", str(STILL_S - AGAIN_S)).replace("AGAIN_S", str(AGAIN_S))
"""Of bash: `read` fails with a status above 128 when its time is over, and with 1 at the end of the pipe."""
BEAT, DISMISSED = b"beat\n", b"dismissed\n"
ENDS_S = 5.0


class Guardian:
    """The process that waits. Whatever is asked of it may be refused: the agent goes on without it."""

    def __init__(self, interface: str, run_dir: Path) -> None:
        """Starts it. What forbids that is logged."""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            index = socket.if_nametoindex(interface)
            program = (sys.executable, "-m", "agents.queues.guardian", str(index), str(run_dir.absolute()))
            waiting = ("bash", "-c", WAIT, "baton-guardian", str(os.getpid()))
            self._process = subprocess.Popen([*RIGHTS, *waiting, *program], stdin=subprocess.PIPE, cwd=ROOT)
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
        except OSError as error:
            log.warning("%s: if this agent is killed, its gates stay shut until it is started again: %s", interface, error)

    def beat(self) -> None:
        """Tells it that the agent's loop turns. That it is gone is logged, once."""
        if self._process is None or self._process.stdin is None:
            return
        try:
            os.write(self._process.stdin.fileno(), BEAT)
        except BlockingIOError:  # it is not scheduled, and has much to read
            return
        except OSError:
            log.warning("the guardian has ended: if this agent is killed, its gates stay shut until it is started again")
            self._process.wait()
            self._process = None

    def dismiss(self) -> None:
        """Ends it: there is nothing left to be put back."""
        if self._process is None or self._process.stdin is None:
            return
        try:
            os.write(self._process.stdin.fileno(), DISMISSED)
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
