"""The REST interface over a real Redis: answers, refusals and changes, and that it matches /openapi.json."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.webui.web_feed import Feed
from webui.access.accounts import Accounts
from webui.app import create_app
from webui.http.openapi import document
from webui.settings import WebSettings

pytestmark = needs.REDIS

EXAMPLES = 20


class Site:
    """The application over a filled store, and a token for changes."""

    def __init__(self, directory: Path, redis: PrivateRedis) -> None:
        self.redis = redis
        self.store = Store(redis.url)
        self.feed = Feed.small(self.store)
        accounts = Accounts(directory / "users.json")
        self.token = {"Authorization": f"Bearer {accounts.create_token('test', now_s=int(time.time()))}"}
        self.app: Flask = create_app(Store(redis.url), settings=WebSettings(users=accounts.path))
        self.client: FlaskClient = self.app.test_client()
        self._stop = threading.Event()
        self._coordinator: threading.Thread | None = None

    def coordinate(self) -> None:
        """Simulates a coordinator that takes over the store's settings ten times a second."""

        def run() -> None:
            store = Store(self.redis.url)
            self.feed.store = store
            while not self._stop.wait(0.1):
                self.feed.publish_status()

        self._coordinator = threading.Thread(target=run, daemon=True)
        self._coordinator.start()

    def get(self, path: str) -> Any:  # noqa: ANN401 -- JSON
        time.sleep(0.26)  # an answer may be a quarter of a second old
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.get_json()

    def put(self, **change: object) -> tuple[int, dict[str, Any]]:
        answer = self.client.put("/v1.0/policy", json=change, headers=self.token)
        return answer.status_code, answer.get_json()

    def close(self) -> None:
        self._stop.set()
        if self._coordinator is not None:
            self._coordinator.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with PrivateRedis(tmp_path) as redis:
        made = Site(tmp_path, redis)
        yield made
        made.close()


class TestReading:
    """Visitors may read."""

    def test_ryus_topology_of_all_and_of_one_switch(self, site: Site) -> None:
        shapes = {"switches": ["dpid", "ports"], "links": ["src", "dst"], "hosts": ["mac", "ipv4", "ipv6", "port"]}
        for kind, fields in shapes.items():
            found = site.get(f"/v1.0/topology/{kind}")
            assert found and all(list(one) == fields for one in found)
        assert [switch["dpid"] for switch in site.get("/v1.0/topology/switches/0000000000000002")] == ["0000000000000002"]
        assert {link["src"]["dpid"] for link in site.get("/v1.0/topology/links/0000000000000002")} == {"0000000000000002"}
        assert site.get("/v1.0/topology/hosts/00000000000000ff") == []

    def test_ryus_answers_are_written_as_ryu_wrote_them(self, site: Site) -> None:
        answer = site.client.get("/v1.0/topology/links")
        assert answer.text == json.dumps(json.loads(answer.text)) and answer.content_type == "application/json"

    @pytest.mark.parametrize("dpid", ["1", "000000000000000G", "00000000000000AB", "0" * 17])
    def test_another_form_of_a_dpid_is_not_found(self, site: Site, dpid: str) -> None:
        answer = site.client.get(f"/v1.0/topology/switches/{dpid}")
        assert answer.status_code == 404 and answer.get_json()["remedy"]

    @pytest.mark.parametrize(
        ("path", "there"),
        [
            ("/v1.0/flows?serach=h1", "search, sort, order, page, count"),
            ("/v1.0/schedule?second=2", "seconds"),
            ("/v1.0/tree?serach=h1", "takes no parameters"),
            ("/v1.0/topology/links/0000000000000002?serach=h1", "takes no parameters"),
            ("/openapi.json?serach=h1", "takes no parameters"),
        ],
    )
    def test_a_parameter_that_there_is_not_is_refused(self, site: Site, path: str, there: str) -> None:
        answer = site.client.get(path)
        told = answer.get_json()
        assert answer.status_code == 400 and path.partition("?")[2].partition("=")[0] in told["error"]
        assert there in told["error"] and told["remedy"]

    def test_the_tree_members_flows_and_thresholds(self, site: Site) -> None:
        tree = site.get("/v1.0/tree")
        assert [(link["a"], link["b"]) for link in tree["blocked"]] == [("s2", "s3")] and len(tree["forwarding"]) == 5
        members = site.get("/v1.0/members")
        assert [member["name"] for member in members] == ["h1", "h2", "h3"] and members[0]["uncertainty_us"] == 40
        assert {flow["source"] for flow in site.get("/v1.0/flows")} <= {"h1", "h2", "h3"}
        assert site.get("/v1.0/thresholds")["version"] == 0
        assert site.get("/v1.0/coflows") == []

    def test_the_schedule_has_what_became_of_slots(self, site: Site) -> None:
        found = site.get("/v1.0/schedule?seconds=20")
        assert {slot["kind"] for slot in found["slots"]} == {"slot", "late", "yield", "lost"}
        assert found["now_us"] > 0 and all(slot["start_us"] <= slot["end_us"] for slot in found["slots"])

    def test_a_lost_coordinator_is_told_within_two_seconds(self, site: Site) -> None:
        site.feed.publish_status()
        assert site.get("/api/state")["coordinator"]["alive"]
        time.sleep(1.5)
        found = site.get("/api/state")
        assert not found["coordinator"]["alive"] and "baton up" in found["problem"]["remedy"]

    def test_without_a_store_every_path_says_so_and_what_to_do(self, site: Site) -> None:
        assert site.redis.process is not None
        site.redis.process.kill()
        site.redis.process.wait()
        for path in ("/v1.0/tree", "/api/state", "/api/events", "/v1.0/schedule"):
            time.sleep(0.26)
            answer = site.client.get(path)
            assert answer.status_code == 503 and set(answer.get_json()) == {"error", "remedy"}
        assert "baton_store_up 0.0" in site.client.get("/metrics").text


class TestChanging:
    """Users and tokens may change settings, and learn whether a change is in force."""

    def test_a_change_by_a_visitor_is_refused_and_not_made(self, site: Site) -> None:
        answers = [site.client.put("/v1.0/policy", json={"policy": "free"}), site.client.post("/api/control", json={})]
        assert [answer.status_code for answer in answers] == [401, 401]
        assert (site.store.policy() or {})["policy"] == "timeslice"

    def test_a_change_is_in_force_when_the_answer_comes(self, site: Site) -> None:
        site.coordinate()
        weights = [{"source": "h1", "destination": "", "weight": 2}]
        status, done = site.put(policy="rate_limit", slice_ns=5_000_000, override="free", weights=weights)
        assert status == 200 and done["taken"], done
        assert done["policy"]["policy"] == "rate_limit" and done["policy"]["override"] == "free"
        told = site.store.status() or {}
        assert (told["policy"], told["slice_ns"], told["override"]) == ("rate_limit", 5_000_000, "free")
        assert (site.store.policy() or {})["headroom"] == 0.99  # what was not named stays

    def test_who_did_it_is_in_the_audit_stream(self, site: Site) -> None:
        site.coordinate()
        site.put(override="free")
        entry = site.store.feeds.audit()[-1]
        assert entry["by"] == "token test" and "every gate open" in entry["text"]
        assert site.get("/api/audit")[-1]["who"] == "token test"

    def test_without_a_coordinator_it_is_set_for_the_next(self, site: Site) -> None:
        time.sleep(1.2)
        site.get("/api/state")
        time.sleep(1.2)
        status, done = site.put(policy="free")
        assert status == 202 and not done["taken"] and "no coordinator" in done["text"]
        assert (site.store.policy() or {})["policy"] == "free"

    @pytest.mark.parametrize(
        ("change", "status", "names"),
        [
            ({"policy": "chaos"}, 409, "chaos"),
            ({"slice_ns": 500_000}, 409, "minimum_active"),
            ({"slice_ns": 1}, 422, "slice_ns"),
            ({"weights": [{"source": "nobody", "weight": 2}]}, 409, "nobody"),
            ({"weights": [{"source": "h1", "weight": 0}]}, 422, "weights.0.weight"),
            ({"weights": [{"source": "h1", "weight": 1e-300}]}, 422, "0.01"),
            ({"override": "maybe"}, 422, "override"),
            ({"policies": "free"}, 422, "policies"),
            ({"policy": None}, 422, "policy: is null"),
            ({}, 422, "nothing to change"),
        ],
    )
    def test_what_can_not_be_names_the_field_and_changes_nothing(
        self, site: Site, change: dict[str, Any], status: int, names: str
    ) -> None:
        before = site.store.policy()
        found, told = site.put(**change)
        assert found == status and names in told["error"] and told["remedy"]
        assert site.store.policy() == before

    @pytest.mark.parametrize(
        ("body", "where"),
        [
            (b'{"policy": "free",\n "slice_ns": }', "line 2, column 14"),
            (b"", "line 1, column 1"),
            (b'{"policy": "\xff"}', "byte 12"),
            (b"[" * 10_000, "nested too deeply"),
            (b"1" * 5_000, "body"),
        ],
    )
    def test_what_is_not_json_is_told_with_its_place(self, site: Site, body: bytes, where: str) -> None:
        for path, send in (("/v1.0/policy", site.client.put), ("/api/control", site.client.post)):
            answer = send(path, data=body, headers=site.token, content_type="application/json")
            told = answer.get_json()
            assert answer.status_code in (400, 422) and where in told["error"] and told["remedy"]
        assert site.client.put("/v1.0/policy", data=b"{}", headers=site.token).status_code == 415

    @pytest.mark.parametrize(
        ("action", "field", "value"),
        [
            ({"action": "policy", "policy": "hybrid"}, "policy", "hybrid"),
            ({"action": "slice", "slice_ns": 4_000_000}, "slice_ns", 4_000_000),
            ({"action": "override", "override": "free"}, "override", "free"),
            ({"action": "weight", "source": "h1", "destination": "h2", "weight": 3}, "weights", [["h1", "h2", 3.0]]),
        ],
    )
    def test_each_control_of_the_dashboard_acts(self, site: Site, action: dict[str, Any], field: str, value: object) -> None:
        site.coordinate()
        answer = site.client.post("/api/control", json=action, headers=site.token)
        assert answer.status_code == 200, answer.text
        assert (site.store.status() or {})[field] == value

    def test_a_weight_of_one_takes_a_weight_away(self, site: Site) -> None:
        site.coordinate()
        for weight in (3, 1):
            action = {"action": "weight", "source": "h1", "destination": "h2", "weight": weight}
            assert site.client.post("/api/control", json=action, headers=site.token).status_code == 200
        assert (site.store.policy() or {})["weights"] == []

    @pytest.mark.parametrize("action", [{}, {"action": "weight"}, {"action": "policy"}, {"action": "explode"}, [], "free", 7])
    def test_half_a_control_is_refused(self, site: Site, action: object) -> None:
        answer = site.client.post("/api/control", json=action, headers=site.token)
        assert answer.status_code == 422 and answer.get_json()["error"]


# -- the description ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("rest")
    with PrivateRedis(directory) as redis:
        made = Site(directory, redis)
        time.sleep(2.1)  # its coordinator is gone, so that a change is answered at once
        yield made


@pytest.fixture(scope="module")
def schema(described: Site) -> Any:  # noqa: ANN401 -- schemathesis' own
    return schemathesis.openapi.from_wsgi("/openapi.json", described.app)


OPERATIONS = [(path, method.upper()) for path, methods in document()["paths"].items() for method in methods]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_as_the_description_says(
    described: Site,
    schema: Any,  # noqa: ANN401 -- schemathesis' own
    path: str,
    method: str,
    mode: GenerationMode,
) -> None:
    """What fits the description is taken, what does not is refused, and every answer is of a documented shape."""
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.path_parameters):
        return

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=described.token)

    ask()
