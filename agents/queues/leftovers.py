"""What an agent that did not end well left at an interface, put back. An edge: kernel state."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

from agents.kernel import snapshot
from agents.kernel.netlink import Netlink

log = logging.getLogger("baton.host")


def put_back_leftovers(index: int, run_dir: Path) -> None:
    """Puts an interface, by its index, back as the agent found it that did not do so itself.

    Raises:
        InterfaceInUse: an agent that lives has the interface.
        OSError: there is no such interface, or no right to change it, or the directory can't be written.
    """
    interface = socket.if_indextoname(index)
    state = snapshot.StateFile(run_dir, interface, index)
    try:
        if (left := state.read()) is None:
            return
        netlink = Netlink()
        try:
            snapshot.restore(netlink, left, index)
        finally:
            netlink.close()
        state.clear()
    finally:
        state.release()
    log.warning("%s: an earlier agent did not end well; what it found there is put back", interface)  # who reads it may stall
