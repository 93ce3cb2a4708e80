"""What the framework reads of a switch's socket, and what is told of the rest."""

from __future__ import annotations

from bench.fuzz.openflow import FEATURES, HELLOS, SEEDS, message
from controller.openflow.intake import messages, server

FRAME, STATISTICS_OF_LENGTH_0 = SEEDS[5], message(messages.MULTIPART_REPLY, b"\x00\x01" + bytes(6 + 56))


class Connection:
    """A socket from which these pieces arrive, and then nothing more."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces, b""]

    def recv(self, _size: int) -> bytes:
        return self._pieces.pop(0)

    def fileno(self) -> int:
        return 7


class Reader:
    """A framework that reads by its own sizes until the connection ends."""

    def __init__(self, *pieces: bytes) -> None:
        self.told: list[tuple[str, str]] = []
        self.pauses = 0
        self.intake = server.Intake(lambda kind, text: self.told.append((kind, text)), clock=lambda: 0)
        self.socket = server.Guarded(Connection(*pieces), "10.0.0.9", self.intake, self._pause)
        self.got = b""
        while data := self.socket.recv(8):
            self.got += data

    def _pause(self) -> None:
        self.pauses += 1


def test_twelve_bytes_end_the_connection_and_the_framework_sees_none_of_them() -> None:
    reader = Reader(message(messages.HELLO, bytes(4)))
    assert reader.got == b""
    assert reader.told == [("switch_refused", "a switch at 10.0.0.9 is refused: HELLO: element: length")]
    assert reader.intake.malformed == 1


def test_a_switch_stays_when_one_of_its_messages_is_dropped_and_that_is_told_once_and_counted() -> None:
    reader = Reader(HELLOS[0] + FEATURES, STATISTICS_OF_LENGTH_0 * 3, SEEDS[0], STATISTICS_OF_LENGTH_0)
    assert reader.got == HELLOS[0] + FEATURES + SEEDS[0]
    assert [kind for kind, _ in reader.told] == ["openflow_malformed"]
    assert reader.intake.malformed == 4


def test_frames_beyond_the_bound_are_dropped_told_and_counted() -> None:
    reader = Reader(HELLOS[0] + FEATURES, FRAME * 1_200, FRAME * 1_200, SEEDS[2])
    assert reader.got.endswith(SEEDS[2])
    assert len(reader.got) == len(HELLOS[0] + FEATURES + SEEDS[2]) + 2_000 * len(FRAME)
    assert [kind for kind, _ in reader.told] == ["frames_dropped"]
    assert reader.intake.frames_dropped == 400


def test_a_stranger_that_connects_again_and_again_does_not_fill_the_log() -> None:
    told: list[str] = []
    intake = server.Intake(lambda _kind, text: told.append(text), clock=lambda: 0)
    for _ in range(1_000):
        assert server.Guarded(Connection(message(messages.HELLO, bytes(4))), "10.0.0.9", intake, lambda: None).recv(8) == b""
    assert len(told) == server.TOLD_AT_ONCE
    assert intake.malformed == 1_000


def test_the_others_get_their_turn_before_each_read() -> None:
    assert Reader(HELLOS[0], FEATURES, SEEDS[2]).pauses >= 4


def test_the_rest_of_it_is_a_socket() -> None:
    assert Reader().socket.fileno() == 7
