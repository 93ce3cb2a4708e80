"""`baton pfc`: the checks before a command goes to a host."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cli.hosts import pfc, pfc_view
from cli.main import main

LEADER = {"pfc": {"action": "drop", "accept_from": [], "detection_ns": [200_000_000] * 8, "restoration_ns": [200_000_000] * 8}}
ROW = {"received": 4, "sent": 2, "refused": 1, "paused_ms": 1.5, "storms": 1}
STATE = {"mode": "software", "paused": [3], "storming": [3], "bad": 1, "strangers": 2, "answers": {}}
MEMBERS: dict[int, dict[str, Any]] = {
    16: {"name": "h1", "pfc": [{"class": 3, **ROW}], "pfc_state": STATE},
    17: {"name": "h2", "pfc": [], "pfc_state": {"answers": {}}},
}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("pause", "--host", "h1", "--classes", "3,8", "--for", "2ms"), "class 8: write classes from 0 to 7"),
        (("pause", "--host", "h1", "--classes", "x", "--for", "2ms"), "write classes from 0 to 7, such as 3,5"),
        (("pause", "--host", "h1", "--classes", "3", "--for", "2"), "has no unit"),
        (("pause", "--host", "h1", "--classes", "3", "--for", "0ms"), "above 0"),
        (("resume", "--host", "h1", "--classes", "-1"), "class -1"),
    ],
)
def test_bad_input_is_one_line_with_the_remedy(words: tuple[str, ...], problem: str) -> None:
    result = CliRunner().invoke(main, ["pfc", *words])
    assert result.exit_code == 2
    assert problem in result.output


@pytest.mark.parametrize(
    ("host", "duration_ns", "problem"),
    [
        ("h9", 2_000_000, "no member is called h9; members: h1, h2"),
        ("h2", 2_000_000, "the agent of h2 has no PFC"),
        ("h1", 200_000_000, "would be a storm.*raise pfc.detection"),
        ("h1", 3600 * 10**9, "class 3 paused for 1h would be a storm, which is one from 200ms on"),
    ],
)
def test_what_a_host_cannot_do_is_said_before_it_is_asked(host: str, duration_ns: int, problem: str) -> None:
    with pytest.raises(click.ClickException, match=problem):
        pfc._check(LEADER, MEMBERS, host, 0b1000, duration_ns)


class AStore:
    """A store whose leader hands every command to its host, which does it at once."""

    def __init__(self) -> None:
        self.commands = self
        self.told: list[dict[str, Any]] = []
        self._members = deepcopy(MEMBERS)

    def status(self) -> dict[str, Any]:
        return LEADER

    def members(self) -> dict[int, dict[str, Any]]:
        return self._members

    def publish_pfc_command(self, command: dict[str, Any]) -> int:
        self.told.append(command)
        self._members[16]["pfc_state"]["answers"] = {str(len(self.told)): "done"}
        return len(self.told)

    def publish_event(self, *_: str, by: str) -> None: ...


@pytest.mark.parametrize(
    ("words", "classes", "duration_ns"),
    [
        (("pause", "--host", "h1", "--classes", "3", "--for", "199999us"), 0b1000, 199_999_000),
        (("resume", "--host", "h1"), 0xFF, 0),
    ],
)
def test_a_pause_below_the_detection_time_and_a_resume_reach_the_host(
    words: tuple[str, ...], classes: int, duration_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AStore()
    monkeypatch.setattr(pfc, "open_store", lambda *_: store)
    result = CliRunner().invoke(main, ["pfc", *words])
    assert result.exit_code == 0, result.output
    assert store.told == [{"host": "h1", "classes": classes, "duration_ns": duration_ns}]


@pytest.mark.parametrize(
    ("second", "words"), [("storm", "skipped the classes"), ("", "did not answer"), ("done", "pauses class 3")]
)
def test_of_a_host_with_two_interfaces_both_agents_answer(second: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = AStore()
    state = STATE | {"answers": {"1": second} if second else {}}
    store._members[18] = {"name": "h1", "pfc": [{"class": 3, **ROW}], "pfc_state": state}
    monkeypatch.setattr(pfc, "open_store", lambda *_: store)
    monkeypatch.setattr(pfc, "ANSWER_S", 0.2)
    result = CliRunner().invoke(main, ["pfc", "pause", "--host", "h1", "--classes", "3", "--for", "2ms"])
    assert words in result.output
    assert result.exit_code == (second != "done")


def test_status_shows_each_interface_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AStore()
    store._members[18] = store._members[16] | {"mac": "02:00:00:00:00:12"}
    store._members[16]["mac"] = "02:00:00:00:00:10"
    monkeypatch.setattr(pfc, "open_store", lambda *_: store)
    shown = json.loads(CliRunner().invoke(main, ["pfc", "status", "--json"]).output)
    assert list(shown["hosts"]) == ["h1 (02:00:00:00:00:10)", "h1 (02:00:00:00:00:12)"]


def test_status_has_a_row_for_each_class_to_which_anything_happened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    pfc_view.show(LEADER["pfc"], {"h1": MEMBERS[16]})
    shown = capsys.readouterr().out
    assert "any link partner" in shown and "200 ms" in shown
    assert "paused, storm" in shown and "1.5 ms" in shown
    assert "h1: 2 frames of partners that are not authorised, 1 frames that are no valid pauses" in shown


def test_the_line_of_baton_status_adds_hosts_up_and_is_absent_without_any() -> None:
    members = {str(node): member for node, member in MEMBERS.items()}
    assert pfc_view.line(members) == "1 hosts; 4 received, 2 sent, 1 refused, 1 storms; storm now: h1 class 3"
    assert pfc_view.line({"17": MEMBERS[17]}) == ""


@pytest.mark.parametrize("lacks", ["pfc_state", "refused", "pfc"])
def test_what_a_leader_of_another_version_leaves_out_is_said(lacks: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"class": 3, **{name: count for name, count in ROW.items() if name != lacks}}
    member = {"name": "h3", "pfc": [row], **({} if lacks == "pfc_state" else {"pfc_state": STATE})}
    leader: dict[str, Any] = {} if lacks == "pfc" else LEADER
    with pytest.raises(click.ClickException, match=r"h3: the leader tells too little of pauses.*upgrade it"):
        pfc._check(leader, {18: member}, "h3", 0b1000, 2_000_000)
    if lacks != "pfc":
        pfc_view.show(LEADER["pfc"], {"h1": MEMBERS[16], "h3": member})
        shown = " ".join(capsys.readouterr().out.split())
        assert f"h3: {pfc_view.UNTOLD}" in shown and "1.5 ms" in shown
        assert pfc_view.line({"16": MEMBERS[16], "18": member}) == (
            f"2 hosts; 4 received, 2 sent, 1 refused, 1 storms; storm now: h1 class 3; of 1 {pfc_view.UNTOLD}"
        )
