"""What others on the machine can read: arguments, the run directory, files."""

from __future__ import annotations

import dataclasses
import os
import pwd
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.config.reading import load
from controller.config.schema import Config, UsersSection
from controller.config.web import WebSection
from controller.coordinator import process
from controller.processes.private_file import private
from controller.processes.services import Service
from controller.store import private_redis
from controller.supervision import preflight, runstate, users
from controller.supervision.changes import coordinator_restarts
from controller.supervision.children import Children
from controller.supervision.copies import Copies
from controller.supervision.runstate import RunState
from controller.supervision.supervisor import Supervisor
from controller.supervision.users import Users
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

    def test_a_name_of_the_dashboard_that_looks_like_an_option_is_a_name(self, tmp_path: Path) -> None:
        web = WebSection.model_validate({"names": ["--login-to-read"]})
        command = Children(run_dir=tmp_path, store_url=STORE, name="c1", standby=False).web(web).command
        assert "--name=--login-to-read" in command and "--login-to-read" not in command

    def test_no_helper_of_the_coordinator_does_and_all_find_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[tuple[list[str], dict[str, str]]] = []

        class Started(Exception):
            pass

        def popen(command: list[str], *, env: dict[str, str], **_: Any) -> SimpleNamespace:  # noqa: ANN401 -- Popen's
            started.append((command, env))
            if len(started) == 2:
                raise Started
            return SimpleNamespace(terminate=lambda: None, wait=lambda: None)

        settings = SimpleNamespace(report_ns=50_000_000, store=STORE, name="c1", lease_ns=1, realtime_priority=None, replicas=0)
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
        assert preflight.claim_run_dir(tmp_path / "run").made
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


class TestRunDirectories:
    """A run directory that was there before is closed, or refused; never a directory that is not for Baton alone."""

    def test_one_of_ours_is_closed(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir(mode=0o755)
        assert not preflight.claim_run_dir(tmp_path / "run").made
        assert mode(tmp_path / "run") == 0o700

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
    def test_one_that_was_there_is_at_the_end_as_it_was(self, tmp_path: Path) -> None:
        directory = tmp_path / "run"
        directory.mkdir()
        directory.chmod(0o750)
        os.chown(directory, -1, 1234)
        claim = preflight.claim_run_dir(directory)
        assert claim == (False, (0o750, 1234)) and mode(directory) == 0o700
        state = RunState(supervisor=preflight.own_identity(), config="", store="", run_dir_before=claim.before)
        runstate.save(directory, state)
        runstate.remove(directory, runstate.load(directory), keep_logs=False)
        assert mode(directory) == 0o750 and directory.stat().st_gid == 1234

    def test_one_that_cannot_be_reached_is_left_as_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory = tmp_path / "run"
        directory.mkdir()
        directory.chmod(0o750)
        monkeypatch.setattr(Users, "barrier", lambda *_: tmp_path)
        with pytest.raises(preflight.CannotStart, match="can't be entered"):
            preflight.claim_run_dir(directory, Users(group=os.getegid(), uids=dict.fromkeys(users.NAMES, 1234)))
        assert mode(directory) == 0o750

    def test_one_of_a_start_that_failed_is_removed_at_the_end_as_if_new(self, tmp_path: Path) -> None:
        assert preflight.claim_run_dir(tmp_path / "run").made
        (tmp_path / "run" / "supervisor.log").write_text("could not start\n")
        assert preflight.claim_run_dir(tmp_path / "run").made
        (tmp_path / "run" / "of an operator").write_text("")
        assert not preflight.claim_run_dir(tmp_path / "run").made

    def test_one_of_a_start_that_failed_is_gone_unless_a_log_says_something(self, tmp_path: Path) -> None:
        directory = tmp_path / "run"
        for text, left in (("", []), ("could not start\n", ["supervisor.log"])):
            claim = preflight.claim_run_dir(directory)
            (directory / "supervisor.log").write_text(text)
            (directory / "redis.log").write_text("")
            state = RunState(supervisor=preflight.own_identity(), config="", store="", made_run_dir=claim.made, logs=["redis"])
            runstate.remove(directory, state, keep_logs=True)
            assert [path.name for path in tmp_path.glob("run/*")] == left and directory.exists() == bool(left)
        (directory / "redis.log").write_text("")
        runstate.remove(directory, dataclasses.replace(state, ready=True), keep_logs=True)
        assert {path.name for path in directory.iterdir()} == {"supervisor.log", "redis.log"}

    def test_one_with_files_of_others_keeps_its_mode_and_one_of_baton_s_names_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir(mode=0o755)
        (tmp_path / "run" / "agent-1-eth0.json").write_text("")
        (tmp_path / "run" / "notes").write_text("")
        preflight.claim_run_dir(tmp_path / "run")
        assert mode(tmp_path / "run") == 0o755
        (tmp_path / "run" / "notes").unlink()
        preflight.claim_run_dir(tmp_path / "run")
        assert mode(tmp_path / "run") == 0o700
        (tmp_path / "run" / "config.json").write_text("an operator's")
        with pytest.raises(preflight.CannotStart, match=r"run/config.json is not Baton's"):
            preflight.claim_run_dir(tmp_path / "run")
        assert (tmp_path / "run" / "config.json").read_text()

    def test_a_remedy_names_the_directory_unless_it_is_the_usual_one(self) -> None:
        assert runstate.command("down", runstate.DEFAULT_RUN_DIR) == "baton down"
        assert runstate.command("down", Path("/run/two")) == "baton down --run-dir /run/two"

    def test_a_file_in_place_of_a_run_directory_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("")
        with pytest.raises(preflight.CannotStart, match=r"run_dir: .*run can't be made"):
            preflight.claim_run_dir(tmp_path / "run")

    def test_one_into_which_others_may_write_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run").chmod(0o1777)
        with pytest.raises(preflight.CannotStart, match="may be written by others; name a directory for Baton alone"):
            preflight.claim_run_dir(tmp_path / "run")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
    def test_one_of_another_user_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        os.chown(tmp_path / "run", 1234, -1)
        with pytest.raises(preflight.CannotStart, match="belongs to uid 1234"):
            preflight.claim_run_dir(tmp_path / "run")

    def test_one_with_directories_of_others_keeps_its_mode_and_one_of_baton_s_names_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run" / "lock").mkdir(parents=True)
        (tmp_path / "run").chmod(0o755)
        preflight.claim_run_dir(tmp_path / "run")
        assert mode(tmp_path / "run") == 0o755
        (tmp_path / "run" / "keys").mkdir()
        with pytest.raises(preflight.CannotStart, match="run/keys is not Baton's"):
            preflight.claim_run_dir(tmp_path / "run")


class TestUsers:
    """Which users the processes get."""

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users' processes")
    def test_never_root_whatever_exists(self) -> None:
        found = users.resolve(UsersSection.model_validate({}))
        assert found is not None and 0 not in found.uids.values() and len(set(found.uids.values())) == 4
        assert found.missing or all(pwd.getpwuid(uid).pw_name.startswith("baton-") for uid in found.uids.values())

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users' processes")
    @pytest.mark.parametrize(("section", "says"), [
        ({"web": "no-such-user"}, "users.web: there is no user no-such-user"),
        ({"web": "root"}, "none of them root"),
        ({"group": "no-such-group"}, "users.group: there is no group no-such-group"),
    ])  # fmt: skip
    def test_others_than_the_defaults_must_exist_and_differ(self, section: dict[str, str], says: str) -> None:
        with pytest.raises(users.NoUsers, match=says):
            users.resolve(UsersSection.model_validate(section))

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users' processes")
    def test_two_names_of_one_user_are_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        daemon = pwd.getpwnam("daemon")
        monkeypatch.setattr(pwd, "getpwnam", lambda name: daemon)
        with pytest.raises(users.NoUsers, match="must be four users"):
            users.resolve(UsersSection.model_validate({}))

    def test_a_directory_that_a_user_cannot_enter_is_named(self, tmp_path: Path) -> None:
        found = Users(group=98_100, uids=dict.fromkeys(users.NAMES, 98_101))
        (tmp_path / "closed").mkdir(mode=0o700)
        tmp_path.chmod(0o755)
        barrier = found.barrier("web", tmp_path / "closed" / "file")
        assert barrier is not None and barrier in (tmp_path / "closed", *tmp_path.parents)

    def test_ports_of_root_are_refused(self) -> None:
        found = Users(group=98_100, uids=dict.fromkeys(users.NAMES, 98_101))
        users.check_ports(None, [("web.listen", 1)])
        with pytest.raises(users.NoUsers, match=r"web\.listen: 0 is for root alone"):
            users.check_ports(found, [("web.listen", 0)]) if first_port() else pytest.skip("every port is everybody's here")


def first_port() -> int:
    return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())


class TestCopies:
    """Copies of root's files, for the one user who needs each."""

    def made(self, tmp_path: Path) -> tuple[Copies, Path, Path]:
        key, keys = tmp_path / "key", tmp_path / "run" / "keys"
        keys.mkdir(parents=True)
        Key.generate(key)
        copies = Copies(tmp_path / "run")
        for source in (key, tmp_path / "key.new"):
            copies.want(source, keys / source.name, owner=os.geteuid())
        assert copies.refresh() == []
        return copies, key, keys

    def test_a_change_is_copied_and_what_is_gone_is_removed(self, tmp_path: Path) -> None:
        copies, key, keys = self.made(tmp_path)
        assert (keys / "key").read_text() == key.read_text() and mode(keys / "key") == 0o600
        Key.generate(tmp_path / "key.new")
        copies.refresh()
        assert (keys / "key.new").read_text() == (tmp_path / "key.new").read_text()
        (tmp_path / "key.new").unlink()
        copies.refresh()
        assert not (keys / "key.new").exists()

    def test_a_file_open_to_others_is_not_copied_and_the_copy_goes(self, tmp_path: Path) -> None:
        copies, key, keys = self.made(tmp_path)
        key.chmod(0o644)
        assert copies.refresh() == [f"{key}: mode 0644 is open to others; chmod 600 it"]
        assert not (keys / "key").exists() and copies.refresh() == []

    def test_what_the_coordinator_ends_with_is_done_to_the_operators_files(self, tmp_path: Path) -> None:
        copies, key, keys = self.made(tmp_path)
        fresh = Key.generate(tmp_path / "key.new")
        copies.refresh()
        assert copies.take_back(key) == ""
        (keys / "key.new").replace(keys / "key")
        assert "holds the new key" in copies.take_back(key)
        assert Key.load(key).secret == fresh.secret and not (tmp_path / "key.new").exists()
        assert copies.refresh() == [] and copies.take_back(key) == ""

    def test_a_new_key_that_is_given_up_is_removed_and_no_more(self, tmp_path: Path) -> None:
        copies, key, keys = self.made(tmp_path)
        before = key.read_text()
        Key.generate(tmp_path / "key.new")
        copies.refresh()
        (keys / "key.new").unlink()
        assert "was given up" in copies.take_back(key)
        assert key.read_text() == before and not (tmp_path / "key.new").exists()

    def test_a_coordinator_that_writes_a_key_of_its_own_changes_nothing(self, tmp_path: Path) -> None:
        copies, key, keys = self.made(tmp_path)
        before = key.read_text()
        new = Key.generate(tmp_path / "key.new").secret
        copies.refresh()
        (keys / "key.new").unlink()
        (keys / "key").write_text("00" * 32)
        assert copies.take_back(key) == ""
        assert key.read_text() == before and Key.load(tmp_path / "key.new").secret == new


class TestReload:
    """A copy has the same name wherever its original is: another original is a change all the same."""

    @pytest.mark.parametrize("field", ["key_file", "shared_key_file"])
    def test_another_key_of_the_same_name_restarts_the_coordinator(self, tmp_path: Path, field: str) -> None:
        def config(directory: str) -> str:
            files = {"key_file": "/a/key", "shared_key_file": "/a/old"} | {field: f"{directory}/{field}"}
            named = ", ".join(f"{name}: {file}" for name, file in files.items())
            return f"run_dir: {tmp_path}/run\ncoordinator: {{interface: eth0, attachment: 's1:1', {named}}}\n"

        path = tmp_path / "baton.yaml"
        path.write_text(config("/a"))
        supervisor = Supervisor(path)
        before = supervisor.config
        path.write_text(config("/b"))
        supervisor.config = load(path)
        old, new = (supervisor._children.settings(each)[0] for each in (before, supervisor.config))
        assert coordinator_restarts(before, supervisor.config, old, new)
        assert not coordinator_restarts(supervisor.config, supervisor.config, new, new)
        supervisor.close()
