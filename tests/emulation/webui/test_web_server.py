"""The web server as a process: its stream, its priority, and the settings with which it refuses to start."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.operating import free_port, wait_for
from tests.emulation.webui.web_feed import Feed
from tests.emulation.webui.web_process import Server, Stream, feeding

pytestmark = needs.REDIS


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    with PrivateRedis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="module")
def feed(redis: PrivateRedis) -> Feed:
    return Feed.small(Store(redis.url))


@pytest.fixture(scope="module")
def server(redis: PrivateRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("web"), redis)
    yield made
    made.close()


class TestTheStream:
    """One reader of the store serves all subscribers."""

    def test_first_the_fabric_and_the_state_then_what_is_new(self, server: Server, feed: Feed) -> None:
        stream = Stream(server.port)
        wait_for(lambda: stream.named("state"))
        assert [name for name, _ in stream.told][:2] == ["fabric", "state"]
        before = len(stream.named("state"))
        with feeding(feed, 0.1):
            wait_for(lambda: len(stream.named("state")) >= before + 4)
        rows = [row for part in stream.named("schedule") for row in part["rows"]]
        assert {"slot", "late", "yield", "lost"} == {kind for kind, *_ in rows}
        assert len(stream.named("fabric")) == 1  # it did not change
        stream.close()

    def test_a_changed_fabric_an_event_and_an_action_are_told(self, server: Server, feed: Feed) -> None:
        stream = Stream(server.port)
        wait_for(lambda: stream.named("state"))
        document = feed.store.fabric() or {}
        feed.store.publish_fabric({**document, "blocked": [["s1", "s2"]]})
        feed.store.publish_event("tree", "warning", "something happened")
        feed.store.publish_event("audit", "info", "eve: policy free", by="eve")
        wait_for(lambda: len(stream.named("fabric")) == 2 and stream.named("event") and stream.named("audit"))
        assert [link["id"] for link in stream.named("fabric")[1]["links"] if not link["tree"]] == ["s1-s2"]
        assert "something happened" in [event["text"] for event in stream.named("event")]
        assert [event["who"] for event in stream.named("audit")] == ["eve"]
        stream.close()
        feed.store.publish_fabric(document)

    def test_who_comes_back_gets_what_it_missed_and_nothing_twice(self, server: Server, feed: Feed) -> None:
        first = Stream(server.port)
        feed.store.publish_event("tree", "info", "seen")
        wait_for(lambda: first.named("event") and first.named("event")[-1]["text"] == "seen")
        wait_for(lambda: "," in first.last_id)
        first.close()
        feed.store.publish_event("tree", "info", "missed")
        second = Stream(server.port, first.last_id)
        wait_for(lambda: second.named("event"))
        time.sleep(0.6)
        assert [event["text"] for event in second.named("event")] == ["missed"]
        second.close()

    def test_a_lost_coordinator_is_told_within_two_seconds(self, server: Server, feed: Feed) -> None:
        stream = Stream(server.port)
        with feeding(feed, 0.1):
            wait_for(lambda: stream.named("state") and stream.named("state")[-1]["coordinator"]["alive"])
            time.sleep(0.3)
        lost_s = time.monotonic()
        wait_for(lambda: not stream.named("state")[-1]["coordinator"]["alive"])
        assert time.monotonic() - lost_s < 2
        stream.close()

    def test_a_client_that_does_not_read_disturbs_nobody(self, server: Server, feed: Feed) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as deaf, feeding(feed, 0.05):
            deaf.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            stream = Stream(server.port)
            came_s: list[float] = []

            def grown() -> bool:
                came_s.extend([time.monotonic()] * (len(stream.named("state")) - len(came_s)))
                return len(came_s) >= 5

            wait_for(grown, 10)
            stream.close()
        assert max(later - sooner for sooner, later in pairwise(came_s)) < 2

    def test_nobody_looks_nothing_is_read(self, server: Server, redis: PrivateRedis) -> None:
        def commands() -> int:
            found = re.search("total_commands_processed:([0-9]+)", redis_cli(redis, "info", "stats"))
            assert found is not None
            return int(found[1])

        time.sleep(2.5)  # the last stream's thread ends
        before = commands()
        time.sleep(1)
        assert commands() - before <= 3  # our own question


def redis_cli(redis: PrivateRedis, *words: str) -> str:
    command = ["redis-cli", "-s", str(redis.run_dir / "redis.sock"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class TestTheProcess:
    """It leaves the processor to slots, and says in one line why it can't start."""

    def test_it_runs_at_low_priority_and_is_no_real_time_process(self, server: Server) -> None:
        pid = server.pid
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 10 and os.sched_getscheduler(pid) == os.SCHED_BATCH

    def test_a_store_that_goes_and_comes_back_is_told_both_times(self, tmp_path: Path) -> None:
        with PrivateRedis(tmp_path) as redis:
            Feed.small(Store(redis.url))
            server = Server(tmp_path, redis)
            try:
                stream = Stream(server.port)
                wait_for(lambda: stream.named("state"))
                assert redis.process is not None
                redis.process.kill()
                redis.process.wait()
                wait_for(lambda: "store" in ((stream.named("state")[-1]["problem"] or {}).get("error", "")), 10)
                assert server.get("/api/state")[0] == 503
                redis.process = None
                with PrivateRedis(tmp_path) as again:
                    again_feed = Feed.small(Store(again.url))
                    with feeding(again_feed, 0.2):
                        wait_for(lambda: stream.named("state")[-1]["coordinator"]["alive"], 10)
                stream.close()
            finally:
                server.close()

    @pytest.mark.parametrize(
        ("words", "names"),
        [
            (["--host", "0.0.0.0"], "needs? TLS|need TLS"),
            (["--cert", "/nowhere.pem"], "cert, key"),
            (["--cert", "/nowhere.pem", "--key", "/nowhere.pem"], "cert: /nowhere.pem"),
            (["--store", "ftp://x"], "store"),
        ],
    )
    def test_what_can_not_be_is_one_line_with_the_remedy(self, words: list[str], names: str, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "cli.main", "web", "--store", "unix:///none.sock", "--port", str(free_port()), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        line = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1
        assert line.startswith("Error: ") and re.search(names, line), done.stderr

    def test_a_port_in_use_is_named(self, server: Server) -> None:
        command = [sys.executable, "-m", "cli.main", "web", "--store", "unix:///none.sock", "--port", str(server.port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 1 and f"127.0.0.1:{server.port}" in done.stderr and "choose another" in done.stderr

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
    def test_with_a_certificate_it_speaks_tls_alone(self, redis: PrivateRedis, tmp_path: Path) -> None:
        cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
        request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
        request += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run([*request, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
        server = Server(tmp_path, redis, "--cert", str(cert), "--key", str(key))
        try:
            context = ssl.create_default_context(cafile=str(cert))
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=10)
            connection.request("GET", "/v1.0/tree")
            answer = connection.getresponse()
            assert answer.status == 200 and answer.getheader("Strict-Transport-Security")
        finally:
            server.close()
