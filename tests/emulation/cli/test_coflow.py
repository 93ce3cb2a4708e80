"""`baton coflow` at a real store."""

from __future__ import annotations

import pytest

from controller.coflows.client import CoflowClient
from controller.store.store import Store
from tests import needs
from tests.emulation.cli.conftest import Run

pytestmark = needs.REDIS


def test_no_open_coflow_is_told(run: Run) -> None:
    assert run("coflow", "list") == (0, "no coflow is open\n")


@pytest.mark.parametrize("flow", ["h1:h9:5MB", "h9:h2:5MB"])
def test_a_host_that_there_is_not_is_refused(run: Run, store: Store, flow: str) -> None:
    code, text = run("coflow", "open", "--flow", "h1:h2:1MB", "--flow", flow)
    assert code == 2 and f"--flow {flow}: no host is called h9; hosts are h1, h2" in text
    assert store.coflows() == {}


def test_a_host_of_the_fabric_needs_no_agent(run: Run, store: Store) -> None:
    store.publish_fabric({"fabric": {"hosts": [{"name": "h9"}]}})
    assert run("coflow", "open", "--flow", "h1:h9:1MB")[0] == 0


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31mred", "x" * 256])
def test_a_name_is_a_line_of_text(run: Run, store: Store, name: str) -> None:
    code, text = run("coflow", "open", "--name", name)
    assert code == 2 and "name: " in text and store.coflows() == {}


def test_of_flows_that_are_added_all_count_or_none(run: Run, store: Store) -> None:
    opened = CoflowClient(store).open(flows=[("h1", "h2", 5)])
    code, text = run("coflow", "add", str(opened.id), "h2:h1:7", "h1:h1:1")
    assert code == 2 and "is the source, too" in text
    assert store.coflows()[opened.id]["flows"] == [["h1", "h2", 5]]
    assert run("coflow", "add", str(opened.id), "h2:h1:7", "h1:h2:1")[1] == (
        f"coflow {opened.id} has 13 bytes between 2 pairs of hosts\n"
    )
    assert run("coflow", "close", str(opened.id)) == (0, f"coflow {opened.id} is closed\n")
    code, text = run("coflow", "add", str(opened.id), "h2:h1:7")
    assert code == 1 and "is not open" in text and store.coflows() == {}
