"""The store against a real redis-server: documents, changes, epochs, and Redis going away and coming back."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.election.elector import Elector
from controller.election.lease import HOLDERS, LeaseAway, LeaseStore
from controller.processes.jsonlines import JsonLines
from controller.store.private_redis import PrivateRedis
from controller.store.store import EVENTS_KEPT, Store, StoreUnavailable
from tests import needs
from tests.emulation.operating import wait_for

LEASE_NS = 300_000_000

pytestmark = needs.REDIS


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateRedis]:
    with PrivateRedis(tmp_path) as running:
        yield running


@pytest.fixture
def store(server: PrivateRedis) -> Iterator[Store]:
    made = Store(server.url)
    yield made
    made.close()


def redis_cli(server: PrivateRedis, *words: str) -> str:
    """What another client sees."""
    command = ["redis-cli", "-s", str(server.run_dir / "redis.sock"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def kill(server: PrivateRedis) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.process = None


class TestDocuments:
    """What one process publishes, another reads, with a version and an end."""

    def test_what_was_not_published_is_none(self, store: Store) -> None:
        assert (store.fabric(), store.ports(), store.status(), store.policy(), store.override()) == (None,) * 5
        assert store.members() == {} and store.events() == []

    def test_documents_come_back_as_they_were_published(self, server: PrivateRedis, store: Store) -> None:
        reader = Store(server.url)
        document = {"fabric": {"switches": ["s1"]}, "blocked": [["a", "b"]], "text": "grün"}
        store.publish_fabric(document)
        store.publish_ports({"s1": 1})
        store.publish_status({"pid": 7})
        store.set_policy({"slice_ns": 2})
        assert reader.fabric() == document
        assert (reader.ports(), reader.status(), reader.policy()) == ({"s1": 1}, {"pid": 7}, {"slice_ns": 2})

    def test_what_is_written_together_is_one_transaction(self, server: PrivateRedis, store: Store) -> None:
        store.publish_status({"pid": 7})

        def transactions() -> int:
            told = redis_cli(server, "info", "commandstats")
            return int(told.split("cmdstat_exec:calls=")[1].split(",")[0])

        before = transactions()
        with store.connection.together():
            store.publish_status({"pid": 8})
            for node in (16, 17):
                store.publish_member(node, {"name": f"h{node}"})
            store.forget_member(16)
            assert (store.status(), transactions()) == ({"pid": 7}, before)
        assert (store.status(), store.members(), transactions()) == ({"pid": 8}, {17: {"name": "h17"}}, before + 1)
        kill(server)
        with pytest.raises(StoreUnavailable), store.connection.together():
            store.publish_status({"pid": 9})

    def test_a_version_grows_with_every_publication(self, store: Store) -> None:
        versions = [store.version("fabric")]
        for _ in range(3):
            store.publish_fabric({})
            versions.append(store.version("fabric"))
        assert versions == [0, 1, 2, 3]

    @pytest.mark.parametrize(("key", "least"), [("ports", 25), ("status", 3), ("member:16", 8)])
    def test_what_says_that_something_lives_expires(self, server: PrivateRedis, store: Store, key: str, least: int) -> None:
        store.publish_ports({})
        store.publish_status({})
        store.publish_member(16, {})
        assert least <= int(redis_cli(server, "ttl", f"baton:{key}")) <= 30
        assert redis_cli(server, "ttl", "baton:members") == "-1"

    def test_members_are_listed_by_node_until_they_are_forgotten(self, store: Store) -> None:
        for node in (17, 16, 100):
            store.publish_member(node, {"name": f"h{node}"})
        assert list(store.members()) == [16, 17, 100]
        store.forget_member(17)
        assert list(store.members()) == [16, 100]

    def test_a_member_that_expired_is_not_listed(self, server: PrivateRedis, store: Store) -> None:
        store.publish_member(16, {})
        redis_cli(server, "del", "baton:member:16")
        assert store.members() == {}

    def test_all_keys_have_the_prefix(self, server: PrivateRedis, store: Store) -> None:
        store.publish_member(16, {})
        store.publish_event("up", "info", "up")
        store.set_override("free")
        leases(server, "one")[0].acquire("a", 0)
        keys = redis_cli(server, "keys", "*").split()
        assert keys and all(key.startswith("baton:") for key in keys)

    def test_an_override_is_one_of_two_words(self, store: Store) -> None:
        store.set_override("free")
        assert store.override() == "free"
        with pytest.raises(ValueError, match="override"):
            store.set_override("off")
        assert store.override() == "free"


class TestEvents:
    """The last events are kept, oldest first, with their own fields."""

    def test_events_come_oldest_first_with_their_fields(self, store: Store) -> None:
        store.publish_event("up", "info", "one", node=16)
        store.publish_event("override", "warning", "two")
        first, second = store.events()
        assert (first["kind"], first["severity"], first["text"], first["node"]) == ("up", "info", "one", 16)
        assert second["text"] == "two"
        assert abs(first["at_ms"] / 1000 - time.time()) < 60
        assert [event["text"] for event in store.events(1)] == ["two"]

    def test_no_more_than_the_limit_are_kept(self, server: PrivateRedis, store: Store) -> None:
        for number in range(EVENTS_KEPT + 5):
            store.publish_event("n", "debug", str(number))
        assert redis_cli(server, "xlen", "baton:events") == str(EVENTS_KEPT)
        assert store.events(1)[0]["text"] == str(EVENTS_KEPT + 4)

    def test_an_unknown_severity_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="severity"):
            store.publish_event("up", "fatal", "")


def leases(server: PrivateRedis, *names: str) -> list[LeaseStore]:
    return [LeaseStore(server.url, name, LEASE_NS) for name in names]


class TestTheLease:
    """One controller holds it at a time; its epochs only grow, also after a loss of data."""

    def test_only_one_of_two_gets_it(self, server: PrivateRedis) -> None:
        one, two = leases(server, "one", "two")
        mine, other = one.acquire("a", 0), two.acquire("b", 0)
        assert mine.held and not other.held
        assert (other.holder, other.epoch) == ("one", mine.epoch) and 0 < other.left_ns <= LEASE_NS
        assert redis_cli(server, "hget", "baton:leader", "name") == "one"
        assert 0 < int(redis_cli(server, "pttl", "baton:leader")) <= LEASE_NS // 10**6

    def test_the_lease_of_a_term_that_is_over_is_given_back(self, server: PrivateRedis) -> None:
        [long] = [LeaseStore(server.url, "one", 60_000_000_000)]
        ours, theirs = socket.socketpair()
        elector = threading.Thread(target=Elector(long, LEASE_NS, theirs).run)
        elector.start()
        lines = JsonLines(ours)
        try:
            lines.write({"ask": "acquire", "term": 0, "epoch": 0, "highest": 0})
            wait_for(lambda: redis_cli(server, "hget", "baton:leader", "name") == "one")
            lines.write({"ask": "look", "term": 1, "epoch": 0, "highest": 0})  # it took no office after all
            wait_for(lambda: redis_cli(server, "exists", "baton:leader") == "0")
        finally:
            ours.close()
            elector.join()

    def test_when_it_has_run_out_the_next_epoch_is_greater(self, server: PrivateRedis) -> None:
        one, two = leases(server, "one", "two")
        epoch = one.acquire("a", 0).epoch
        wait_for(lambda: two.look().epoch == 0)
        assert two.acquire("b", 0).epoch > epoch
        refused = one.renew("a", epoch)
        assert not refused.held and refused.epoch > epoch

    def test_a_renewed_one_lasts(self, server: PrivateRedis) -> None:
        one, two = leases(server, "one", "two")
        epoch = one.acquire("a", 0).epoch
        for _ in range(5):
            time.sleep(LEASE_NS / 3e9)
            assert one.renew("a", epoch).held and not two.acquire("b", 0).held

    def test_one_that_was_given_back_is_free_at_once(self, server: PrivateRedis) -> None:
        one, two = leases(server, "one", "two")
        one.acquire("a", 0)
        two.release("b")  # not its own
        assert not two.acquire("b", 0).held
        one.release("a")
        assert two.acquire("b", 0).held

    def test_lost_data_give_it_back_to_its_holder_under_its_epoch(self, server: PrivateRedis) -> None:
        (one,) = leases(server, "one")
        epoch = one.acquire("a", 0).epoch
        redis_cli(server, "flushall")
        assert one.renew("a", epoch) == (True, epoch, "one", 0)
        assert redis_cli(server, "get", "baton:epoch") == str(epoch)

    def test_but_not_if_another_has_led_since(self, server: PrivateRedis) -> None:
        one, two = leases(server, "one", "two")
        epoch = one.acquire("a", 0).epoch
        redis_cli(server, "flushall")
        two.acquire("b", epoch)
        two.release("b")
        assert not one.renew("a", epoch).held

    def test_an_epoch_is_above_what_was_heard_and_at_least_the_time(self, server: PrivateRedis) -> None:
        (one,) = leases(server, "one")
        first = one.acquire("a", 0).epoch
        assert int(time.time()) - 2 <= first < int(time.time()) + 2 * HOLDERS
        one.release("a")
        redis_cli(server, "flushall")
        assert first + 1000 < one.acquire("b", first + 1000).epoch <= first + 1000 + HOLDERS

    def test_two_stores_that_lost_touch_never_give_out_one_epoch_twice(self, server: PrivateRedis, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        with PrivateRedis(tmp_path / "other") as other:
            one, two = leases(server, "a:/run/baton")[0], leases(other, "b:/run/baton")[0]
            given = list[int]()
            for number in range(20):
                for store in (one, two):
                    token = f"{id(store)}:{number}"
                    given.append(store.acquire(token, 1_900_000_000).epoch)
                    store.release(token)
        assert len(set(given)) == len(given) and given[::2] == sorted(given[::2]) and min(given) > 1_900_000_000

    @pytest.mark.parametrize("poison", ["4294967295", "4294967296", "99999999999999999999", "nonsense", "-5"])
    def test_a_number_that_is_no_epoch_does_not_end_all_terms(self, server: PrivateRedis, poison: str) -> None:
        (one,) = leases(server, "one")
        redis_cli(server, "set", "baton:epoch", poison)
        epoch = one.acquire("a", 2**32 - 1).epoch
        assert int(time.time()) - 2 <= epoch < int(time.time()) + 2 * HOLDERS
        redis_cli(server, "set", "baton:epoch", poison)
        assert one.renew("a", epoch).held
        one.release("a")
        assert epoch < one.acquire("b", epoch).epoch < 2**32

    def test_a_lease_that_is_none_and_members_that_are_none_end_no_elector(self, server: PrivateRedis) -> None:
        (one,) = leases(server, "one")
        redis_cli(server, "hset", "baton:leader", "token", "x", "epoch", "nonsense", "name", "x")
        with pytest.raises(LeaseAway, match="baton:leader"):
            one.look()
        redis_cli(server, "hset", "baton:member:16", "json", "{}")
        redis_cli(server, "zadd", "baton:members", "1", "16")
        assert one.legacy() == {}

    @pytest.mark.parametrize("status", ['{"contended": null}', '{"contended": 5}', '{"contended": [5]}', "null", "[]", "{"])
    def test_a_status_that_is_none_is_not_handed_to_a_new_leader(self, server: PrivateRedis, status: str) -> None:
        (one,) = leases(server, "one")
        redis_cli(server, "hset", "baton:status", "json", status)
        assert one.legacy() == {}

    def test_a_member_whose_address_is_none_is_not_handed_to_a_new_leader(self, server: PrivateRedis) -> None:
        (one,) = leases(server, "one")
        redis_cli(server, "zadd", "baton:members", "1", "16")
        for mac in ('"zz"', "5", "null"):
            redis_cli(server, "hset", "baton:member:16", "json", f'{{"mac": {mac}}}')
            assert one.legacy() == {}
        redis_cli(server, "hset", "baton:member:16", "json", '{"mac": "02:00:00:00:00:01"}')
        assert one.legacy() == {"contended": [], "nodes": {"02:00:00:00:00:01": 16}}

    def test_the_node_ids_of_thousands_are_read_long_before_the_lease_is_over(self, server: PrivateRedis, store: Store) -> None:
        (one,) = leases(server, "one")
        with store.connection.together():
            for node in range(16, 4816):
                text = 'a "mac": "0'
                store.publish_member(node, {"name": text, "mac": (b"\x02" + node.to_bytes(5)).hex(":"), "pad": "x" * 600})
        began = time.process_time()
        nodes = one.legacy()["nodes"]
        assert len(nodes) == 4800 and nodes["02:00:00:00:00:10"] == 16
        assert time.process_time() - began < 0.03, "4,800 documents take longer to be received"

    def test_a_store_that_is_gone_is_said_to_be_away_soon(self, server: PrivateRedis) -> None:
        (one,) = leases(server, "one")
        epoch = one.acquire("a", 0).epoch
        kill(server)
        begun = time.monotonic()
        with pytest.raises(LeaseAway):
            one.renew("a", epoch)
        assert time.monotonic() - begun < 1
        server.start()
        assert one.renew("a", epoch).held

    def test_the_store_names_leader_and_controllers(self, server: PrivateRedis, store: Store) -> None:
        assert store.leader() is None and store.controllers() == {}
        epoch = leases(server, "one")[0].acquire("a", 0).epoch
        store.publish_controller("one", {"pid": 7})
        assert store.leader() == {"name": "one", "epoch": epoch} and store.controllers() == {"one": {"pid": 7}}


class TestChanges:
    """A subscriber hears of every name once at the start, and then when it changes; never of the data."""

    def test_each_name_comes_at_the_start_and_then_on_change(self, server: PrivateRedis, store: Store) -> None:
        changes = Store(server.url).connection.subscribe(("policy", "override", "members"))
        assert sorted(next(changes) for _ in range(3)) == ["members", "override", "policy"]
        store.publish_fabric({})  # not subscribed to
        store.set_override("free")
        store.set_policy({"a": 1})
        store.publish_member(16, {})
        assert [next(changes) for _ in range(3)] == ["override", "policy", "members"]
        changes.close()  # type: ignore[attr-defined]  # a generator

    def test_a_lost_redis_ends_the_subscription_with_the_reason(self, server: PrivateRedis, store: Store) -> None:
        changes = store.connection.subscribe(("policy",))
        next(changes)
        threading.Timer(0.1, kill, (server,)).start()
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            next(changes)


class TestRedisGoesAndComes:
    """While Redis is away every operation says so; when it is back everything works, and lost data is
    republished."""

    def test_an_operation_without_redis_says_which_store_and_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            Store(f"unix://{tmp_path}/nothing.sock").fabric()
        text = str(caught.value)
        assert "nothing.sock" in text and "see that it runs" in text and "\n" not in text

    def test_a_password_is_never_shown(self) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            Store("redis://:topsecret@127.0.0.1:1/0").fabric()
        assert "topsecret" not in str(caught.value)

    @pytest.mark.parametrize("url", ["http://x", "nonsense", ""])
    def test_a_url_of_something_else_is_refused_at_once(self, url: str) -> None:
        with pytest.raises(StoreUnavailable, match="redis://"):
            Store(url)

    def test_a_restart_between_two_operations_is_not_noticed(self, server: PrivateRedis, store: Store) -> None:
        store.publish_status({"n": 1})
        kill(server)
        server.start()
        store.publish_status({"n": 2})
        assert store.status() == {"n": 2}

    def test_what_was_published_before_the_loss_is_published_again(self, server: PrivateRedis, store: Store) -> None:
        store.publish_fabric({"fabric": 1})
        store.publish_member(16, {"name": "h1"})
        store.set_override("free")
        kill(server)
        with pytest.raises(StoreUnavailable):
            store.publish_ports({})
        server.start()
        store.publish_ports({"p": 1})
        reader = Store(server.url)
        assert (reader.fabric(), reader.override(), reader.ports()) == ({"fabric": 1}, "free", {"p": 1})
        assert list(reader.members()) == [16]

    def test_one_that_has_nothing_new_to_publish_can_look_after_what_was_lost(self, server: PrivateRedis, store: Store) -> None:
        store.set_policy({"slice_ns": 1})
        kill(server)
        server.start()
        store.connection.republish()
        assert Store(server.url).policy() == {"slice_ns": 1}

    def test_data_that_survived_is_not_overwritten_by_an_older_publication(self, server: PrivateRedis, store: Store) -> None:
        store.set_policy({"from": "supervisor"})
        Store(server.url).set_policy({"from": "operator"})
        redis_cli(server, "client", "kill", "type", "normal")  # the connection is lost, the data isn't
        store.connection.republish()
        assert store.policy() == {"from": "operator"}

    def test_two_threads_can_share_a_store_while_redis_restarts(self, server: PrivateRedis, store: Store) -> None:
        stop = threading.Event()
        wrong: list[BaseException] = []

        def publish(node: int) -> None:
            while not stop.is_set():
                try:
                    store.publish_member(node, {"node": node})
                except StoreUnavailable:
                    time.sleep(0.01)
                except BaseException as error:
                    wrong.append(error)
                    raise

        threads = [threading.Thread(target=publish, args=(node,)) for node in (16, 17)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        kill(server)
        time.sleep(0.2)
        server.start()
        wait_for(lambda: list(Store(server.url).members()) == [16, 17])
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_another_schema_is_refused_and_left_alone(self, server: PrivateRedis) -> None:
        redis_cli(server, "hset", "baton:schema", "version", "99")
        with pytest.raises(StoreUnavailable, match="schema 99"):
            Store(server.url).set_override("free")
        assert redis_cli(server, "exists", "baton:override") == "0"


class TestPrivateRedis:
    """It listens on its socket only, writes nothing but that, and leaves nothing."""

    def test_it_listens_on_no_network_port(self, server: PrivateRedis) -> None:
        assert redis_cli(server, "config", "get", "port").split() == ["port", "0"]
        assert server.process is not None
        sockets = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=True).stdout
        assert f"pid={server.process.pid}," not in sockets

    def test_its_socket_is_for_its_owner_only(self, server: PrivateRedis) -> None:
        assert (server.run_dir / "redis.sock").stat().st_mode & 0o777 == 0o700

    def test_stopping_leaves_only_the_log(self, tmp_path: Path) -> None:
        with PrivateRedis(tmp_path) as server:
            Store(server.url).publish_fabric({})
        assert [path.name for path in tmp_path.iterdir()] == ["redis.log"]

    def test_it_dies_with_the_process_that_started_it(self, tmp_path: Path) -> None:
        program = (
            "import sys, time; from pathlib import Path; from controller.store.private_redis import PrivateRedis\n"
            "server = PrivateRedis(Path(sys.argv[1])); server.start()\n"
            "print(server.process.pid, flush=True)\n"
            "time.sleep(60)\n"
        )
        owner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
        owner.wait()
        owner.stdout.close()

        def gone() -> bool:
            try:
                return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                return True

        wait_for(gone)
