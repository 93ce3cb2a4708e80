"""The web server among hostile clients: the page still comes for an operator, and soon."""

from __future__ import annotations

import json

from bench.dashboard import hostile
from tests import needs

pytestmark = needs.REDIS


def test_among_2000_hostile_connections_the_page_loads_for_an_operator() -> None:
    found = hostile.run(2_000)
    print(json.dumps(found))
    # Within half a second, on a machine that has nothing else to do.
    assert found["load_ms"]["p50"] < 2_000 and found["same_address_ms"]["p50"] < 2_000
    # The server has the lowest priority, so one load may be late on a busy machine. None fails.
    assert max(found["load_ms"]["max"], found["same_address_ms"]["max"], found["login_ms"], found["stream_ms"]) < 5_000
    assert found["resident_mb"] < 400
