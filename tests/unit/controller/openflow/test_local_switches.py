"""When the application calls the keeper of control frames."""

from __future__ import annotations

import socket
from pathlib import Path

from controller.openflow.local_switches import LocalSwitches
from controller.switch_queues.control_keeper import Wanted


def test_a_keeper_that_does_not_listen_yet_is_called_again(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    local = LocalSwitches(str(path))
    assert not local.lost  # there was nothing to say
    local.tell(Wanted({}))
    assert local.lost
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as keeper:
        keeper.bind(str(path))
        keeper.listen()
        local.tell(Wanted({}))
        connection, _ = keeper.accept()
        with connection:
            assert connection.recv(100) == b"{}\n" and not local.lost
