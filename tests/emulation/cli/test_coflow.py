"""`baton coflow` at a real store."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cli.main import main
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


def test_hosts_whose_names_cannot_be_written_are_not_offered(run: Run, store: Store) -> None:
    """A fabric may know a host by its switch's port alone."""
    store.publish_fabric({"fabric": {"hosts": [{"name": "t1:h9-p"}]}})
    assert run("coflow", "open", "--flow", "h1:h8:1MB")[1].rstrip().endswith("no host is called h8; hosts are h1, h2")


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--size", "0B"), "--size (bytes): 0 must be a whole number of bytes, above 0"),
        (("--size", "5MB", "--flow", "h1:h2:1MB"), "--size (bytes): the flows say it already"),
        (("--deadline", "9s"), "--deadline (ms) is 9000"),
        (("--name", "a\nb"), "--name: "),
        (("--flow", "h1:h2:1MB", "--flow", "h1:h1:1MB"), "--flow h1:h1:1MB: 'h1' is the source, too"),
        (("--flow", "h1:h2:0B"), "--flow h1:h2:0B: 0 must be a whole number"),
        (("--flow", ":h2:1MB"), "--flow :h2:1MB: '' is no host"),
    ],
)
def test_an_error_names_the_option(run: Run, store: Store, words: tuple[str, ...], says: str) -> None:
    code, text = run("coflow", "open", *words)
    assert code == 2 and says in text and store.coflows() == {}


def test_an_error_of_add_and_of_run_names_the_argument(run: Run, store: Store) -> None:
    client = CoflowClient(store, wait_s=0)
    number = str(client.open(flows=[("h1", "h2", 5)]).id)
    for flow in ("h1:h9:5MB", "h1:h1:1MB", "h1:h2"):
        code, text = run("coflow", "add", number, flow)
        assert code == 2 and f"Error: {flow}: " in text
    late = str(client.open(deadline_ms=100, flows=[("h1", "h2", 5)]).id)
    assert f"Error: coflow {late} has a deadline" in run("coflow", "add", late, "h1:h2:5MB")[1]
    done = CliRunner().invoke(main, ["coflow", "run", "--size", "0B", "--store", store.url, number, "--", "true"])
    assert done.exit_code == 2 and "--size (bytes) must be above 0" in done.output
