"""Runs the fuzz target for a bounded time, from one valid body of every type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.fuzz.seeds import SEEDS
from protocol import messages as m
from protocol.key import TAG_BYTES, Key
from protocol.wire import BODY

SECONDS = 10
PROJECT = Path(__file__).resolve().parents[2]


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
