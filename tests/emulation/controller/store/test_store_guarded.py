"""A store that asks for more: Sentinels and servers by TLS with logins of their own, replicas that must confirm an epoch."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest
import redis

from controller.election.lease import LeaseStore, NotConfirmed
from controller.processes.identity import with_owner
from controller.processes.waiting import wait_until
from controller.store.store import Store, StoreUnavailable
from emulation.processes import end_process
from tests import needs
from tests.emulation.operating import baton, free_port

pytestmark = [
    needs.REDIS,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]
LEASE_NS = 1_000_000_000


def openssl(*words: str) -> None:
    subprocess.run(("openssl", *words), check=True, capture_output=True)


class Servers:
    """Real servers on loopback, each in a folder of its own; they end with the test."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory, self._stack = directory, stack

    def run(self, *lines: str, sentinel: bool = False) -> Path:
        """Starts one, with these lines as its configuration."""
        folder = self.directory / f"server-{len(list(self.directory.glob('server-*')))}"
        folder.mkdir()
        path = folder / "redis.conf"
        path.write_text("\n".join(["bind 127.0.0.1", f"dir {folder}", "daemonize no", *lines]) + "\n")
        command = ["redis-server", str(path), *(["--sentinel"] if sentinel else [])]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(with_owner(command), stdout=log, stderr=log)
        self._stack.callback(end_process, process)
        return folder


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, stack)


class Guarded:
    """A server and a Sentinel by TLS alone, without a login for just anybody."""

    def __init__(self, servers: Servers) -> None:
        directory = servers.directory
        self.authority, other = directory / "ca.pem", directory / "other.pem"
        for certificate in (self.authority, other):
            key = str(certificate.with_suffix(".key"))
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={certificate.stem}", "-keyout", key, "-out", str(certificate))  # fmt: skip
        self.other_authority = other
        cert, key, request, names = (str(directory / f"server.{end}") for end in ("crt", "key", "csr", "names"))
        Path(names).write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=store",
                "-keyout", key, "-out", request)  # fmt: skip
        openssl("x509", "-req", "-in", request, "-CA", str(self.authority), "-CAkey", str(directory / "ca.key"),
                "-CAcreateserial", "-days", "2", "-extfile", names, "-out", cert)  # fmt: skip
        tls = ("port 0", f"tls-cert-file {cert}", f"tls-key-file {key}", f"tls-ca-cert-file {self.authority}",
               "tls-auth-clients no", "tls-replication yes", "user default off")  # fmt: skip
        self.port, self.sentinel_port = free_port(), free_port()
        servers.run(*tls, f"tls-port {self.port}", "user baton on >kept-secret ~* &* +@all", 'save ""')
        servers.run(
            *tls, f"tls-port {self.sentinel_port}", "user asker on >asked-secret ~* &* +@all",
            f"sentinel monitor baton 127.0.0.1 {self.port} 1", "sentinel auth-user baton baton",
            "sentinel auth-pass baton kept-secret", sentinel=True,
        )  # fmt: skip

    def url(self, *, secret: str = "kept-secret", asked: str = "asked-secret", authority: Path | None = None) -> str:
        options = {"sentinel_username": "asker", "sentinel_password": asked, "ssl_ca_certs": str(authority or self.authority)}
        return f"rediss+sentinel://baton:{secret}@127.0.0.1:{self.sentinel_port}/baton?{urlencode(options)}"


@pytest.fixture
def guarded(servers: Servers) -> Guarded:
    made = Guarded(servers)
    assert wait_until(lambda: writes(made.url()), 10), "no store"
    return made


def writes(url: str) -> bool:
    store = Store(url)
    try:
        store.set_override("free")
        return store.override() == "free"
    except StoreUnavailable:
        return False
    finally:
        store.close()


def refusal(url: str) -> str:
    store = Store(url)
    with pytest.raises(StoreUnavailable) as caught:
        store.set_override("free")
    store.close()
    return str(caught.value)


class TestSentinelsByTls:
    """Both the Sentinels and the servers ask for a login, and are spoken to by TLS."""

    def test_with_both_logins_and_the_authority_it_works_the_lease_included(self, guarded: Guarded) -> None:
        assert LeaseStore(guarded.url(), "one", LEASE_NS).acquire("a", 0).held

    @pytest.mark.parametrize("wrong", ["secret", "asked", "authority", "plain"])
    def test_without_any_of_them_it_does_not_and_no_secret_is_told(self, guarded: Guarded, wrong: str) -> None:
        urls: dict[str, Callable[[], str]] = {
            "secret": lambda: guarded.url(secret="guessed-secret"),
            "asked": lambda: guarded.url(asked="guessed-secret"),
            "authority": lambda: guarded.url(authority=guarded.other_authority),
            "plain": lambda: f"redis+sentinel://baton:kept-secret@127.0.0.1:{guarded.sentinel_port}/baton",
        }
        told = refusal(urls[wrong]())
        assert "-secret" not in told and len(told.splitlines()) == 1


class TestReplicas:
    """An epoch that no replica has could be given out again after a failover of the store."""

    def test_without_the_replicas_that_must_confirm_nobody_takes_office(self, servers: Servers) -> None:
        port, second = free_port(), free_port()
        servers.run(f"port {port}", 'save ""', "repl-diskless-sync-delay 0")
        url = f"redis://127.0.0.1:{port}/0"
        store = LeaseStore(url, "one", LEASE_NS, replicas=1)
        assert wait_until(lambda: writes(url), 10)
        with pytest.raises(NotConfirmed, match="confirmed by 1 of the store's replicas, and of 0 connected 0 did so"):
            store.acquire("a", 0)
        assert not store.look().epoch, "the lease was given back"
        assert LeaseStore(url, "two", LEASE_NS).acquire("b", 0).held, "who does not demand it gets it"
        LeaseStore(url, "two", LEASE_NS).release("b")
        servers.run(f"port {second}", f"replicaof 127.0.0.1 {port}", 'save ""')
        client = redis.Redis(port=second, decode_responses=True)
        assert wait_until(lambda: linked(client), 10)
        assert wait_until(lambda: confirmed(store), 10)
        two = LeaseStore(url, "three", LEASE_NS, replicas=2)
        store.release("c")
        with pytest.raises(NotConfirmed, match="of 1 connected 0 did so"):
            two.acquire("d", 0)

    def test_baton_up_says_what_its_controller_waits_for(self, servers: Servers, tmp_path: Path) -> None:
        port = free_port()
        servers.run(f"port {port}", 'save ""')
        url = f"redis://127.0.0.1:{port}/0"
        assert wait_until(lambda: writes(url), 10)
        subprocess.run(["ip", "link", "add", "rep0", "type", "veth", "peer", "name", "rep1"], check=True)
        try:
            subprocess.run(["ip", "link", "set", "rep0", "up"], check=True)
            baton("key", "generate", str(tmp_path / "key"))
            config = tmp_path / "baton.yaml"
            where = f"interface: rep0, attachment: 's1:p9', key_file: {tmp_path}/key"
            text = f"run_dir: {tmp_path}/run\nstore: {url}\nreplicas: 1\nweb: none\ncoordinator: {{{where}}}\n"
            config.write_text(text + f"openflow: {{listen: '127.0.0.1:{free_port()}'}}\n")
            answer = baton("up", "--config", str(config))
            assert answer.returncode == 1 and "does not report" in answer.stderr
            store = Store(url)
            why = "the lease must be confirmed by 1"
            assert len([event for event in store.events() if f"takes no office: {why}" in event["text"]]) == 1
            assert (tmp_path / "run" / "coordinator.log").read_text().count(why) == 1
            assert store.leader() is None
            store.close()
        finally:
            subprocess.run(["ip", "link", "del", "rep0"], check=True)


def confirmed(store: LeaseStore) -> bool:
    """Whether the lease was taken; a replica on a busy machine may need more than the time for one try."""
    try:
        return store.acquire("c", 0).held
    except NotConfirmed:
        return False


def linked(client: redis.Redis) -> bool:
    try:
        found: bool = client.info("replication").get("master_link_status") == "up"
    except redis.exceptions.RedisError:
        return False
    return found
