"""The compiled shortest paths have the lengths of the reference, on any grid; and touch no memory that is not their own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import controller.priorities.compiled
from cli.machine.doctor import collect
from controller.priorities import threshold_solver
from controller.priorities.compiled import library
from controller.priorities.compiled.library import STEPS, TERMS, ShortestPaths
from controller.priorities.completion_model import Traffic
from controller.priorities.flow_sizes import FlowSizes
from ebpf.build import BuildError
from tests.sanitized import run_sanitized

SOURCE = Path(controller.priorities.compiled.__file__).parent / "shortest.c"
INSTEAD = "BATON_TEST_SHORTEST"
"""The variable that names the folder of another build of the library, for the test of memory safety."""
BUILD = os.environ.get(INSTEAD)


def compiled() -> ShortestPaths:
    return ShortestPaths(Path(BUILD) / "shortest.so" if BUILD else None)


def reference(columns: int, source: np.ndarray, target: np.ndarray, first: np.ndarray, steps: int) -> list[np.ndarray]:
    """By the definition."""
    row, column = np.divmod(np.arange(len(first)), columns)
    ordered = (row[None, :] <= row[:, None]) & (column[None, :] <= column[:, None])
    length = np.where(ordered, target @ source.T, np.inf)
    found = [first]
    for _ in range(steps - 1):
        found.append((length + found[-1][None, :]).min(axis=1))
    return found


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 14), st.integers(1, 150), st.integers(1, STEPS), st.integers(0, 1 << 32))
def test_lengths_are_those_of_the_reference(rows: int, columns: int, steps: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    states = rows * columns
    source, target = (chance.normal(size=(states, TERMS)) for _ in range(2))
    first = chance.normal(size=states)
    found = compiled().lengths(columns, source, target, first, steps)
    np.testing.assert_allclose(found, reference(columns, source, target, first, steps), rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(bool(BUILD), reason="is the one that runs the others")
def test_the_library_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same under the address and the undefined-behaviour sanitizers."""
    assert "same lengths" in run_sanitized(__name__, INSTEAD, [SOURCE], tmp_path)


@pytest.mark.parametrize("bands", [1, 2, 4, STEPS + 2])
def test_without_the_library_the_thresholds_are_as_good(bands: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for more bands than the library takes."""
    sizes = FlowSizes((0.0, 10.0, 100.0, 4_000.0), (0.0, 0.5, 0.8, 1.0))
    traffic = Traffic(0.2, 0.3, 0.3, sizes, sizes)
    with_library = threshold_solver.solve(traffic, bands)
    monkeypatch.setattr(threshold_solver, "shortest_paths", lambda: None)
    without = threshold_solver.solve(traffic, bands)
    assert without.value == pytest.approx(with_library.value, rel=0.005)
    assert without.bound <= with_library.value and with_library.bound <= without.value


def test_where_the_library_cannot_be_built_doctor_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Path:
        raise BuildError("clang is missing: install the package clang")

    monkeypatch.setattr(library.LIBRARY, "load", refuse)
    for remembered in ("_loaded", "_missing"):
        monkeypatch.setattr(library.LIBRARY, remembered, None)
    assert library.shortest_paths() is None
    (row,) = (row for row in collect([]) if row.name == "compiled shortest paths")
    assert not row.present and "clang is missing" in row.instead and row.improve == "apt install clang"


if __name__ == "__main__":
    test_lengths_are_those_of_the_reference()
    print("same lengths")
