"""Lists in pages by HTTP, and the metrics of a large fabric, over a real store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from bench.dashboard.feed import Feed
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from webui.app import create_app
from webui.settings import WebSettings

HOSTS, FLOWS = 800, 3_000

pytestmark = needs.REDIS


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    directory = tmp_path_factory.mktemp("pages")
    with PrivateRedis(directory) as redis:
        feed = Feed(Store(redis.url), hosts=HOSTS, flows=FLOWS)
        feed.begin()
        feed.step()
        yield create_app(Store(redis.url), settings=WebSettings(users=directory / "users.json")).test_client()
        feed.store.close()


def test_pages_follow_one_another_by_their_links_until_all_flows_have_come(client: FlaskClient) -> None:
    path, found = "/v1.0/flows?sort=source&count=1000", []
    while path:
        answer = client.get(path)
        assert answer.status_code == 200 and answer.headers["X-Total-Count"] == str(FLOWS)
        found += [(row["source"], row["destination"]) for row in answer.get_json()]
        path = answer.headers.get("Link", "").partition("<")[2].partition(">")[0]
    assert len(found) == len(set(found)) == FLOWS


def test_without_parameters_come_the_busiest_flows_and_all_members_and_the_headers_tell_the_rest(client: FlaskClient) -> None:
    flows, members = client.get("/v1.0/flows"), client.get("/v1.0/members")
    assert len(flows.get_json()) == 2_000 and 'rel="next"' in flows.headers["Link"]
    assert len(members.get_json()) == HOSTS and "Link" not in members.headers
    one = client.get("/v1.0/members?search=10.0.0.77")
    assert [row["name"] for row in one.get_json()] == ["h77"] and one.headers["X-Matching-Count"] == "1"


@pytest.mark.parametrize("query", ["sort=colour", "order=sideways", "page=0", "count=5001", "search=" + "x" * 201])
def test_a_wrong_parameter_is_named_with_a_remedy(client: FlaskClient, query: str) -> None:
    answer = client.get(f"/v1.0/members?{query}")
    assert answer.status_code == 422
    assert answer.get_json()["error"].startswith(query.partition("=")[0]) and answer.get_json()["remedy"]


def test_the_metrics_have_series_by_group_and_none_by_host(client: FlaskClient) -> None:
    text = client.get("/metrics").get_data(as_text=True)
    series = [line for line in text.splitlines() if not line.startswith("#")]
    groups = len(client.get("/api/fabric").get_json()["groups"])
    assert len(series) < 10 * groups + 200
    assert f"baton_members {HOSTS}.0" in text and f"baton_flows {FLOWS}.0" in text and "baton_by_group 1.0" in text
    assert f'baton_group_members{{group="core"}} {HOSTS}.0' in text and 'baton_refused_total{by="members"' in text
    assert 'host="' not in text and "baton_link_load_ratio" not in text


def test_a_node_that_is_not_there_is_told(client: FlaskClient) -> None:
    assert client.get("/api/node/nowhere").status_code == 404
    assert client.get("/api/node/rack3").get_json()["kind"] == "switch"
