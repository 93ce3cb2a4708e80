"""The web server under `baton up`: it starts last, is restarted, moves on a reload, and never keeps the rest from starting."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.store.store import Store
from controller.supervision import runstate
from tests import needs
from tests.emulation.operating import baton, free_port, http_status, wait_for

pytestmark = needs.REDIS
TREE = "/v1.0/tree"


class Site:
    """A configuration without switches and coordinator, so that it starts at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run_dir = directory / "run"

    def write(self, **web: object) -> None:
        content = {
            "run_dir": str(self.run_dir),
            "fabric": {"switches": [{"name": "s1"}]},
            "sources": ["bridge:none"],
            "web": web or "none",
        }
        fresh = self.directory / "baton.new"
        fresh.write_text(json.dumps(content))
        fresh.replace(self.directory / "baton.yaml")

    def web(self, port: int, **more: object) -> None:
        self.write(listen=f"127.0.0.1:{port}", users=str(self.directory / "users.json"), **more)

    def up(self) -> None:
        answer = baton("up", "--config", str(self.directory / "baton.yaml"))
        assert answer.returncode == 0, answer.stderr

    @property
    def services(self) -> dict[str, object]:
        return dict(runstate.load(self.run_dir).services)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    baton("down", "--run-dir", str(made.run_dir))


def test_up_serves_a_killed_server_comes_back_and_a_reload_moves_it(site: Site) -> None:
    first, second = free_port(), free_port()
    site.web(first)
    site.up()
    wait_for(lambda: http_status(first, TREE) == 200)
    identity = runstate.load(site.run_dir).services["web"]
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    wait_for(lambda: (runstate.load(site.run_dir).services["web"] or identity).pid != identity.pid)
    wait_for(lambda: http_status(first, TREE) == 200)
    site.web(second)
    wait_for(lambda: http_status(second, TREE) == 200 and http_status(first, TREE) == 0)
    site.write()
    wait_for(lambda: "web" not in site.services and http_status(second, TREE) == 0)


def test_a_port_in_use_is_told_and_the_rest_is_up(site: Site) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        site.web(port)
        site.up()
        assert "web" not in site.services and "redis" in site.services
        time.sleep(2)
        events = Store(runstate.load(site.run_dir).store).events()
    assert len([event for event in events if event["kind"] == "web" and "no dashboard" in event["text"]]) == 1
    wait_for(lambda: http_status(port, TREE) == 200)


def test_a_certificate_that_is_not_there_is_told_by_its_name_at_the_start_and_at_a_reload(site: Site) -> None:
    port, missing = free_port(), site.directory / "missing.pem"
    (site.directory / "key.pem").touch(0o600)
    words = {"cert": str(missing), "key": str(site.directory / "key.pem")}
    site.web(port, **words)
    answer = baton("up", "--config", str(site.directory / "baton.yaml"))
    told = f"web.cert: {missing} can't be read (No such file or directory); name a PEM file"
    assert answer.returncode == 1 and told in answer.stderr.replace("\n", " ")
    site.web(port)
    site.up()
    wait_for(lambda: http_status(port, TREE) == 200)
    site.web(port, **words)
    wait_for(lambda: told in runstate.load(site.run_dir).config_error)
    assert http_status(port, TREE) == 200


def test_an_address_that_others_reach_needs_tls(site: Site) -> None:
    site.write(listen="0.0.0.0:8080")
    answer = baton("check", str(site.directory / "baton.yaml"))
    assert answer.returncode == 1 and "web" in answer.stdout + answer.stderr and "TLS" in answer.stdout + answer.stderr
