"""What the application forgets of a switch. In a process of its own, as the framework changes the whole process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from types import SimpleNamespace as Made
from controller import app
from controller.openflow.roles import Roles

event = sys.argv[1]
claims, forgotten = [], []
roles = Roles("us")
roles.leader("us", 7)
roles.due(1)
roles.replied(1, roles.claim)
part = Made(forget=forgotten.append)
ours = Made(
    roles=roles, ports=part, refusals=part, complaints=part, _take_up=lambda dpid: claims.append(roles.due(dpid)),
    discovery=Made(switch_down=forgotten.append), _wake=Made(set=list), _stirred=Made(set=list),
    switches=Made(connected=lambda _: event == "again", disconnected=lambda _: event == "dead"),
)
state = app.DEAD if event in ("dead", "dead_before") else app.MAIN
app.Baton.switch_changed(ours, Made(datapath=Made(id=1), state=state))
print(claims == [roles.claim], 1 in roles.confirmed, forgotten)
"""


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("again", "True False []"),  # by a new connection, for which it has no role
        ("first", "False True []"),
        ("dead", "False False [1, 1, 1, 1]"),
        ("dead_before", "False True []"),  # the end of a connection that another has replaced
    ],
)
def test_a_switch_gets_its_role_claimed_anew_by_every_connection(event: str, says: str) -> None:
    environment = {**os.environ, "BATON_REDIS": "unix:///nowhere"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, event]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.strip() == says
