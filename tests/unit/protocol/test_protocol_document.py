"""PROTOCOL.md says what the code does: its offsets, sizes, numbers, pictures and transitions are compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.membership.lifecycle import Event, InvalidTransition, Lifecycle, State
from protocol import messages as m
from protocol.bodies import directory, groups, keys, pfc, registration
from protocol.bodies import host_control as host
from protocol.bodies import host_state as health
from protocol.bodies.flows import priorities
from protocol.bodies.flows.coflow_report import COFLOW_SENT
from protocol.bodies.flows.guest_marks import GUEST_MARKS
from protocol.bodies.flows.losses import LOSS
from protocol.bodies.flows.size_bins import BINS
from protocol.bodies.host_link import HOST_LINK
from protocol.bodies.versions import SPOKEN
from protocol.key import TAG_BYTES
from protocol.wire import BODY, BODY_MAX, ETHERNET_BYTES, FRAME_MIN, HEADER, MAGIC, Layout

DOCUMENT = (Path(__file__).resolve().parents[3] / "protocol" / "PROTOCOL.md").read_text()
SECTIONS = dict(re.findall(r"^### (\w+) \(\d+\)\n(.*?)(?=^### |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))
FRAME = DOCUMENT[DOCUMENT.index("\n## Frame") : DOCUMENT.index("\n## Epochs")]

LAYOUTS: dict[str, list[tuple[Layout, int]]] = {
    "REGISTER": [(registration.REGISTER, BODY)],
    "WELCOME": [(registration.WELCOME, BODY)],
    "DIRECTORY_REQUEST": [(directory.DIRECTORY_REQUEST, BODY)],
    "DIRECTORY_CHANGE": [(directory.DIRECTORY_CHANGE, BODY), (directory.CHANGED_NODE, 0)],
    "GROUPS_CHANGE": [(groups.GROUPS, BODY), (groups.GROUP_ROW, 0)],
    "GROUPS_REQUEST": [(groups.GROUPS_REQUEST, BODY)],
    "DIRECTORY": [(directory.DIRECTORY, BODY), (directory.DIRECTORY_ENTRY, 0)],
    "REGULATE": [(m.REGULATE, BODY), (m.DESTINATION, 0)],
    "BACKLOG": [(m.BACKLOG, BODY), (m.BACKLOG_ENTRY, 0)],
    "DIRECTIVE": [(m.GRANT, 0)],
    "YIELD": [(m.YIELD, BODY)],
    "ACK": [(m.ACK, BODY)],
    "REPORT": [(m.REPORT, BODY), (m.REPORT_ENTRY, 0), (m.REPORT_COUNTER, 0)],
    "HEARTBEAT": [(m.HEARTBEAT, BODY)],
    "PING": [(m.PING, BODY)],
    "PONG": [(m.PONG, BODY)],
    "LEAVE": [],
    "ERROR": [(m.ERROR, BODY)],
    "SIZE_REPORT": [(priorities.SIZE_REPORT, BODY), (priorities.SIZE_ROW, 0)],
    "THRESHOLDS": [(priorities.THRESHOLDS, BODY), (priorities.THRESHOLD_ROW, 0)],
    "THRESHOLDS_REQUEST": [(priorities.THRESHOLDS_REQUEST, BODY)],
    "COFLOWS": [(m.COFLOWS, BODY), (m.COFLOW_ENTRY, 0)],
    "PATHS": [(priorities.PATHS, BODY), (priorities.PATH, 0)],
    "CONDITIONS": [(host.CONDITIONS, BODY), (host.CONDITION, 0)],
    "WEEK": [(host.WEEK, BODY), (host.FLOW, 0), (host.DAY, 0)],
    "CLOCK_REPORT": [(host.CLOCK_REPORT, BODY)],
    "KEY_STEP": [(keys.KEY_STEP, BODY)],
    "KEY_STATE": [(keys.KEY_STATE, BODY)],
    "HOST_STATE": [(health.HOST_STATE, BODY), (health.LINE, 0)],
    "HOST_LINK": [(HOST_LINK, BODY)],
    "GUEST_MARKS": [(GUEST_MARKS, BODY)],
    "LOSSES": [(LOSS, 0)],
    "COFLOW_REPORT": [(COFLOW_SENT, 0)],
    "PFC_SETTINGS": [(pfc.PFC_SETTINGS, BODY), (pfc.STORM_TIMES, 0), (pfc.PARTNER, 0), (pfc.NODE, 0)],
    "PFC_PAUSE": [(pfc.PFC_PAUSE, BODY)],
    "PFC_REPORT": [(pfc.PFC_REPORT, BODY), (pfc.PFC_CLASS, 0)],
}
"""What each message's section shows: its layouts, and the offset at which each begins (0: an entry)."""


def fields(layout: Layout, start: int) -> list[tuple[str, int, str]]:
    """(offset as the document writes it, bytes, name) of each field."""
    rows = []
    at = start
    for name, code in zip(layout.names, layout.codes, strict=True):
        size = {"B": 1, "H": 2, "I": 4, "Q": 8}[code]
        rows.append((str(at) if start else f"+{at}", size, name))
        at += size
    return rows


def diagram(layout: Layout, start: int) -> str:
    """The layout as boxes, four fields to a line, under the offset of each."""
    lines = []
    cells = [(offset, f" {name} {size} ") for offset, size, name in fields(layout, start)]
    for first in range(0, len(cells), 4):
        row = cells[first : first + 4]
        bar = "  +" + "+".join("-" * len(text) for _, text in row) + "+"
        offsets = "  " + "".join(offset.ljust(len(text) + 1) for offset, text in row).rstrip()
        lines += [offsets, bar, "  |" + "|".join(text for _, text in row) + "|", bar]
    return "\n".join(lines)


def documented_fields(text: str) -> list[tuple[str, int, str]]:
    rows = re.findall(r"^\| (\+?\d+) \| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    return [(offset, int(size), name) for offset, size, name in rows]


def table_rows(text: str) -> dict[str, list[str]]:
    """Rows by their first cell."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("kind", m.Kind)
class TestMessages:
    """Each message's section."""

    def test_a_sections_heading_has_the_messages_name_and_number(self, kind: m.Kind) -> None:
        assert f"\n### {kind.name} ({kind.value})\n" in DOCUMENT

    def test_its_tables_have_the_offsets_and_sizes_of_the_code(self, kind: m.Kind) -> None:
        expected = [row for layout, start in LAYOUTS[kind.name] for row in fields(layout, start)]
        assert documented_fields(SECTIONS[kind.name]) == expected

    def test_its_diagrams_are_drawn_from_the_code(self, kind: m.Kind) -> None:
        for layout, start in LAYOUTS[kind.name]:
            assert f"```\n{diagram(layout, start)}\n```" in SECTIONS[kind.name]


def test_the_header_is_as_documented() -> None:
    assert documented_fields(FRAME) == fields(HEADER, ETHERNET_BYTES)
    assert f"```\n{diagram(HEADER, ETHERNET_BYTES)}\n```" in FRAME


def test_the_numbers_in_the_text_are_those_of_the_code() -> None:
    assert (BODY, TAG_BYTES, FRAME_MIN) == (38, 16, 60)
    assert f"| `magic` | 0x{MAGIC:04X};" in FRAME
    assert f"| `version` | {SPOKEN} |" in FRAME
    assert f"# Baton's control protocol, versions {SPOKEN}\n" in DOCUMENT
    assert f"of the body, at most {BODY_MAX} |" in FRAME
    assert f"EtherType 0x{m.ETHERTYPE:04X}" in DOCUMENT
    assert f"`{m.HEARTBEAT_MAC.hex(':')}`" in FRAME
    assert f"at most {m.MAX_GRANTS}." in SECTIONS["DIRECTIVE"]
    assert f"{priorities.ROWS_MAX} fit in a report" in SECTIONS["SIZE_REPORT"]
    assert f"from 1 to {priorities.BANDS_MAX}" in SECTIONS["THRESHOLDS"]
    assert f"at most {pfc.PARTNERS_MAX}" in SECTIONS["PFC_SETTINGS"]
    assert f"at most {pfc.NODES_MAX}" in SECTIONS["PFC_SETTINGS"]
    assert f"bins 0 to {BINS - 1}" in SECTIONS["SIZE_REPORT"]
    assert f"{(BODY_MAX - m.BACKLOG.size) // m.BACKLOG_ENTRY.size} fit in a page" in SECTIONS["BACKLOG"]


def test_every_cause_is_listed_with_its_number() -> None:
    rows = table_rows(FRAME)
    listed = {name: rows[name][0] for name in rows if name.isupper()}
    assert listed == {cause.name: str(cause.value) for cause in m.Cause}


def test_every_error_code_is_listed_with_its_number() -> None:
    for code in m.ErrorCode:
        assert f"{code.value} {code.name}:" in SECTIONS["ERROR"]


def test_the_agents_states_change_as_the_table_says() -> None:
    life = DOCUMENT[DOCUMENT.index("\n## An agent's life") : DOCUMENT.index("\n## Messages")]
    rows = table_rows(life)
    events = [Event[name.upper().replace(" ", "_")] for name in rows["state"]]
    assert set(events) == set(Event)
    for state in State:
        for event, documented in zip(events, rows[state.name], strict=True):
            lifecycle = Lifecycle()
            lifecycle.state = state
            try:
                lifecycle.on(event)
                after = lifecycle.state.name
            except InvalidTransition:
                after = "-"
            assert after == documented, f"{state.name} on {event.name}"
