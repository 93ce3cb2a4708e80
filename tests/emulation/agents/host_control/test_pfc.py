"""Pauses on a real link: gates close and open for frames built by scapy; tshark dissects the agent's frames at the other end.

All of it by the rules alone, and with a reflex before them.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from protocol.bodies.pfc import PauseResult
from protocol.messages import Directive, Grant
from tests.emulation.agents.host_control.pause_wire import (
    FRAME,
    LONGEST_S,
    OTHER,
    PARTNER,
    QUANTUM_NS,
    STRANGER,
    S,
    Wire,
    pfc,
    wired,
)
from tests.emulation.patience import timed


@pytest.fixture(params=[False, True], ids=["rules", "reflex"])
def wire(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Wire]:
    with wired(tmp_path, reflex=request.param) as made:
        yield made


@timed
def test_a_pause_holds_its_class_and_no_other_for_its_quanta(wire: Wire) -> None:
    wire.frame(pfc({3: int(0.3 * S / QUANTUM_NS)}))
    wire.send(20)
    wire.send(20, OTHER)
    assert 20 <= wire.received(0.05) <= 21
    assert wire.waiting(16) >= 19
    assert wire.waiting(17) == 0
    assert wire.received(0.4) >= 19
    row = wire.report().classes[3]
    assert row.received == 1
    assert 0.29 * S <= row.paused_ns <= 0.5 * S


def test_a_time_of_zero_resumes_at_once(wire: Wire) -> None:
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(20)
    assert wire.received(0.05) <= 1
    before = time.monotonic()
    wire.frame(pfc({3: 0}))
    assert wire.received(0.05) >= 19
    assert time.monotonic() - before < LONGEST_S / 2
    assert wire.waiting(16) == 0


@timed
def test_a_later_frame_renews_a_pause(wire: Wire) -> None:
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(20)
    for _ in range(2):
        wire.serve(LONGEST_S * 0.7)
        wire.frame(pfc({3: 0xFFFF}))
    assert wire.received(0.05) <= 1
    assert wire.waiting(16) >= 19
    assert wire.received(LONGEST_S + 0.2) >= 19


@timed
def test_an_802_3x_pause_holds_all_classes(wire: Wire) -> None:
    body = (1).to_bytes(2) + (0xFFFF).to_bytes(2)
    wire.frame(Ether(dst="01:80:c2:00:00:01", src=PARTNER, type=0x8808) / Raw(body.ljust(46, b"\0")))
    wire.send(10)
    wire.send(10, OTHER)
    assert wire.received(0.05) <= 2
    assert wire.waiting(16) >= 9
    assert wire.waiting(17) >= 9


@pytest.mark.parametrize("granted_first", [True, False])
def test_a_slot_that_meets_a_pause_passes_its_bytes_after_it_and_no_more(wire: Wire, granted_first: bool) -> None:
    keeper = wire.keeper
    now = time.monotonic_ns()
    keeper.enforce(now)
    keeper.regulate(frozenset({16}), now)
    wire.send(30)
    assert wire.received(0.05) <= 1
    grant = Directive((Grant(16, 1, now, now + 60 * S, 10 * FRAME + 90, 0),))
    if granted_first:  # the pause comes within some 1.2 ms, the slot's length at this rate, or right after it
        keeper.directive(grant, time.monotonic_ns())
        wire.frame(pfc({3: 0xFFFF}))
    else:
        wire.frame(pfc({3: 0xFFFF}))
        keeper.directive(grant, time.monotonic_ns())
    early = wire.received(0.05)
    assert early <= (10 if granted_first else 1)
    wire.frame(pfc({3: 0}))
    assert 9 <= early + wire.received(0.1) <= 11
    assert wire.waiting(16) >= 18


def test_a_partner_that_is_not_authorised_is_counted_and_holds_nothing(wire: Wire) -> None:
    wire.settings(accept_from=(bytes.fromhex(PARTNER.replace(":", "")),))
    wire.frame(pfc({3: 0xFFFF}, source=STRANGER))
    wire.send(20)
    assert wire.received(0.05) == 20
    report = wire.report()
    assert (report.strangers, report.classes[3].refused, report.paused) == (1, 1, 0)
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(20)
    assert wire.received(0.05) <= 1


def test_bad_frames_are_counted_and_hold_nothing(wire: Wire) -> None:
    wire.frame(pfc({3: 0xFFFF}, opcode=0x0102))
    wire.frame(pfc({3: 0xFFFF}, destination="ff:ff:ff:ff:ff:ff"))
    wire.partner.send(Raw(bytes(pfc({3: 0xFFFF}))[:40]))
    wire.serve(0.02)
    wire.send(20)
    assert wire.received(0.05) == 20
    assert wire.report().bad == 3


def test_a_flood_of_forged_pauses_holds_a_host_no_longer_than_the_detection_time(wire: Wire) -> None:
    wire.settings(detection=0.2, restoration=0.3)
    wire.send(20)
    wire.received(0.05)
    wire.frame(pfc(dict.fromkeys(range(8), 0xFFFF)))
    wire.send(20)
    begin = time.monotonic()
    arrived = 0
    while arrived < 19 and time.monotonic() - begin < 5:
        wire.partner.send(pfc(dict.fromkeys(range(8), 0xFFFF), source=STRANGER))
        arrived += wire.received(0.002)
    assert 0.1 < time.monotonic() - begin < 0.5
    assert arrived >= 19
    report = wire.report()
    assert report.storming >> 3 & 1
    assert report.classes[3].storms == 1
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(5)
    assert wire.received(0.05) == 5  # dropped: it is still a storm
    wire.serve(0.4)
    assert not wire.report().storming
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(20)
    assert wire.received(0.05) <= 1  # obeyed again: nothing keeps dropping


def test_what_was_held_leaves_when_the_part_closes(wire: Wire) -> None:
    wire.frame(pfc({3: 0xFFFF}))
    wire.send(20)
    assert wire.received(0.05) <= 1
    wire.part.released(time.monotonic_ns())
    assert wire.received(0.05) >= 19


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_a_pause_that_we_originate_is_renewed_and_ended_as_tshark_sees_it(wire: Wire, tmp_path: Path) -> None:
    capture = tmp_path / "pauses.pcap"
    command = ("ip", "netns", "exec", wire.pair.right, "tcpdump", "-U", "-i", "eth0", "-w", str(capture), "ether proto 0x8808")
    with subprocess.Popen(command, stderr=subprocess.PIPE) as tcpdump:
        assert tcpdump.stderr is not None
        tcpdump.stderr.readline()  # it listens
        wire.directive(1, (3, 5), LONGEST_S * 2.2)
        wire.directive(1, (3, 5), LONGEST_S * 2.2)  # said again: obeyed once
        wire.serve(LONGEST_S * 2.2 + 0.1)
        wire.directive(2, (0,), 0.2)
        wire.directive(3, (0,), 0)
        wire.serve(0.3)
        tcpdump.terminate()
    out = subprocess.run(("tshark", "-r", str(capture), "-T", "json"), capture_output=True, text=True, check=True, timeout=30)
    frames = [packet["_source"]["layers"] for packet in json.loads(out.stdout)]
    assert all(layers["eth"]["eth.src"] == wire.host.link.address.hex(":") for layers in frames)
    seen = []
    for layers in frames:
        times = layers["macc"]["CBFC Class Pause Times"]
        enabled = int(layers["macc"]["macc.cbfc.enbv"], 16)
        seen.append((float(layers["frame"]["frame.time_relative"]), enabled, int(times["macc.cbfc.pause_time.c3"])))
    both = [(when, time) for when, enabled, time in seen if enabled == 0b10_1000]
    assert both[0][1] == 0xFFFF
    assert both[-1][1] == 0
    assert abs(both[-1][0] - LONGEST_S * 2.2) < 0.15
    for (when, quanta), (then, _) in itertools.pairwise(both):
        assert then <= when + quanta * QUANTUM_NS / 1e9 + 0.02, "the partner's timer ran out before it was renewed"
    assert [enabled for _, enabled, _ in seen[-2:]] == [1, 1]
    assert int(frames[-1]["macc"]["CBFC Class Pause Times"]["macc.cbfc.pause_time.c0"]) == 0
    report = wire.report()
    assert (report.command, report.answer) == (3, PauseResult.DONE)
    assert report.classes[3].sent == len(both)


def test_a_storm_of_our_own_pauses_ends(wire: Wire) -> None:
    wire.settings(detection=0.1, restoration=0.3)
    wire.directive(1, (4,), 30)
    wire.serve(0.25)
    report = wire.report()
    assert report.storming >> 4 & 1
    wire.directive(2, (4,), 0.01)
    assert wire.report().answer is PauseResult.STORM
    wire.serve(0.5)
    wire.directive(3, (4,), 0.01)
    assert wire.report().answer is PauseResult.DONE
