"""What the application forgets of a switch. In a process of its own, as the framework changes the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

SCRIPT = """
import sys
from types import SimpleNamespace as Made
from controller import app
from controller.openflow.roles import Roles

event = sys.argv[1]
told, ended = [], []
claims, forgotten = [], []
roles = Roles("us")
roles.leader("us", 7)
roles.due(1)
roles.replied(1, roles.claim)
part = Made(forget=forgotten.append)
ours = Made(
    roles=roles, ports=part, refusals=part, complaints=Made(forget=forgotten.append, heard=lambda dpid, text, now_ns: text),
    drops=Made(forget=lambda _: None),
    _take_up=lambda dpid: claims.append(roles.due(dpid)),
    discovery=Made(switch_down=forgotten.append), _wake=Made(set=list), _stirred=Made(set=list),
    switches=Made(
        connected=lambda _: event == "again", disconnected=lambda _: event == "dead",
        connections=Made(has_rival=lambda _: event == "rival", in_words=lambda _: "10.0.0.9"),
    ),
    logger=Made(error=lambda *_: None), publisher=Made(event=lambda kind, *_: told.append(kind)),
)
ours._warn = lambda *words: app.Baton._warn(ours, *words)
state = app.DEAD if event in ("dead", "dead_before") else app.MAIN
datapath = Made(id=1, address=("10.0.0.8", 7), ports={}, ofproto=Made(OFPP_LOCAL=0), close=lambda: ended.append(1))
app.Baton.switch_changed(ours, Made(datapath=datapath, state=state))
print(claims == [roles.claim], 1 in roles.confirmed, forgotten, *told, *ended)
"""


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("again", "True False [] connected_anew"),  # by a new connection, for which it has no role
        ("rival", "False True [] datapath_id_twice 1"),
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


SILENCE = """
import socket, sys
from controller import app
from controller.openflow.intake.server import Guarded
from eventlet.greenio import GreenSocket
from importlib import import_module
from bench.openflow.switch import Switch, ECHO_REQUEST

fw, answers = app.fw, sys.argv[1] == "answers"
fw.conf.set_override("echo_request_interval", 0.05)
manager = import_module(f"{fw.root}.base.app_manager")
manager.register_app(import_module(f"{fw.root}.controller.ofp_handler").OFPHandler())
ours, theirs = map(GreenSocket, socket.socketpair())
ours.setsockopt = lambda *_: None  # a pair of Unix sockets has no options of TCP
datapath = import_module(f"{fw.root}.controller.controller").Datapath(
    Guarded(ours, "peer", app.INTAKE, lambda: fw.hub.sleep(0)), ("peer", 1))
fw.hub.spawn(datapath.serve)
switch = Switch(1, "s1", {1: 10**9}, lambda at, frame: None)
theirs.sendall(switch.connected())
theirs.settimeout(1)
end, heard = "it stays", b""
while len(heard) < 4096 and heard.count(bytes([4, ECHO_REQUEST, 0, 8])) < 12:
    got = theirs.recv(4096)
    if not got:
        end = "it ends"
        break
    heard += got
    if answers or not switch.ready:  # the handshake
        theirs.sendall(switch.feed(got))
print(end, switch.ready, datapath.state == app.DEAD)
"""


@pytest.mark.parametrize(("switch", "says"), [("answers", "it stays True False"), ("is silent", "it ends True True")])
def test_the_connection_of_a_switch_that_answers_nothing_any_more_ends(switch: str, says: str) -> None:
    environment = {**os.environ, "BATON_REDIS": "unix:///nowhere", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", SILENCE, switch]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert found.stdout.strip() == says, found.stderr


REMOVED = """
from types import SimpleNamespace as Made
from controller import app
from controller.openflow.tables.forwarding import LEARN
from ryu.ofproto.ofproto_protocol import ProtocolDesc
from ryu.ofproto.ofproto_v1_3_parser import OFPFlowRemoved, OFPMatch

heard = []
ours = Made(
    switches=Made(expired=lambda at, mac: heard.append((at.number, mac))), discovery=Made(host_idle=lambda at, mac: None),
    _wake_if_changed=lambda: None,
)
datapath = ProtocolDesc(version=4)
datapath.id = 1
mac = "02:00:00:00:00:01"
for match in (
    OFPMatch(), OFPMatch(in_port=1), OFPMatch(eth_src=mac), OFPMatch(in_port=1, eth_src=(mac, "ff:ff:ff:00:00:00")),
    OFPMatch(in_port=1, eth_src=mac),
):
    reason = datapath.ofproto.OFPRR_IDLE_TIMEOUT
    message = OFPFlowRemoved(datapath, reason=reason, table_id=LEARN, match=match)
    app.Baton.flow_removed(ours, Made(msg=message))
print(heard)
"""


def test_a_flow_of_another_program_that_ended_is_no_hosts() -> None:
    environment = {**os.environ, "BATON_REDIS": "unix:///nowhere"}
    command = [sys.executable, "-W", "ignore", "-c", REMOVED]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert found.stdout.strip() == "[(1, '02:00:00:00:00:01')]", found.stderr


LOOPS = """
import logging, sys
from types import SimpleNamespace as Made
from controller import app
from protocol.timers import Mishaps

app.TICK_S = 0.001
app.POLL_PER_PORT_S = app.RETRY_S = 0
app.SETTINGS = Made(poll_ns=10**6, lldp_ns=10**6)
told, rounds = [], []

class Ours:
    local = None
    mishaps = Mishaps(told.append, lambda: None)
    roles = Made(acts=True)
    discovery = Made(calm=lambda: False, tick=lambda now_ns: fail())
    switches = Made(
        connections=Made(ports=0), awaiting=True, poll=lambda: fail(), due=lambda: False, deaf=lambda now_ns: [],
        late=lambda now_ns: [], takeover=Made(next_ns=lambda: None),
    )
    is_active = property(lambda self: len(rounds) < 3)
    _join = staticmethod(lambda: None)
    _tick = app.Baton._tick
    _wake = app.hub.Event()
    _converge_once = staticmethod(lambda: fail())

def fail():
    rounds.append(1)
    raise LookupError("made to fail")

Ours._wake.set()
getattr(app.Baton, sys.argv[1])(Ours())
print(len(rounds), len(told))
"""


@pytest.mark.parametrize("loop", ["_converge", "_keep_time", "_poll"])
def test_an_error_in_one_round_of_a_loop_does_not_end_it_and_is_told_once(loop: str) -> None:
    environment = {**os.environ, "BATON_REDIS": "unix:///nowhere"}
    command = [sys.executable, "-W", "ignore", "-c", LOOPS, loop]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert found.stdout.strip() == "3 1", found.stderr
