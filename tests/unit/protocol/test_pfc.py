"""PFC and PAUSE frames: they are read back as built, tshark dissects them alike, and bad ones are refused with their cause."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import pfc
from protocol.pfc import BadFrame, BadFrameError, PauseFrame, PfcFrame

SOURCE = bytes.fromhex("020000000001")
times = st.integers(0, pfc.MAX_QUANTA)
pfcs = st.builds(PfcFrame, st.binary(min_size=6, max_size=6), st.dictionaries(st.integers(0, 7), times))
pauses = st.builds(PauseFrame, st.binary(min_size=6, max_size=6), times)


@given(st.one_of(pfcs, pauses))
def test_what_is_built_is_read_back(frame: PfcFrame | PauseFrame) -> None:
    encoded = frame.encode()
    assert len(encoded) == 60
    assert pfc.decode(encoded) == frame


@given(st.binary(max_size=100))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    try:
        pfc.decode(data)
    except BadFrameError as error:
        assert error.cause in BadFrame


@given(pfcs, st.integers(0, 59))
def test_a_frame_that_is_cut_off_is_short(frame: PfcFrame, length: int) -> None:
    with pytest.raises(BadFrameError) as raised:
        pfc.decode(frame.encode()[:length])
    assert raised.value.cause is BadFrame.SHORT


@pytest.mark.parametrize(
    ("offset", "value", "cause"),
    [
        (0, b"\x02", BadFrame.DESTINATION),
        (12, b"\x08\x00", BadFrame.ETHERTYPE),
        (14, b"\x01\x02", BadFrame.OPCODE),
        (16, b"\x01", BadFrame.RESERVED),
    ],
)
def test_a_bad_frame_is_told_by_its_cause(offset: int, value: bytes, cause: BadFrame) -> None:
    frame = bytearray(PfcFrame(SOURCE, {3: 100}).encode())
    frame[offset : offset + len(value)] = value
    with pytest.raises(BadFrameError) as raised:
        pfc.decode(bytes(frame))
    assert raised.value.cause is cause


def test_the_time_of_a_class_whose_bit_is_clear_is_ignored() -> None:
    frame = bytearray(PfcFrame(SOURCE, {3: 100}).encode())
    struct.pack_into("!H", frame, 18 + 2 * 5, 999)
    assert pfc.decode(bytes(frame)) == PfcFrame(SOURCE, {3: 100})


def test_a_class_is_resumed_by_a_time_of_zero_and_not_by_absence() -> None:
    assert pfc.decode(PfcFrame(SOURCE, {2: 0}).encode()) == PfcFrame(SOURCE, {2: 0})
    assert pfc.decode(PfcFrame(SOURCE, {}).encode()) == PfcFrame(SOURCE, {})


@given(st.integers(0, 3_000_000), st.sampled_from([10**8, 10**9, 10**10, 4 * 10**10]))
def test_quanta_last_no_shorter_than_was_asked_and_less_than_one_quantum_longer(duration_ns: int, link_bps: int) -> None:
    if duration_ns > pfc.longest_ns(link_bps):
        with pytest.raises(ValueError, match="renew"):
            pfc.to_quanta(duration_ns, link_bps)
        return
    quanta = pfc.to_quanta(duration_ns, link_bps)
    assert quanta * 512 * 10**9 >= duration_ns * link_bps
    assert (quanta - 1) * 512 * 10**9 < duration_ns * link_bps or quanta == 0


def test_the_longest_pause_of_ten_gigabits_is_3355_microseconds() -> None:
    assert pfc.longest_ns(10**10) == 3_355_392
    assert pfc.to_ns(1, 10**10) == 51


@pytest.mark.parametrize("quanta", [{8: 1}, {-1: 1}, {0: 65_536}, {0: -1}])
def test_what_a_frame_cannot_say_is_refused_with_its_class(quanta: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="class"):
        PfcFrame(SOURCE, quanta)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_in_our_frames_what_we_wrote(tmp_path: Path) -> None:
    frames = [PfcFrame(SOURCE, {0: 1, 3: 0xFFFF, 7: 0}).encode(), PauseFrame(SOURCE, 0x1234).encode()]
    capture = tmp_path / "pfc.pcap"
    records = b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
    capture.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + records)
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-T", "json"], capture_output=True, text=True, check=True, timeout=60
    )
    classes, whole = (packet["_source"]["layers"] for packet in json.loads(done.stdout))
    assert classes["eth"]["eth.dst"] == "01:80:c2:00:00:01"
    control = classes["macc"]
    assert int(control["macc.opcode"], 16) == 0x0101
    assert int(control["macc.cbfc.enbv"], 16) == 0b1000_1001
    times = control["CBFC Class Pause Times"]
    assert [int(times[f"macc.cbfc.pause_time.c{priority}"]) for priority in range(8)] == [1, 0, 0, 0xFFFF, 0, 0, 0, 0]
    assert int(whole["macc"]["macc.opcode"], 16) == 0x0001
    assert int(whole["macc"]["macc.pause_time"]) == 0x1234
