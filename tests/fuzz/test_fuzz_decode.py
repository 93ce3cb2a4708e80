"""Runs the fuzz target for a bounded time, from one valid body of every type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from protocol import messages as m
from protocol.key import Key
from protocol.wire import BODY, TAG_BYTES

SECONDS = 10
PROJECT = Path(__file__).resolve().parents[2]
ADDRESSES = (IPv4Address("10.0.0.1"), IPv6Address("fd00::1"))
SEEDS = (
    m.Register("host", 1, 10**9, ADDRESSES, m.Gates.TBF | m.Gates.PLUG, "1"),
    m.Welcome(1, 16, 10**7, 5 * 10**7, 300_000, 10_000, 10**6, 10**8),
    m.DirectoryRequest(1),
    m.Directory(1, 0, 1, ((16, ADDRESSES), (17, ()))),
    m.Regulate(1, 0, 1, (16, 17)),
    m.Backlog(1, 0, 1, ((16, 60_000, 1514), (17, 1, 0))),
    m.Directive((m.Grant(16, 1, 1, 2, 24_224, 0), m.Grant(17, 2, 1, 2, 0, 10**8))),
    m.Yield(16, 1, 1, 1),
    m.Ack(1, 16, 1, 1),
    m.Report(10**8, 0, 1, (m.FlowReport(16, 1, 1),), ((5, 1),), 1),
    m.Heartbeat(m.Override.COORDINATE, 1, 1),
    m.Ping(1),
    m.Pong(1, 2, 3),
    m.Leave("stopped"),
    m.Error(m.ErrorCode.UNKNOWN_SENDER, 1, "register first"),
    m.SizeReport(1, 10**10, b"\2\x40\0\0\0\1" + (1 << 20).to_bytes(8, "big")),
    m.Thresholds(1, 10**10, 3, 2, (20_000, 10**6), (10_000, 10**5)),
    m.Coflows(4, 0, 1, ((7, 1), (9, 2))),
    m.ThresholdsRequest(1),
)


def write_seeds(directory: Path) -> None:
    """One file for each message: its type and its body."""
    for message in SEEDS:
        frame = m.encode(
            message,
            key=Key(bytes(32)),
            destination=bytes(6),
            source=bytes(6),
            sender=0,
            epoch=0,
            sequence=0,
        )
        length = int.from_bytes(frame[20:22], "big")
        assert len(frame) == max(60, BODY + length + TAG_BYTES)
        body = frame[BODY : BODY + length]
        (directory / type(message).__name__).write_bytes(frame[17:18] + body)


def test_ten_seconds_of_fuzzing_find_nothing(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris cannot be imported: pip install atheris")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_seeds(corpus)
    target = Path(__file__).with_name("fuzz_decode.py")
    done = subprocess.run(
        [sys.executable, str(target), str(corpus), f"-max_total_time={SECONDS}", "-max_len=1600"],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None and int(runs.group(1)) > 1_000, done.stderr[-3000:]


def test_every_type_has_a_seed() -> None:
    assert {type(seed).__name__.upper() for seed in SEEDS} == {kind.name.replace("_", "") for kind in m.Kind}
