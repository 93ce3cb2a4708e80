"""Under `baton up` as root each process has its own user and only its rights, from its first instruction; and all works."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from cli.machine import unit_files
from controller.processes.confine import ROOM_BYTES, packet_sockets
from controller.processes.rights import Rights
from controller.store import logins
from controller.store.store import Store
from controller.supervision import runstate
from controller.supervision.users import Users, resolve
from protocol.auth import Key
from protocol.realtime import ABOVE_OTHERS
from tests import needs
from tests.emulation.operating import baton, free_port, http_status, wait_for

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"), needs.REDIS]

OF_EACH = {"redis": "store", "openflow": "openflow", "coordinator": "coordinator", "web": "web"}
REALTIME = 1 << 23 | 1 << 14  # CAP_SYS_NICE, CAP_IPC_LOCK: only where limits can't be raised
KEEPERS = 1 << 12 | 1 << 39 | 1 << 38  # CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON
SHOW = "import sys; print(open('/proc/self/status').read())"


def status(pid: int | str) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def real_time(pid: int) -> list[int]:
    """The priorities of a process's threads that are real-time."""
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    found = [thread for thread in threads if os.sched_getscheduler(thread) == os.SCHED_FIFO]
    return [os.sched_getparam(thread).sched_priority for thread in found]


def children(pid: int) -> Iterator[int]:
    for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(text)
        yield from children(int(text))


def capabilities(shown: dict[str, str]) -> set[int]:
    """The sets of capabilities, as bits."""
    return {int(shown[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}


class Site:
    """The whole controller side: store, OpenFlow, coordinator in another network namespace, dashboard with TLS's files."""

    def __init__(self, directory: Path, netns: str, prefix: tuple[str, ...] = ()) -> None:
        self.directory, self.run_dir = directory, directory / "run"
        self.key, self.users_file = directory / "key", directory / "users.json"
        Key.generate(self.key)
        self.web_port, self.port = free_port(), free_port()
        config = {
            "run_dir": str(self.run_dir),
            "openflow": {"listen": f"127.0.0.1:{self.port}"},
            "coordinator": {"interface": "c0", "attachment": "s1:s1-eth9", "netns": netns, "key_file": "key"},
            "web": {"listen": f"127.0.0.1:{self.web_port}", "users": "users.json"},
        }
        (directory / "baton.yaml").write_text(json.dumps(config))
        answer = subprocess.run(
            [sys.executable, "-m", "cli.main", "user", "add", "ann", "--password-stdin", "--file", str(self.users_file)],
            input="a long password\n", text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        command = [*prefix, sys.executable, "-m", "cli.main", "up", "--config", str(directory / "baton.yaml")]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 0, answer.stderr

    @property
    def state(self) -> runstate.RunState:
        return runstate.load(self.run_dir)

    def pid(self, name: str) -> int:
        identity = self.state.services[name]
        assert identity is not None
        return identity.pid

    def as_user(self, name: str, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in Python with exactly the rights of a process, for one that was taken over."""
        users = known_users()
        command = Rights(user=users.uids[OF_EACH[name]], group=users.group).command([sys.executable, "-c", program, *words])
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[4])}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")

    def login_of(self, name: str) -> str:
        """The store's URL that a process got."""
        pairs = Path(f"/proc/{self.pid(name)}/environ").read_bytes().split(b"\0")
        return next(pair.partition(b"=")[2].decode() for pair in pairs if pair.startswith(b"BATON_REDIS="))


def known_users() -> Users:
    from controller.config.schema import Config

    users = resolve(Config.model_validate({}).users)
    assert users is not None
    return users


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running() as made:
        yield made


@contextmanager
def running(*prefix: str) -> Iterator[Site]:
    """A site that is up, started by a command that begins with `prefix`."""
    netns = f"baton-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", netns], check=True)
    with tempfile.TemporaryDirectory(prefix="baton-test-") as name:
        Path(name).chmod(0o711)
        try:
            for words in (("link", "add", "c0", "type", "veth", "peer", "name", "c1"), ("link", "set", "c0", "up")):
                subprocess.run(["ip", "-n", netns, *words], check=True)
            made = Site(Path(name), netns, prefix)
            wait_for(lambda: http_status(made.web_port) == 200)
            yield made
        finally:
            baton("down", "--run-dir", str(Path(name) / "run"))
            subprocess.run(["ip", "netns", "del", netns], check=True)


class TestProcesses:
    """What the kernel says of the running processes."""

    @pytest.mark.parametrize("name", sorted(OF_EACH))
    def test_each_has_its_own_user_and_no_capability(self, site: Site, name: str) -> None:
        users = known_users()
        uid = users.uids[OF_EACH[name]]
        for pid in (site.pid(name), *children(site.pid(name))):
            shown = status(pid)
            assert shown["Uid"].split() == [str(uid)] * 4 and shown["Gid"].split() == [str(users.group)] * 4
            assert shown["Groups"] == ""
            assert capabilities(shown) <= ({0, REALTIME} if name == "coordinator" else {0})
            assert (shown["NoNewPrivs"], shown["Seccomp"]) == ("1", "2")
        assert len({*users.uids.values(), 0}) == 5

    def test_the_store_goes_before_the_coordinators_ordinary_thread(self, site: Site) -> None:
        assert os.getpriority(os.PRIO_PROCESS, site.pid("redis")) < ABOVE_OTHERS

    def test_the_coordinators_helpers_were_among_them(self, site: Site) -> None:
        words = [Path(f"/proc/{pid}/cmdline").read_text() for pid in children(site.pid("coordinator"))]
        assert any("store_bridge" in text for text in words) and any("elector" in text for text in words)

    def test_the_keeper_of_control_frames_is_root_with_three_capabilities(self, site: Site) -> None:
        shown = status(site.pid("control"))
        assert capabilities(shown) == {0, KEEPERS}
        assert (shown["NoNewPrivs"], shown["Seccomp"]) == ("1", "2")

    def test_no_process_is_in_the_coordinators_network_namespace(self, site: Site) -> None:
        home = Path("/proc/self/ns/net").readlink()
        assert {Path(f"/proc/{site.pid(name)}/ns/net").readlink() for name in OF_EACH} == {home}

    def test_the_rights_are_gone_before_the_first_instruction(self, site: Site) -> None:
        answer = site.as_user("web", SHOW)
        shown = {name: value.strip() for name, _, value in (line.partition(":") for line in answer.stdout.splitlines())}
        assert shown["Uid"].split() == [str(known_users().uids["web"])] * 4, answer.stderr
        assert capabilities(shown) == {0} and (shown["NoNewPrivs"], shown["Seccomp"]) == ("1", "2")


class TestOneThatIsTakenOver:
    """What a program with the rights of the web server, or of the OpenFlow application, tries in vain."""

    @pytest.mark.parametrize("name", ["web", "openflow", "redis"])
    def test_it_reads_no_key(self, site: Site, name: str) -> None:
        for path in (site.key, site.run_dir / "keys" / "key", site.run_dir / "config.json", site.run_dir / "up.json"):
            assert path.exists()
            assert "Permission" in site.as_user(name, "import sys; open(sys.argv[1])", str(path)).stderr, path

    def test_openflow_does_not_read_the_users_passwords(self, site: Site) -> None:
        copy = site.run_dir / "web" / "users.json"
        assert "PermissionError" in site.as_user("openflow", "import sys; open(sys.argv[1])", str(copy)).stderr
        assert site.as_user("web", "import sys; open(sys.argv[1])", str(copy)).returncode == 0

    @pytest.mark.parametrize("name", ["web", "openflow"])
    def test_it_neither_traces_nor_signals_another(self, site: Site, name: str) -> None:
        program = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, int(sys.argv[1]), 0, 0) == -1 and ctypes.get_errno() == 1, ctypes.get_errno()
for attempt in (lambda: os.kill(int(sys.argv[1]), 9), lambda: open(f"/proc/{sys.argv[1]}/mem"),
                lambda: open(f"/proc/{sys.argv[1]}/environ").read()):
    try:
        attempt()
    except PermissionError:
        continue
    sys.exit("it may")
"""
        answer = site.as_user(name, program, str(site.pid("coordinator")))
        assert answer.returncode == 0, answer.stderr

    @pytest.mark.parametrize("attempt", [
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
        "import socket; socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
        "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); l.unshare(0x10000000) and os._exit(ctypes.get_errno())",
        "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); l.mount(0, b'/', 0, 0, 0) and os._exit(ctypes.get_errno())",
        "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); l.syscall(321, 0, 0, 0) and os._exit(ctypes.get_errno())",
        "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "import os; os.setuid(0)",
        "open('/etc/baton-was-here', 'w')",
    ])  # fmt: skip
    def test_it_gets_no_sockets_namespaces_mounts_programs_or_priority(self, site: Site, attempt: str) -> None:
        assert site.as_user("web", attempt).returncode != 0

    def test_the_store_refuses_what_is_not_the_web_servers(self, site: Site) -> None:
        client = redis.Redis.from_url(site.login_of("web"), decode_responses=True)
        assert client.hget("baton:status", "json")
        for words in (
            ("SET", "baton:epoch", "9"),
            ("HSET", "baton:leader", "name", "me"),
            ("HSET", "baton:status", "json", "{}"),
            ("HSET", "baton:fabric", "json", "{}"),
            ("EVAL", "return 1", "0"),
            ("CONFIG", "GET", "dir"),
            ("ACL", "LIST"),
            ("FLUSHALL",),
            ("KEYS", "*"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)

    def test_the_store_refuses_what_is_not_the_openflow_applications(self, site: Site) -> None:
        client = redis.Redis.from_url(site.login_of("openflow"), decode_responses=True)
        for words in (
            ("SET", "baton:override", "free"),
            ("HSET", "baton:policy", "json", "{}"),
            ("SET", "baton:session:x", "ann"),
            ("HSET", "baton:leader", "name", "me"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)

    def test_nobody_gets_into_the_store_without_a_login(self, site: Site) -> None:
        client = redis.Redis(unix_socket_path=str(site.run_dir / "store" / "redis.sock"))
        with pytest.raises(redis.exceptions.AuthenticationError):
            client.ping()

    def test_the_keeper_of_control_frames_hears_the_openflow_application_alone(self, site: Site) -> None:
        program = """
import socket, sys
with socket.socket(socket.AF_UNIX) as made:
    made.connect(sys.argv[1])
    made.settimeout(3)
    print(made.recv(1))
"""
        path, users = site.run_dir / "second.sock", known_users()
        words = ["--listen", str(path), "--peer", str(users.uids["openflow"])]
        rights = Rights(user=0, group=users.group, capabilities=("net_admin",), families=("AF_UNIX", "AF_NETLINK"), bpf=True)
        keeper = subprocess.Popen(rights.command([sys.executable, "-m", "controller.switch_queues.control_keeper", *words]))
        try:
            wait_for(path.exists)
            assert site.as_user("web", program, str(path)).stdout == "b''\n"
            assert "timed out" in site.as_user("openflow", program, str(path)).stderr
        finally:
            keeper.terminate()
            keeper.wait()
            path.unlink()


class TestWork:
    """Everything works with these rights."""

    def test_the_coordinator_leads_and_the_dashboard_serves_it(self, site: Site) -> None:
        store = Store(site.state.store)
        assert (store.status() or {})["pid"] == site.pid("coordinator")
        connection = http.client.HTTPConnection("127.0.0.1", site.web_port, timeout=5)
        connection.request("GET", "/api/state")
        answer = connection.getresponse()
        assert answer.status == 200
        state = json.loads(answer.read())
        assert state["coordinator"]["policy"]
        store.close()

    def test_root_may_run_status_free_and_coordinate_and_sees_no_password(self, site: Site) -> None:
        words = ("--run-dir", str(site.run_dir))
        for command in ("status", "free", "coordinate"):
            answer = baton(command, *words)
            assert answer.returncode == 0, answer.stdout + answer.stderr
        shown = baton("status", "--json", *words).stdout
        assert "***@" in json.loads(shown)["store"]

    def test_the_coordinator_still_has_its_real_time_priority(self, site: Site) -> None:
        wait_for(lambda: 40 in real_time(site.pid("coordinator")))  # of its loop of slots, a thread

    def test_a_user_who_is_added_can_log_in_and_one_who_is_removed_can_not(self, site: Site) -> None:
        def generation() -> bytes:
            return (site.run_dir / "web" / "users.json").read_bytes()

        before = generation()
        assert baton("user", "remove", "ann", "--file", str(site.users_file)).returncode == 0
        wait_for(lambda: generation() != before, 2)
        assert b"ann" not in generation()

    def test_no_file_in_the_run_directory_is_open_to_others(self, site: Site) -> None:
        status = site.run_dir.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o710, 0, known_users().group)
        for path in site.run_dir.rglob("*"):
            mode, group = stat.S_IMODE(path.stat().st_mode), known_users().group
            assert not mode & 0o007, path
            if path.is_file():
                assert mode == 0o600, path
            elif mode & 0o070:
                assert path.stat().st_gid == group and (path.is_socket() or mode & 0o070 == 0o010), path


def test_a_change_of_the_key_ends_in_the_operators_files(site: Site) -> None:
    words = ("--run-dir", str(site.run_dir))
    before = site.key.read_text()
    assert baton("key", "rotate", str(site.key), *words).returncode == 0
    fresh = (site.directory / "key.new").read_text()
    wait_for(lambda: (site.run_dir / "keys" / "key.new").exists(), 3)
    answer = baton("key", "rotate", str(site.key), *words)
    assert answer.returncode == 0, answer.stderr
    wait_for(lambda: site.key.read_text() == fresh != before, 3)
    assert not (site.directory / "key.new").exists()
    assert (site.key.stat().st_uid, stat.S_IMODE(site.key.stat().st_mode)) == (0, 0o600)


def test_a_key_that_is_copied_is_not_read_through_a_link_of_the_coordinators(site: Site) -> None:
    """The coordinator's directory is its own: what it puts there must lead root nowhere."""
    directory = site.run_dir / "keys"
    victim = site.directory / "victim"
    victim.write_text("untouched")
    (directory / "key").unlink()
    (directory / "key").symlink_to(victim)
    Path(site.directory / "other").touch()
    os.utime(site.key)
    wait_for(lambda: not (directory / "key").is_symlink(), 3)
    assert victim.read_text() == "untouched"


def test_the_capabilities_that_the_unit_leaves_are_enough() -> None:
    unit = unit_files.controller(["/baton"], config=Path("/c"), writable=(), netns=True).text
    (left,) = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("CapabilityBoundingSet=")]
    names = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in left.split())])
    with running("setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", names) as site:
        supervisor = status(site.state.supervisor.pid)
        assert int(supervisor["CapEff"], 16) == int(supervisor["CapBnd"], 16) < 1 << 40
        for name, of in OF_EACH.items():
            assert status(site.pid(name))["Uid"].split()[0] == str(known_users().uids[of])
        wait_for(lambda: 40 in real_time(site.pid("coordinator")))
        os.kill(site.pid("web"), 9)
        wait_for(lambda: http_status(site.web_port) == 200)


def test_login_rules_of_the_document_are_those_of_the_code() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "store.md").read_text()
    for login in (logins.COORDINATOR, logins.OPENFLOW, logins.WEB):
        assert f"ACL SETUSER {logins.user(login)} on '>PASSWORD' {logins.RULES[login]}" in text


def test_the_coordinators_sockets_have_room_for_what_thousands_of_hosts_send_at_once() -> None:
    (descriptor,) = packet_sockets(1, None)
    with socket.socket(fileno=descriptor) as made:
        for room in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            assert made.getsockopt(socket.SOL_SOCKET, room) >= ROOM_BYTES


def test_python_is_ranked_below_the_loop_of_slots_or_with_ordinary_programs() -> None:
    script = """if True:
        import os
        from protocol.realtime import begin_realtime, is_realtime, rank_below
        def rank():
            return os.sched_getscheduler(0) == os.SCHED_FIFO, os.sched_getparam(0).sched_priority, os.getpriority(0, 0)
        ordinary = rank()
        rank_below(None, busy=True)
        assert rank() == ordinary and not is_realtime()
        assert begin_realtime(40) is None and is_realtime()
        rank_below(40, busy=False)
        assert rank()[:2] == (True, 39)
        rank_below(40, busy=True)
        assert rank() == (False, 0, -5)
        rank_below(40, busy=False)
        assert rank()[:2] == (True, 39)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
