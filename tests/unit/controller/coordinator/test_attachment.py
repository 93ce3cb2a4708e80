"""What operators are told of a coordinator's attachment that the fabric does not have."""

from __future__ import annotations

from typing import Any

from controller.coordinator.attachment import Attachment
from controller.openflow.tables.forwarding import ControlAttachment
from controller.openflow.view import Port, Switch, View

VIEW = View({1: Switch(1, "s1", {n: Port(n, name, True) for n, name in enumerate(("c1", "p1"), 1)})}, (), frozenset(), {})


def test_a_port_that_the_switch_lacks_is_named_with_those_that_it_has() -> None:
    def fault(text: str) -> str:
        return ControlAttachment.parse(text).fault(VIEW)

    assert fault("s1:c9") == fault("1:c9") == "coordinator.attachment: s1 has no port c9; it has c1, p1"
    assert fault("s1:c1") == fault("s1:2") == fault("s2:c9") == "", "s2 may come yet"


def test_it_is_a_warning_as_long_as_it_lasts_and_an_event_once() -> None:
    written: list[dict[str, Any]] = []
    part = Attachment(written.append)
    for _ in range(2):
        part.documents["fabric"]({"fabric": {}, "attachment": "s1 has no port"}, 0)
        assert part.warnings() == ["s1 has no port"]
    part.documents["fabric"]({"fabric": {}}, 0)
    assert part.warnings() == [] and written == [{"event": ["attachment", "error", "s1 has no port"]}]
