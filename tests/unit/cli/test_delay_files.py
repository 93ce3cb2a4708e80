"""Files of delays without samples, which would be as if no delay had been asked for."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from cli.experiment_time import Delay


@pytest.mark.parametrize("samples", ["[]", '"123"', '""', '{"1": 2}', "null", "7"])
def test_a_file_without_a_list_of_samples_is_refused(tmp_path: Path, samples: str) -> None:
    file = tmp_path / "latency.json"
    file.write_text(f'{{"samples_us": {{"agent": {samples}}}}}')
    with pytest.raises(click.BadParameter, match="holds no samples of the agent"):
        Delay("agent").convert(str(file), None, None)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    file = tmp_path / "latency.json"
    file.write_text("{}")
    monkeypatch.setattr(Path, "read_text", denied)
    with pytest.raises(click.BadParameter, match="holds no samples of the agent"):
        Delay("agent").convert(str(file), None, None)
