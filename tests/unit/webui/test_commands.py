"""What an operator's change does to the policy in the store, and what of it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from controller.config.settings import RANGES
from controller.policies import POLICIES
from webui.http import commands
from webui.http.commands import apply, change_of
from webui.http.errors import RequestRefused
from webui.http.schema import ControlRequest, PolicyChange, Weight


class Site:
    """A store with a policy, and a fabric of h1 and h2; no coordinator runs."""

    def __init__(self, *weights: list[Any]) -> None:
        self.policy: dict[str, Any] = {"weights": list(weights)}

    def change_policy(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.policy = make(self.policy)

    def read(self, fresh_ns: int) -> Any:  # noqa: ANN401 -- has what is read of a `Reading`
        assert fresh_ns == 0
        coordinator = {"policy": "timeslice", "slice_ns": 1, "override": "none"}
        return SimpleNamespace(
            alive=False,
            state={"coordinator": coordinator},
            snapshot=SimpleNamespace(documents={"policy": self.policy, "status": None}),
            picture=SimpleNamespace(fabric=SimpleNamespace(hosts=("h1", "h2"))),
        )

    def weigh(self, *weights: Weight) -> list[Any]:
        store: Any = self
        apply(store, store, lambda _: PolicyChange(weights=list(weights)))
        weighed: list[Any] = self.policy["weights"]
        return weighed


def weight(source: str, value: float, destination: str = "") -> Weight:
    return Weight(source=source, destination=destination, weight=value)


def test_a_weighted_host_that_is_away_does_not_stand_in_the_way_of_others() -> None:
    assert Site(["h9", "", 2.0]).weigh(weight("h9", 2), weight("h1", 3)) == [["h9", "", 2.0], ["h1", "", 3.0]]
    assert Site(["h1", "h9", 2.0], ["h1", "", 3.0]).weigh(weight("h1", 2, "h9")) == [["h1", "h9", 2.0]]


@pytest.mark.parametrize("new", [weight("h8", 2), weight("h1", 2, "h8")])
def test_a_new_weight_needs_hosts_of_the_fabric(new: Weight) -> None:
    site = Site(["h9", "", 2.0])
    with pytest.raises(RequestRefused, match="no host is named 'h8'"):
        site.weigh(weight("h9", 2), new)
    assert site.policy == {"weights": [["h9", "", 2.0]]}


def test_a_weight_that_another_operator_sets_at_the_same_moment_stays() -> None:
    class Shared(Site):
        def change_policy(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
            self.policy = {"weights": [["h2", "", 3.0]]}
            super().change_policy(make)

    site: Any = Shared()
    apply(site, site, lambda weights: change_of(ControlRequest(action="weight", source="h1", weight=2), weights))
    assert site.policy == {"weights": [["h2", "", 3.0], ["h1", "", 2.0]]}


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([weight("h1", 2), weight("h1", 3)], "weights: h1 -> all stands there twice"),
        ([weight("h1", 2, "h2"), weight("h2", 2, "h2")], "weights: h2 -> h2: a host sends nothing to itself"),
    ],
)
def test_weights_that_contradict_or_mean_nothing_are_refused(weights: list[Weight], says: str) -> None:
    site = Site()
    with pytest.raises(RequestRefused, match=says):
        site.weigh(*weights)
    assert site.policy == {"weights": []}


@pytest.mark.parametrize(("source", "destination", "says"), [("hl", "", "hl -> all"), ("h1", "h2", "h1 -> h2")])
def test_a_weight_that_there_is_not_is_not_removed_as_if_it_were(source: str, destination: str, says: str) -> None:
    """A mistyped host; and a pair that goes on having the weight of its source."""
    site: Any = Site(["h1", "", 2.0])
    one = ControlRequest(action="weight", source=source, destination=destination, weight=1)
    with pytest.raises(RequestRefused, match=f"{says} has no weight"):
        apply(site, site, lambda weights: change_of(one, weights))
    assert site.policy == {"weights": [["h1", "", 2.0]]}


def test_a_slice_may_be_what_the_configuration_takes() -> None:
    least_ns, most_ns = map(int, RANGES["slice_ns"])
    for slice_ns in (least_ns, most_ns):
        assert PolicyChange(slice_ns=slice_ns).slice_ns == slice_ns
    for slice_ns in (least_ns - 1, most_ns + 1):
        with pytest.raises(ValidationError, match="slice_ns"):
            PolicyChange(slice_ns=slice_ns)
    page = (Path(commands.__file__).parents[1] / "static" / "views" / "controls.js").read_text(encoding="utf-8")
    assert f'id: "slice", type: "number", min: {least_ns / 1e6:g}, max: {most_ns / 1e6:g}' in page


class TestPolicies:
    """The dashboard offers every policy, also while no coordinator tells which there are."""

    def test_the_server_offers_every_policy_that_can_be_made(self) -> None:
        assert tuple(POLICIES) == commands.POLICIES

    def test_the_page_has_a_word_about_each(self) -> None:
        page = Path(commands.__file__).parents[1] / "static" / "views" / "controls.js"
        table = re.search(r"const POLICIES = \{(.*?)\};", page.read_text(encoding="utf-8"))
        assert table is not None
        assert re.findall(r"(\w+): \"", table[1]) == list(POLICIES)


def test_of_a_change_of_many_weights_the_text_names_the_first_and_says_how_many_more() -> None:
    """Every page that opens gets the last hundred of these texts."""
    weights = [Weight(source=f"{'h' * 60}{at}", destination="d" * 64, weight=2) for at in range(1_000)]
    told = commands.describe(PolicyChange(weights=weights))
    assert told.endswith(" x2, 980 more") and len(told) < 3_000
    assert commands.describe(PolicyChange(weights=weights[:20])).count(" -> ") == 20


@pytest.mark.parametrize("weights", [None, 5, {"h1": 2}, "h1", [None, 7, [], ["h1"], ["h1", "", "2"], [["h1"], "", 2]]])
def test_weights_that_are_none_stand_in_the_way_of_no_change(weights: object) -> None:
    """Every gate could not be opened from the page while the policy's document had them."""
    site: Any = Site()
    site.policy = {"weights": weights, "minimum_active_ns": "1ms"}
    site.overrides = []
    site.set_override = site.overrides.append
    _, done = apply(site, site, lambda _: PolicyChange(override="free"))
    assert site.overrides == ["free"] and done["policy"]["weights"] == []
    apply(site, site, lambda _: PolicyChange(slice_ns=4_000_000))
    assert site.policy["slice_ns"] == 4_000_000
    assert site.weigh(weight("h1", 2)) == [["h1", "", 2.0]]


def test_policies_of_a_status_that_are_none_are_those_that_there_are_by_default() -> None:
    for told in (None, 5, "auto", [1]):
        reading = Site().read(0)
        reading.snapshot.documents["status"] = {"policies": told}
        assert commands.in_force(reading)["policies"] == list(commands.POLICIES)
