"""The details of what an operator selected."""

from __future__ import annotations

import pytest

from tests.unit.webui.page.node import found_by, script


@pytest.mark.parametrize(("status", "shown"), [(404, ["The fabric has no h9 any more."]), (503, [])])
def test_of_a_host_that_a_large_fabric_has_no_more_nothing_old_is_shown(status: int, shown: list[str]) -> None:
    """Its loads stayed on show as if it were still there. A server that cannot answer just now is asked again."""
    told = found_by(f"""const h = (name, attributes, ...inner) => inner.at(-1); {script("fabric/details.js")}
        const told = [], write = (parts) => told.push(parts.at(-1));
        const details = Object.assign(Object.create(Details.prototype), {{ id: "h9", write }});
        globalThis.fetch = async () => ({{ ok: false, status: {status} }});
        details.fetch("h9").then(() => answer(told));""")
    assert told == shown
