"""What `baton status` says of the controllers at one store."""

from __future__ import annotations

import re
import time
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from cli.operate.status import status
from cli.operate.status_view import show, show_members

FOUND: dict[str, Any] = {
    "processes": {}, "config_error": "", "fabric": None, "coordinator": None, "policy": None, "members": {},
    "events": [],
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


def test_what_became_of_guests_marks_is_told_by_host(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"held": 2, "marked": 9, "expired": 5, "removed": 1, "refused": 3}
    members = {"16": {"name": "h1", "guest_marks": counts}, "17": {"name": "h2"}}
    show(FOUND | {"coordinator": TestWidth.COORDINATOR, "override": "coordinate", "members": members})
    out = capsys.readouterr().out
    assert "h1: 2 marks held, 5 expired, 1 removed, 3 requests refused" in " ".join(out.split())
    assert out.count("guests") == 1


@pytest.mark.parametrize(
    ("slices", "told"),
    [(None, "slices of 2 ms, epoch"), (1, "slices of 2 ms, epoch"), (4, "slices of 2 ms (slots last 8 ms), epoch")],
)
def test_slots_that_last_longer_than_a_slice_are_told(
    slices: int | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {} if slices is None else {"slot_slices": slices}
    show(FOUND | {"coordinator": TestWidth.COORDINATOR | more, "override": "coordinate", "members": {}})
    assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            {"mode": "turns", "why": "quick", "count": 2, "links": [["s1", "h1"], ["s1", "h2"]]},
            "s1 -> h1, s1 -> h2: turns: quick",
        ),
        (
            {"mode": "rates", "why": "slow", "count": 2400, "links": [[f"s{n}", f"h{n}"] for n in range(8)]},
            "s0 -> h0, s1 -> h1, 2398 more links: rates: slow",
        ),
        ({"mode": "", "why": "7 other reasons", "count": 9, "links": []}, "9 links: turns or rates: 7 other reasons"),
    ],
)
def test_what_auto_chose_is_told_with_the_reason_and_some_links(
    row: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"choices": [row]}
    show(FOUND | {"coordinator": TestWidth.COORDINATOR | more, "override": "coordinate", "members": {}})
    assert told in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_an_event_of_another_day_has_its_day(capsys: pytest.CaptureFixture[str]) -> None:
    now = int(time.time() * 1000)
    event = {"kind": "up", "severity": "info", "text": "is up"}
    show(FOUND | {"events": [{**event, "at_ms": now - 3 * 86_400_000}, {**event, "at_ms": now}]})
    old, new = [line for line in capsys.readouterr().out.splitlines() if "is up" in line]
    assert re.search(r"│ \d\d-\d\d \d\d:\d\d +│", old) and re.search(r"│ \d\d:\d\d:\d\d +│", new)


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

    def test_warnings_are_told_whole(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        text = " ".join(self.shown(capsys, monkeypatch).split())
        assert "warning h4 has no addresses: nobody classifies" in text
        assert "warning h9: its rate is above that of its link" in text


class TestManyMembers:
    """A long list comes in pages, and says what it does not show."""

    MEMBERS: ClassVar[dict[str, Any]] = {
        str(15 + number): {
            "name": f"h{number}",
            "addresses": [f"10.0.0.{number}"],
            "suspect": ["it lies"] * (number > 100),
        }
        for number in range(1, 121)
    }

    def test_a_page_says_how_to_get_the_next_one(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        assert show_members(self.MEMBERS, page=2)
        out = capsys.readouterr().out
        assert "showing 51 to 100 of 120 members" in out and "page 2 of 3; add --page 3 for the next" in out
        assert "h51 " in out and "h50 " not in out and max(map(len, out.splitlines())) <= 80

    def test_a_search_finds_names_and_what_is_wrong(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_members(self.MEMBERS, search="h12")
        assert "showing 1 to 2 of 2 that match, of 120 members" in capsys.readouterr().out
        show_members(self.MEMBERS, search="suspect")
        assert "20 that match" in capsys.readouterr().out
        show_members(self.MEMBERS, search="nobody")
        assert "none of 120 members match" in capsys.readouterr().out
        assert not show_members({})

    def test_the_summary_counts_what_it_does_not_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        contended = [["s1", f"h{number}"] for number in range(30)]
        coordinator = {"slice_ns": 1, "policy": "free", "epoch": 1, "contended": contended}
        show(FOUND | {"coordinator": coordinator, "override": "coordinate", "members": self.MEMBERS, "processes": {}})
        out = " ".join(capsys.readouterr().out.split())
        assert "and 20 more: add --links --search contended" in out
        assert "and 10 more: add --members --search suspect" in out

    def test_what_says_more_is_asked_of_the_same_store(self, capsys: pytest.CaptureFixture[str]) -> None:
        members = {"9": {"name": "h9", "drift": ["x"]}}
        found = {"coordinator": TestWidth.COORDINATOR, "override": "coordinate", "members": members}
        show(FOUND | found | {"store": "redis://db.example:6379/0"})
        out = " ".join(capsys.readouterr().out.split())
        assert "`baton doctor --hosts --store redis://db.example:6379/0` says more" in out
        show(FOUND | found | {"store": "unix:///s", "processes": {"redis": {"pid": 1, "restarts": 0}}})
        assert "`baton doctor --hosts` says more" in " ".join(capsys.readouterr().out.split())


def test_a_line_whose_document_lacks_something_says_so_and_the_others_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    lacking = {name: value for name, value in TestWidth.COORDINATOR.items() if name != "slice_ns"}
    show(FOUND | {"coordinator": lacking | {"warnings": ["the clock was set back"]}, "override": "coordinate"})
    out = " ".join(capsys.readouterr().out.split())
    assert "policy can't be shown: what the store holds lacks something (KeyError: 'slice_ns'); --json alone shows it" in out
    assert "the clock was set back" in out


def test_a_list_whose_document_lacks_something_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = FOUND | {"ports": {"links": [{"target": "s1"}]}}
    monkeypatch.setattr("cli.operate.status.collect", lambda *_: lacking)
    told = CliRunner().invoke(status, ["--links", "--store", "unix:///nowhere.sock"])
    assert told.exit_code == 1 and told.output == (
        "Error: what the store holds lacks something (KeyError: 'source'); --json alone shows it\n"
    )
