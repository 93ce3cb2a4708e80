"""What others on the machine can read: arguments, the run directory, files."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.config.schema import Config
from controller.coordinator import process
from controller.processes.private_file import private
from controller.processes.services import Service
from controller.store import private_redis
from controller.supervision import preflight, runstate
from controller.supervision.children import Children
from protocol.key import Key, KeyFileError, open_to_others

STORE = "redis://:hunter2hunter2@10.0.0.9:6379/0"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestArguments:
    """Every user of a machine can read the arguments of its processes."""

    def test_no_child_of_the_supervisor_gets_the_store_as_an_argument(self, tmp_path: Path) -> None:
        coordinator = {"interface": "eth0", "attachment": "s1:1", "key_file": "/etc/baton/key"}
        config = Config.model_validate({"coordinator": coordinator, "web": {}, "store": STORE})
        children = Children(run_dir=tmp_path, store_url=STORE, name="c1", standby=False)
        assert config.web is not None
        environment = children.environment(config, "02:00:00:00:00:01")
        services = (
            children.openflow(config, environment),
            children.tree(environment),
            children.queues(environment),
            children.coordinator(config),
            children.web(config.web),
        )
        assert not [word for service in services for word in service.command if "hunter2" in word]

    def test_no_helper_of_the_coordinator_does_and_all_find_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[tuple[list[str], dict[str, str]]] = []

        class Started(Exception):
            pass

        def popen(command: list[str], *, env: dict[str, str], **_: Any) -> SimpleNamespace:  # noqa: ANN401 -- Popen's
            started.append((command, env))
            if len(started) == 2:
                raise Started
            return SimpleNamespace(terminate=lambda: None, wait=lambda: None)

        settings = SimpleNamespace(report_ns=50_000_000, store=STORE, name="c1", lease_ns=1, realtime_priority=None)
        monkeypatch.setattr(process.CoordinatorSettings, "from_json", staticmethod(lambda _: settings))
        monkeypatch.setattr(subprocess, "Popen", popen)
        file = tmp_path / "config.json"
        file.write_text("{}")
        with pytest.raises(Started):
            process.main(["--config", str(file)])
        assert len(started) == 2 and all(env["BATON_REDIS"] == STORE for _, env in started)
        assert not [word for command, _ in started for word in command if "hunter2" in word]


class TestFiles:
    """Nobody but the owner reads what Baton writes."""

    def test_the_run_directory_is_made_for_its_owner(self, tmp_path: Path) -> None:
        assert preflight.claim_run_dir(tmp_path / "run")
        assert mode(tmp_path / "run") == 0o700

    def test_settings_state_logs_and_the_stores_configuration_are_for_their_owner(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
        old = tmp_path / "web.log"
        old.write_text("from an earlier version\n")
        old.chmod(0o644)
        before = os.umask(0)
        try:
            runstate.write_whole(tmp_path / "up.json", "{}")
            private_redis.configure(tmp_path)
            service = Service("web", ["touch", str(tmp_path / "by-a-child")], {}, old)
            service.start()
            assert service.process is not None
            service.process.wait(10)
            service.stop()
        finally:
            os.umask(before)
        assert {path.name: mode(path) for path in tmp_path.iterdir()} == dict.fromkeys(
            ("up.json", "redis.conf", "web.log", "by-a-child"), 0o600
        )
        assert old.read_text().startswith("from an earlier version\n")

    def test_a_link_in_the_place_of_a_file_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError):
            private(tmp_path / "log", os.O_APPEND)
        assert not (tmp_path / "elsewhere").exists()


class TestSecrets:
    """A secret's file belongs to root or to who uses it."""

    @pytest.mark.parametrize(("owner", "mode", "says"), [
        (0, 0o600, ""),
        (1000, 0o600, ""),
        (0, 0o400, ""),
        (1001, 0o600, "is owned by uid 1001; chown it to root, or to the user of this process (uid 1000)"),
        (1000, 0o640, "mode 0640 is open to others; chmod 600 it"),
    ])  # fmt: skip
    def test_whose_file_may_hold_a_secret(self, owner: int, mode: int, says: str) -> None:
        status = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, 0, 10, 0, 0, 0))
        assert open_to_others(status, user=1000) == says

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
    def test_a_key_file_of_another_user_is_refused_by_its_name_with_the_remedy(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        Key.generate(path)
        os.chown(path, 1234, -1)
        with pytest.raises(KeyFileError, match=f"key file {path}: is owned by uid 1234; chown it to root"):
            Key.load(path)
