"""`baton up` with real processes: start, kill -9, reload, and `baton down` that ends what it started and
nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.processes.identity import Identity, end, identify
from controller.processes.pulse import LOOK_NS, STILL_NS
from controller.processes.services import Service, Services
from controller.store.store import Store, StoreUnavailable
from controller.supervision import runstate
from controller.supervision.children import COORDINATOR, OPENFLOW
from protocol.auth import Key
from protocol.units import SECOND_NS
from tests import needs
from tests.emulation.operating import baton, free_port, listening, wait_for

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"), needs.REDIS]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that Baton must not end."""
    process = subprocess.Popen(["sleep", "120"])
    yield process
    process.kill()
    process.wait()


class Site:
    """A configuration file, its run directory, and the commands on them."""

    def __init__(self, directory: Path, text: str = "") -> None:
        self.run_dir = directory / "run"
        self.config = directory / "baton.yaml"
        self.port = free_port()
        self.write(text)

    def write(self, text: str) -> None:
        whole = f"run_dir: {self.run_dir}\nweb: none\nopenflow: {{listen: '127.0.0.1:{self.port}'}}\n{text}"
        replacement = self.config.with_suffix(".new")
        replacement.write_text(whole)
        replacement.replace(self.config)

    def up(self) -> subprocess.CompletedProcess[str]:
        return baton("up", "--config", str(self.config))

    def down(self, *words: str) -> subprocess.CompletedProcess[str]:
        return baton("down", "--run-dir", str(self.run_dir), *words)

    @property
    def state(self) -> runstate.RunState:
        return runstate.load(self.run_dir)

    @property
    def store(self) -> Store:
        return Store(self.state.store)

    def pid(self, name: str) -> int:
        identity = self.state.services[name]
        return identity.pid if identity else 0

    def heard(self, kind: str, words: str) -> bool:
        try:
            events = self.store.events()
        except StoreUnavailable:
            return False
        return any(event["kind"] == kind and words in event["text"] for event in events)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Up, without a coordinator."""
    made = Site(tmp_path)
    try:
        answer = made.up()
        assert answer.returncode == 0, answer.stderr
        yield made
    finally:
        made.down()


@pytest.fixture
def coordinated(tmp_path: Path) -> Iterator[Site]:
    """Up, with a coordinator in a network namespace of its own."""
    netns = f"baton-{uuid.uuid4().hex[:8]}"
    Key.generate(tmp_path / "key")
    where = f"interface: c0, attachment: 's1:s1-eth9', netns: {netns}"
    text = f"coordinator: {{{where}, key_file: {tmp_path}/key}}\n"
    made = Site(tmp_path, text)
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        for words in (
            ["link", "add", "c0", "type", "veth", "peer", "name", "c1"],
            ["link", "set", "c0", "up"],
            ["link", "set", "c1", "up"],
        ):
            subprocess.run(["ip", "-n", netns, *words], check=True)
        answer = made.up()
        assert answer.returncode == 0, answer.stderr
        yield made
    finally:
        made.down()
        subprocess.run(["ip", "netns", "del", netns], check=True)


class TestUpAndDown:
    """`up` returns when everything works; `down` leaves nothing of it, and everything else as it was."""

    def test_down_ends_what_up_started_and_removes_what_it_made(self, tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
        site = Site(tmp_path)
        assert site.up().returncode == 0
        identities = [site.state.supervisor, *site.state.services.values()]
        assert len(identities) == 4 and all(i is not None and identify(i.pid) == i for i in identities)
        answer = site.down()
        assert answer.returncode == 0 and "redis" in answer.stdout
        assert all(i is not None and identify(i.pid) is None for i in identities)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["baton.yaml"]
        assert sleeper.poll() is None

    def test_files_of_others_in_the_run_directory_stay(self, tmp_path: Path) -> None:
        site = Site(tmp_path)
        site.run_dir.mkdir()
        (site.run_dir / "mine").write_text("x")
        assert site.up().returncode == 0
        assert site.down("--keep-logs").returncode == 0
        left = {path.name for path in site.run_dir.iterdir()}
        assert left == {"mine", "redis.log", "openflow.log", "control.log", "supervisor.log"}

    def test_down_removes_the_logs_of_what_was_stopped_before_it_too(self, coordinated: Site) -> None:
        coordinated.write("")
        wait_for(lambda: coordinated.heard("config", "changed: coordinator"))
        assert (coordinated.run_dir / "coordinator.log").exists() and "coordinator" not in coordinated.state.services
        assert coordinated.down().returncode == 0
        assert not coordinated.run_dir.exists()

    def test_a_second_up_is_refused_and_the_first_goes_on(self, site: Site) -> None:
        answer = site.up()
        assert answer.returncode == 1 and "is in use by pid" in answer.stderr
        assert site.state.alive()

    def test_a_port_in_use_is_told_by_its_field_and_nothing_is_left_running(self, tmp_path: Path) -> None:
        site = Site(tmp_path)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", site.port))
            taken.listen()
            answer = site.up()
        assert answer.returncode == 1
        assert "openflow.listen" in answer.stderr and len(answer.stderr.splitlines()) == 1
        assert not site.run_dir.exists()

    @pytest.mark.parametrize(
        ("text", "field"),
        [
            ("coordinator: {interface: c0, attachment: 's:1', key_file: none}\n", "coordinator.key_file"),
            (
                "coordinator: {interface: no-such, attachment: 's:1', key_file: good}\n",
                "coordinator.interface",
            ),
            (
                "coordinator: {interface: lo, netns: no-such, attachment: 's:1', key_file: good}\n",
                "coordinator.netns",
            ),
            ("store: redis://127.0.0.1:1/0\n", "store redis://127.0.0.1:1/0"),
        ],
    )
    def test_what_is_missing_is_told_in_one_line(self, tmp_path: Path, text: str, field: str) -> None:
        Key.generate(tmp_path / "good")
        site = Site(tmp_path, text)
        answer = site.up()
        assert answer.returncode == 1
        assert field in answer.stderr and len(answer.stderr.splitlines()) == 1, answer.stderr

    def test_status_without_anything_up_says_what_to_do(self, tmp_path: Path) -> None:
        answer = baton("status", "--run-dir", str(tmp_path))
        assert answer.returncode == 1 and "baton up" in answer.stderr and "Traceback" not in answer.stderr


class TestRecordedPids:
    """A pid that another process has now is never signalled."""

    def test_a_process_that_only_has_the_same_pid_is_left_alone(self, sleeper: subprocess.Popen[bytes]) -> None:
        real = identify(sleeper.pid)
        assert real is not None
        assert not end(real._replace(start=real.start - 1), 0.1)
        assert not end(Identity(real.pid, real.start, "another boot"), 0.1)
        time.sleep(0.1)
        assert sleeper.poll() is None

    def test_down_leaves_strangers_with_recorded_pids_alone(self, tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
        real = identify(sleeper.pid)
        assert real is not None
        stranger = real._replace(start=real.start + 1)
        run_dir = tmp_path / "run"
        run_dir.mkdir()
        state = runstate.RunState(supervisor=stranger, config="", store="unix:///x", services={"redis": stranger})
        runstate.save(run_dir, state)
        assert baton("down", "--run-dir", str(run_dir)).returncode == 0
        time.sleep(0.1)
        assert sleeper.poll() is None


class TestRestart:
    """What ends is started again; at first at once, then with growing delays."""

    def test_a_killed_service_is_back_within_50_ms(self, tmp_path: Path) -> None:
        services = Services()
        waker, other = socket.socketpair()
        services.run(Service("s", ["sleep", "60"], {}, tmp_path / "s.log"))
        try:
            first = services["s"].process
            assert first is not None
            began = time.monotonic()
            first.kill()
            ended, _ = services.turn(5.0, waker)
            took_s = time.monotonic() - began
            second = services["s"].process
            assert [service.name for service in ended] == ["s"]
            assert second is not None and second.pid != first.pid and took_s < 0.05
            assert services["s"].last_exit == "killed by SIGKILL"
        finally:
            services.stop_all()
            waker.close()
            other.close()

    def test_one_that_is_killed_by_a_signal_without_a_name_is_started_again(self, tmp_path: Path) -> None:
        services = Services()
        services.run(Service("it", ["sleep", "60"], {}, tmp_path / "it.log"))
        process = services["it"].process
        assert process is not None
        os.kill(process.pid, signal.SIGRTMIN + 6)
        ended, _ = services.turn(10.0)
        try:
            assert [service.last_exit for service in ended] == [f"killed by signal {signal.SIGRTMIN + 6}"]
            wait_for(lambda: services.turn(0.1) and services["it"].running)
        finally:
            services.stop_all()

    def test_one_that_ends_again_and_again_is_started_less_and_less_often(self, tmp_path: Path) -> None:
        services = Services()
        waker, other = socket.socketpair()
        services.run(Service("s", ["false"], {}, tmp_path / "s.log"))
        try:
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                services.turn(0.05, waker)
            assert 3 <= services["s"].restarts <= 5
        finally:
            services.stop_all()
            waker.close()
            other.close()

    def test_a_killed_redis_is_back_and_its_end_is_among_the_events(self, site: Site) -> None:
        before = site.pid("redis")
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: site.pid("redis") not in (0, before))
        wait_for(lambda: site.heard("restart", "redis killed by SIGKILL"))

    def test_a_state_that_cannot_be_saved_ends_nothing_and_is_saved_when_it_can_be(self, site: Site) -> None:
        before, supervisor = site.pid("redis"), site.state.supervisor
        state = site.run_dir / runstate.STATE
        kept = state.rename(site.run_dir / "kept")
        state.mkdir()  # nothing can be put there now, as if the run directory were full
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: "can't be saved" in (site.run_dir / "supervisor.log").read_text())
        time.sleep(2)
        assert identify(supervisor.pid) == supervisor
        assert (site.run_dir / "supervisor.log").read_text().count("can't be saved") == 1
        state.rmdir()
        kept.rename(state)
        wait_for(lambda: site.pid("redis") not in (0, before))
        wait_for(lambda: site.heard("restart", "redis killed by SIGKILL"))

    def test_children_die_with_a_killed_supervisor_and_up_works_again(self, site: Site) -> None:
        left = [site.state.supervisor, *site.state.services.values()]
        os.kill(site.state.supervisor.pid, signal.SIGKILL)
        wait_for(lambda: all(identify(i.pid) is None for i in left if i))
        answer = baton("status", "--run-dir", str(site.run_dir))
        assert answer.returncode == 1 and "was killed" in answer.stderr
        assert site.up().returncode == 0

    def test_a_killed_coordinator_soon_leads_again_with_a_higher_epoch(self, coordinated: Site) -> None:
        store = coordinated.store
        status = store.status()
        assert status is not None
        before = coordinated.pid("coordinator")
        assert status["pid"] == before
        began = time.monotonic()
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: (store.status() or status)["pid"] != before)
        took_s = time.monotonic() - began
        after = store.status()
        assert after is not None and after["epoch"] > status["epoch"]
        assert took_s < 3.0


    @pytest.mark.parametrize("name", [COORDINATOR, OPENFLOW])
    def test_one_whose_loop_stands_still_is_killed_and_started_again(self, coordinated: Site, name: str) -> None:
        site, pid = coordinated, coordinated.pid(name)
        time.sleep(2.5)  # it beats
        os.kill(pid, signal.SIGSTOP)
        patience_s = (STILL_NS + 3 * LOOK_NS) / SECOND_NS
        wait_for(lambda: site.pid(name) not in (0, pid), patience_s)
        wait_for(lambda: site.heard("restart", f"{name} stood still for 20 s, and was killed"))

    def test_an_openflow_application_that_cannot_listen_ends_and_is_started_until_it_can(self, site: Site) -> None:
        state = site.state
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            os.kill(state.supervisor.pid, signal.SIGSTOP)
            os.kill(site.pid("openflow"), signal.SIGKILL)
            wait_for(lambda: not listening(site.port))
            taken.bind(("127.0.0.1", site.port))
            taken.listen()
            os.kill(state.supervisor.pid, signal.SIGCONT)
            wait_for(lambda: site.heard("restart", f"openflow.listen: 127.0.0.1:{site.port}: Address already in use"))
        wait_for(lambda: listening(site.port), 25)

    @pytest.mark.parametrize("kill", [True, False])
    def test_the_next_supervisor_s_leader_has_a_higher_epoch(self, coordinated: Site, kill: bool) -> None:
        before = coordinated.store.status()
        left = [coordinated.state.supervisor, *coordinated.state.services.values()]
        if kill:
            os.kill(coordinated.state.supervisor.pid, signal.SIGKILL)
            wait_for(lambda: all(identify(i.pid) is None for i in left if i))
        else:
            assert coordinated.down().returncode == 0
        assert coordinated.up().returncode == 0
        after = coordinated.store.status()
        assert before is not None and after is not None and after["epoch"] > before["epoch"]


class TestReload:
    """A changed file or SIGHUP is applied; a bad file is reported and changes nothing."""

    def test_a_bad_file_keeps_the_last_good_one_and_says_so(self, coordinated: Site) -> None:
        before, policy = coordinated.state, coordinated.store.policy()
        good = coordinated.config.read_text()
        coordinated.config.write_text(good + "opnflow: {}\n")
        wait_for(lambda: coordinated.heard("config", "did you mean openflow?"))
        assert "line 5" in coordinated.state.config_error
        assert (coordinated.store.policy(), coordinated.state.services) == (policy, before.services)
        shown = baton("status", "--run-dir", str(coordinated.run_dir))
        assert shown.returncode == 0 and "did you mean openflow?" in shown.stdout.replace("\n", " ")
        coordinated.config.write_text(good)
        wait_for(lambda: not coordinated.state.config_error)

    def test_an_interface_without_a_mac_address_is_refused_and_nothing_ends(self, coordinated: Site) -> None:
        good = coordinated.config.read_text()
        (netns,) = re.findall("netns: ([a-z0-9-]+)", good)
        subprocess.run(["ip", "-n", netns, "tuntap", "add", "dev", "tun7", "mode", "tun"], check=True)
        coordinated.config.write_text(good.replace("interface: c0", "interface: tun7"))
        wait_for(lambda: coordinated.heard("config", "coordinator.interface: tun7 has no MAC address"))
        assert coordinated.state.alive() and all(coordinated.pid(name) for name in ("redis", "openflow", "coordinator"))

    def test_a_port_for_switches_that_only_root_may_have_is_refused_and_nothing_ends(self, site: Site) -> None:
        before = site.state.services
        site.config.write_text(site.config.read_text().replace(f"127.0.0.1:{site.port}", "127.0.0.1:80"))
        wait_for(lambda: "openflow.listen: 80 is for root alone" in site.state.config_error)
        assert site.state.services == before and listening(site.port)

    def test_a_changed_slice_reaches_the_coordinator_without_a_restart(self, coordinated: Site) -> None:
        before = coordinated.state.services
        good = coordinated.config.read_text()
        coordinated.config.write_text(good.replace("interface: c0", "slice: 10ms, interface: c0"))
        wait_for(lambda: (coordinated.store.status() or {}).get("slice_ns") == 10_000_000)
        assert coordinated.state.services == before
        assert coordinated.heard("config", "coordinator.slice")

    def test_a_change_that_the_coordinator_cannot_take_over_restarts_only_it(self, coordinated: Site) -> None:
        before = coordinated.state.services
        good = coordinated.config.read_text()
        coordinated.config.write_text(good.replace("interface: c0", "heartbeat: 4ms, interface: c0"))
        wait_for(lambda: coordinated.heard("config", "restarted coordinator"))
        after = coordinated.state.services
        assert after["coordinator"] != before["coordinator"]
        assert (after["openflow"], after["redis"]) == (before["openflow"], before["redis"])

    def test_sighup_reads_the_file_again(self, site: Site) -> None:
        os.kill(site.state.supervisor.pid, signal.SIGHUP)
        wait_for(lambda: site.heard("config", "changed: nothing"))

    def test_sighup_has_an_edited_fabric_file_read_again_and_restarts_what_reads_the_fabric(self, site: Site) -> None:
        fabric = site.config.with_name("fabric.yaml")

        def write(hosts: int) -> None:
            names = [f"h{number}" for number in range(hosts)]
            links = [{"a": name, "b": "s1", "rate": "1G"} for name in names]
            whole = {"switches": [{"name": "s1"}], "hosts": [{"name": name} for name in names], "links": links}
            fabric.write_text(json.dumps(whole))

        write(3)
        site.write(f"fabric: {fabric}\n")
        wait_for(lambda: site.heard("config", "changed: fabric; restarted openflow"))
        before = site.state.services
        write(5)
        os.kill(site.state.supervisor.pid, signal.SIGHUP)
        wait_for(lambda: site.state.services["openflow"] not in (None, before["openflow"]))
        assert len(json.loads((site.run_dir / runstate.FABRIC_FILE).read_text())["hosts"]) == 5
        wait_for(lambda: len([e for e in site.store.events() if "changed: fabric; restarted openflow" in e["text"]]) == 2)
        assert site.state.services["redis"] == before["redis"]

    def test_settings_that_cannot_be_written_leave_all_as_it_was_and_are_taken_over_when_they_can_be(self, site: Site) -> None:
        settings = site.run_dir / runstate.OPENFLOW_FILE
        before, was = site.state, settings.read_text()
        obstacle = site.run_dir / f".run-{runstate.TREE_FILE}.new"
        obstacle.mkdir()  # the last of the files can't be made, as if the run directory were full
        site.write("fabric: {switches: [{name: s1}], hosts: [{name: h1}], links: [{a: h1, b: s1, rate: 1G}]}\n")
        wait_for(lambda: site.heard("config", "settings can't be written"))
        assert "free the place, then send the supervisor a SIGHUP" in site.state.config_error
        time.sleep(1)
        assert (site.state.supervisor, site.state.services) == (before.supervisor, before.services)
        assert settings.read_text() == was and list(site.run_dir.glob(".*.new")) == [obstacle]
        assert len([event for event in site.store.events() if event["kind"] == "config"]) == 1
        obstacle.rmdir()
        os.kill(before.supervisor.pid, signal.SIGHUP)
        wait_for(lambda: site.heard("config", "changed: fabric; restarted openflow"))
        assert not site.state.config_error

    def test_another_run_directory_is_refused_while_up(self, site: Site) -> None:
        site.config.write_text(site.config.read_text().replace("/run\n", "/elsewhere\n"))
        wait_for(lambda: site.heard("config", "run_dir can't change"))
        assert site.state.alive()


class TestCommands:
    """What operators type, on what is up."""

    def test_free_and_coordinate_are_taken_over_by_the_coordinator(self, coordinated: Site) -> None:
        words = ("--run-dir", str(coordinated.run_dir))
        assert baton("free", *words).returncode == 0
        status = coordinated.store.status()
        assert status is not None and status["override"] == "free"
        assert baton("coordinate", *words).returncode == 0
        status = coordinated.store.status()
        assert status is not None and status["override"] == "coordinate"
        assert coordinated.heard("override", "override: free")

    def test_status_as_json_holds_what_is_up(self, coordinated: Site) -> None:
        answer = baton("status", "--json", "--run-dir", str(coordinated.run_dir))
        assert answer.returncode == 0, answer.stderr
        found = json.loads(answer.stdout)
        assert found["coordinator"]["pid"] == found["processes"]["coordinator"]["pid"]
        assert found["override"] == "coordinate" and found["members"] == {}
        assert set(found["processes"]) == {"supervisor", "redis", "openflow", "control", "coordinator"}
