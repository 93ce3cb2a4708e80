"""Redis goes away and comes back, and the private one leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store, StoreUnavailable
from tests import needs
from tests.emulation.controller.store.private_server import kill, redis_cli
from tests.emulation.operating import wait_for

pytestmark = needs.REDIS


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
        store.connection.keep("override", {"override": "free"})
        kill(server)
        with pytest.raises(StoreUnavailable):
            store.publish_ports({})
        server.start()
        store.publish_ports({"p": 1})
        reader = Store(server.url)
        assert (reader.fabric(), reader.override(), reader.ports()) == ({"fabric": 1}, "free", {"p": 1})
        assert list(reader.members()) == [16]

    def test_no_older_word_of_an_operator_takes_the_place_of_a_newer_one_after_the_loss(
        self, server: PrivateRedis, store: Store
    ) -> None:
        """As of a leader that was cut off from the store while it lost its data, and an operator spoke."""
        store.publish_status({})
        store.connection.keep("override", {"override": "free"})
        store.connection.keep("policy", {"policy": "auto"})
        store.connection.keep("queues", {"h1": {"1": ["old"]}})
        store.connection.keep("rotation", {"step": "begun", "old": "a", "new": "b"})
        kill(server)
        server.start()
        operator = Store(server.url)
        operator.set_override("coordinate")
        operator.set_policy({"policy": "free"})
        operator.commands.change_queues(lambda _: {})
        store.publish_status({})
        assert (operator.override(), operator.policy(), operator.commands.queues()) == ("coordinate", {"policy": "free"}, {})
        assert operator.commands.rotation() == {"step": "begun", "old": "a", "new": "b"}, "what is missing is restored"

    def test_one_that_has_nothing_new_to_publish_can_look_after_what_was_lost(self, server: PrivateRedis, store: Store) -> None:
        store.publish_fabric({"slice_ns": 1})
        kill(server)
        server.start()
        store.connection.republish()
        assert Store(server.url).fabric() == {"slice_ns": 1}

    def test_who_wrote_an_operators_word_restores_none_for_it_does_not_hear_that_it_was_taken_back(
        self, server: PrivateRedis, store: Store
    ) -> None:
        """As of the web server, which may be the first to see the empty store."""
        store.set_override("free")
        store.set_policy({"policy": "free"})
        store.commands.change_queues(lambda _: {"h1": {"1": []}})
        operator = Store(server.url)
        operator.set_override("coordinate")
        operator.set_policy({"policy": "auto"})
        operator.commands.change_queues(lambda _: {})
        kill(server)
        server.start()
        store.connection.republish()
        assert (store.override(), store.policy(), store.commands.queues()) == (None, None, None)

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
