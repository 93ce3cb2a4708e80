"""What `baton status` says of the controllers at one store."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from cli.operate.status_view import show

FOUND: dict[str, Any] = {
    "processes": {}, "config_error": "", "fabric": None, "coordinator": None, "members": {}, "events": []
}  # fmt: skip


def controller(*, leads: bool) -> dict[str, Any]:
    return {"attachment": "s1:1", "mac": "02:00:00:00:00:01", "pid": 1, "leads": leads, "epoch": 3 if leads else 0}


@pytest.mark.parametrize(
    ("controllers", "told"),
    [
        ({"b:/b": controller(leads=False), "a:/a": controller(leads=True)}, "a:/a leads, epoch 3, b:/b stands by"),
        ({"b:/b": controller(leads=False)}, "b:/b stands by"),
    ],
)
def test_who_leads_and_who_stands_by_are_named(
    controllers: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(FOUND | {"controllers": controllers})
    assert told in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("controllers", [{}, {"a:/run/a": controller(leads=True)}])
def test_one_that_leads_alone_needs_no_line(controllers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    show(FOUND | {"controllers": controllers})
    assert "controllers" not in capsys.readouterr().out


class TestWidth:
    """A terminal of 80 columns shows every heading and number in full; `--wide` shows more, however wide it gets."""

    MEMBERS: ClassVar[dict[str, Any]] = {
        str(number): {
            "name": f"compute-{number}.rack3",
            "addresses": ["2001:db8:0:1::2:100" if number % 2 else f"10.121.14.{number}", "10.9.0.1", "10.9.0.2"],
            "gate": "tbf", "heard_ms_ago": 12 * number, "schedule_offset_us": -12_345.0, "schedule_uncertainty_us": 40.0,
            "slots": 12_345_678, "late_slots": 1_234, "yields": 234_567, "regulated": list(range(120)),
            "backlog_bytes": {"1": 5_123_456}, "refused": {"1": 3}, "warnings": [],
        }
        for number in range(1, 7)
    }  # fmt: skip
    COORDINATOR: ClassVar[dict[str, Any]] = {
        "slice_ns": 2_000_000, "policy": "timeslice", "epoch": 1_795_415_944, "contended": [["t3", "h6"], ["a1", "t3"]],
        "slots": 12_345_678, "late_slots": 123, "lost": 4, "yields": 1_234_567,
        "warnings": ["h4 has no addresses: nobody classifies traffic to it; give its agent --address"],
    }  # fmt: skip

    def shown(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **options: bool) -> str:
        monkeypatch.setenv("COLUMNS", "80")
        event = {"at_ms": 0, "kind": "link_below_its_rate", "severity": "warning", "text": "t3-eth4 drops at 61 of 100 Mb/s"}
        members = {**self.MEMBERS, "9": {"name": "h9", "warnings": ["its rate is above that of its link"]}}
        found = FOUND | {"coordinator": self.COORDINATOR, "override": "coordinate", "members": members, "events": [event]}
        show(found, **options)
        return capsys.readouterr().out

    def test_80_columns_are_enough(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        lines = self.shown(capsys, monkeypatch).splitlines()
        assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
        heading = next(line for line in lines if line.startswith("name "))
        assert heading.split() == ["name", "addresses", "heard", "slots", "late", "yields", "gated", "backlog"]
        row = next(line for line in lines if "10.121.14.2 " in line)
        assert all(cell in row for cell in ("24 ms", "12345k", "1234", "234k", "to 120", "5.12 MB"))

    def test_wide_shows_all_in_one_line(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        lines = self.shown(capsys, monkeypatch, wide=True).splitlines()
        row = next(line for line in lines if "compute-1.rack3" in line)
        for cell in ("2001:db8:0:1::2:100, 10.9.0.1, 10.9.0.2", "tbf", "-12,345 ±40 us", "12345678", "5,123,456"):
            assert cell in row
        assert any("regulated to" in line for line in lines)

    def test_warnings_are_told(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        text = " ".join(self.shown(capsys, monkeypatch).split())
        assert "warning h4 has no addresses: nobody classifies" in text
        assert "warning h9: its rate is above that of its link" in text
