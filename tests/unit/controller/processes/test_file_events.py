"""A file that changes is told at once, however it is changed."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.processes.file_events import FileEvents


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Path, FileEvents]]:
    file = tmp_path / "baton.yaml"
    file.write_text("one")
    events = FileEvents(file)
    yield file, events
    events.close()


def told(events: FileEvents) -> bool:
    return bool(select.select([events], (), (), 0)[0]) and events.drain()


def test_a_file_that_stays_as_it_is_wakes_nobody(watched: tuple[Path, FileEvents]) -> None:
    file, events = watched
    file.read_text()
    assert not told(events)


def test_one_that_is_written_replaced_or_removed_does(watched: tuple[Path, FileEvents]) -> None:
    file, events = watched
    fresh = file.with_suffix(".new")
    for change in (lambda: file.write_text("two"), lambda: (fresh.write_text("3"), fresh.replace(file)), file.unlink):
        change()
        assert told(events)
        assert not told(events)


def test_without_the_directory_there_are_no_events(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileEvents(tmp_path / "nowhere" / "baton.yaml")
