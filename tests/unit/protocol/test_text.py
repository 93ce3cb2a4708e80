"""Text that hosts send reaches logs, terminals and pages: it holds nothing that commands them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.addresses import tables
from agents.config import AgentConfig
from bench.fuzz.receivers import EPOCH, LEADER_MAC, coordinator, mac
from cli.main import main
from protocol.auth import Guard
from protocol.bodies.host_state import HOST_STATE, LINE, HostState, shortened
from protocol.bodies.registration import REGISTER
from protocol.bodies.text import packed_text, printable, unpacked_text
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.messages import Cause, GateKind, Kind, Register, encode
from protocol.wire import seal
from tests.unit.agents.addresses.test_found import host, link

KEY = Key(bytes(32))
HOSTILE = ["h1\nagent[1]: all is well", "\x1b]0;owned\x07", "a\x9b2J", "evil\u202etxt.exe", "a\tb", "nul\0", "line\u2028two"]
WORDS = {"key": KEY, "destination": LEADER_MAC, "source": mac(9), "epoch": EPOCH, "sequence": 77}


def bodies(text: str) -> dict[Kind, bytes]:
    """Every message of a host's with this text, packed by a host that does not care."""
    data = text.encode()
    head = REGISTER.pack("", 1, 10**8, 1, len(data), 1, 0, 2, 3)
    return {
        Kind.REGISTER: head + data + b"1",
        Kind.LEAVE: data,
        Kind.ERROR: b"\0\1" + bytes(8) + data,
        Kind.HOST_STATE: HOST_STATE.pack("", 1, 1, 1, 1, 1, 1, 1, 1) + b"k" + LINE.pack("", len(data)) + data,
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_a_message_with_such_text_is_refused_and_counted(text: str) -> None:
    for number, (kind, body) in enumerate(bodies(text).items()):
        guard = Guard(KEY, epoch=EPOCH, leader=True)
        assert guard.accept(seal(kind, body, sender=number and 16, **WORDS)) is None, kind
        assert guard.refused == {Cause.MALFORMED: 1}
    for kind, body in bodies("web-1.example (Rack 7) grün").items():
        assert Guard(KEY, epoch=EPOCH, leader=True).accept(seal(kind, body, sender=16, **WORDS)) is not None, kind


@pytest.mark.parametrize("text", HOSTILE)
def test_no_log_of_the_leader_shows_it(text: str, caplog: pytest.LogCaptureFixture) -> None:
    target = coordinator(KeyRing(KEY))
    with caplog.at_level(logging.DEBUG):
        target.take(seal(Kind.REGISTER, bodies(text)[Kind.REGISTER], sender=0, **WORDS), 1)
    assert not [record for record in caplog.records if not record.getMessage().isprintable()]


@pytest.mark.parametrize("text", HOSTILE)
def test_an_agent_does_not_send_it_and_its_operator_is_told_at_the_start(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Register\.name: .* must be printable"):
        encode(Register(text, 1, 1, (), GateKind.TBF, "1"), sender=0, **WORDS)
    with pytest.raises(ValueError, match=r"^name: .*--name$"):
        AgentConfig("eth0", 10**8, Path("key"), name=text)
    assert shortened(text).isprintable() and HostState(1, 1, 1, 1, 1, 1, "6.1", (shortened(text),))


def test_a_name_that_cannot_be_registered_is_one_line_on_the_terminal() -> None:
    for name in ("a\x1b[2J", "n" * 256):
        found = CliRunner().invoke(main, ["agent", "--interface", "lo", "--rate", "100mbit", "--key", "k", "--name", name])
        assert found.exit_code == 1 and "--name" in found.output and found.output.strip().isprintable()


def test_names_of_interfaces_are_shown_without_what_commands_a_terminal() -> None:
    made = host((tables.RTM_NEWLINK, link(9, "a\x1b[2J")))
    assert made.links[9].name == "a?[2J"


def test_text_comes_back_as_it_was() -> None:
    assert unpacked_text(packed_text("", "grün ✓", 20)) == "grün ✓" == printable("grün ✓")
    for data in (b"\xff", b"a\n"):
        with pytest.raises(ValueError, match=r"."):
            unpacked_text(data)
