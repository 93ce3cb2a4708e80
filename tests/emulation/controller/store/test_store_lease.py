"""The lease against a real redis-server: who holds it, its epochs, and what a new leader is told of the last one."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from controller.election.elector import Elector
from controller.election.last_epoch import LastEpoch
from controller.election.lease import HOLDERS, LeaseAway, LeaseStore
from controller.processes.jsonlines import JsonLines
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.controller.store.private_server import LEASE_NS, kill, leases, redis_cli
from tests.emulation.operating import wait_for

pytestmark = needs.REDIS


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

    def test_the_epochs_of_a_machine_only_grow_whatever_its_store_forgets(self, server: PrivateRedis, tmp_path: Path) -> None:
        (one,) = leases(server, "one")
        epochs = list[int]()
        for _ in range(3):
            descriptor = os.open(tmp_path / "key.epoch", os.O_RDWR | os.O_CREAT, 0o600)
            ours, theirs = socket.socketpair()
            elector = threading.Thread(target=Elector(one, LEASE_NS, theirs, LastEpoch(descriptor)).run)
            elector.start()
            lines = JsonLines(ours)
            try:
                lines.write({"ask": "acquire", "term": 0, "epoch": 0, "highest": 0})
                [told] = lines.read() or [{}]
                epochs.append(told["answer"][1])
            finally:
                ours.close()
                elector.join()
                os.close(descriptor)
            redis_cli(server, "flushall")  # as a private store does when it ends
        assert len(set(epochs)) == 3 and epochs == sorted(epochs)

    def test_when_it_has_run_out_the_next_epoch_is_greater(self, server: PrivateRedis) -> None:
        one, two = leases(server, "one", "two")
        epoch = one.acquire("a", 0).epoch
        wait_for(lambda: two.look().epoch == 0)
        assert two.acquire("b", 0).epoch > epoch
        refused = one.renew("a", epoch)
        assert not refused.held and refused.epoch > epoch

    def test_a_lease_that_is_renewed_stays_with_its_holder(self, server: PrivateRedis) -> None:
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
