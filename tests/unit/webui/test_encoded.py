"""Documents as JSON, also when a host reports as much as its messages can say."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from protocol.units import COUNT_MAX
from tests.unit.webui.test_web_groups import ROWS, picture, snapshot
from webui.state import ledger
from webui.state.encoded import encoded
from webui.state.ledger import Ledger
from webui.state.subscription import message


class Row(NamedTuple):
    """A row."""

    name: str
    size: int


@pytest.mark.parametrize("size", [1, 2**64 - 1, 2**64, 3 * COUNT_MAX])
def test_a_document_is_written_whatever_its_sums_are(size: int) -> None:
    told = encoded({"rows": [Row("h1", size), (1, None)], 16: True})
    assert told == f'{{"rows":[["h1",{size}],[1,null]],"16":true}}'.encode()


def test_the_state_of_a_large_fabric_is_told_though_hosts_report_the_largest_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "HOSTS", 3)
    of, book = picture(ROWS), Ledger()
    assert book.update(of, snapshot(of, rate=COUNT_MAX))
    state = book.state(alive=True, time_ms=1)
    told = json.loads(message("state", state).partition(b"data: ")[2])
    assert told["totals"]["rate_bps"] == len(ROWS.hosts) * COUNT_MAX > 2**64
