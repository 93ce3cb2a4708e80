"""Shares of processors for hosts: what can be provisioned, which cgroups do it, and how throttling is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.fabric import cpu_shares
from emulation.fabric.cpu_shares import Throttling, controller, sentence, shares_of
from emulation.fabric.naming import EmulationError

HOSTS = ("h1", "h2", "h3")


class TestProvisioning:
    """What a run may ask for."""

    def test_one_share_is_each_hosts(self) -> None:
        assert shares_of(HOSTS, 0.5, processors=2) == {"h1": 0.5, "h2": 0.5, "h3": 0.5}

    def test_hosts_that_are_not_named_have_no_limit(self) -> None:
        assert shares_of(HOSTS, {"h2": 2.0}, processors=2) == {"h2": 2.0}

    def test_all_that_there_is_can_be_given(self) -> None:
        assert sum(shares_of(HOSTS, 2 / 3, processors=2).values()) == pytest.approx(2)

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            (1.0, "3 hosts ask for 3 processors and there are 2; give them at most 0.67 each"),
            ({"h9": 0.5}, "'h9' is no host; name one of h1, h2, h3"),
            ({"h1": 0.01}, "h1 has 0.01 of a processor; give it at least 0.1"),
            (float("nan"), "give it at least 0.1"),
        ],
    )
    def test_what_cannot_be_is_said_in_one_line(self, wanted: float | dict[str, float], said: str) -> None:
        with pytest.raises(EmulationError, match=said) as refused:
            shares_of(HOSTS, wanted, processors=2)
        assert "\n" not in str(refused.value)


    def test_the_environment_may_ask_for_a_share(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(cpu_shares.WANTED, raising=False)
        assert cpu_shares.wanted() is None
        monkeypatch.setenv(cpu_shares.WANTED, "0.25")
        assert cpu_shares.wanted() == 0.25
        monkeypatch.setenv(cpu_shares.WANTED, "half")
        with pytest.raises(EmulationError, match=r"'half' is no share of a processor; write a number, such as 0\.25"):
            cpu_shares.wanted()


class TestControllers:
    """Where cgroups limit processors."""

    def test_version_1_by_its_mount_options(self, tmp_path: Path) -> None:
        mounts = f"cgroup {tmp_path}/cpuacct cgroup rw,cpuacct 0 0\ncgroup {tmp_path}/cpu cgroup rw,relatime,cpu 0 0\n"
        found = controller(mounts)
        assert found is not None and (found.root, found.version) == (tmp_path / "cpu", 1)

    def test_version_2_by_its_controllers(self, tmp_path: Path) -> None:
        mounts = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
        (tmp_path / "cgroup.controllers").write_text("memory pids\n")
        assert controller(mounts) is None
        (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
        found = controller(mounts)
        assert found is not None and (found.root, found.version) == (tmp_path, 2)

    def test_a_machine_that_mounts_no_cgroups_has_no_controller(self) -> None:
        assert controller("tmpfs /run tmpfs rw 0 0\n") is None


class TestThrottling:
    """How often a host had used up its share."""

    def test_both_versions_count_alike(self) -> None:
        first = Throttling.parse("nr_periods 100\nnr_throttled 7\nthrottled_time 5000000\nnr_bursts 0\nburst_time 0\n")
        second = Throttling.parse("usage_usec 9\nnr_periods 100\nnr_throttled 7\nthrottled_usec 5000\n")
        assert first == second == Throttling(100, 7, 5_000_000)

    def test_a_run_has_what_was_added_since_its_beginning(self) -> None:
        added = Throttling(150, 9, 6_500_000).since(Throttling(100, 7, 5_000_000))
        assert added.to_dict() == {"periods": 50, "throttled": 2, "waited_ms": 1.5}

    def test_a_sentence_names_the_host_that_waited_most_often(self) -> None:
        runs = [
            {"h1": Throttling(100, 3, 2_000_000).to_dict(), "h2": Throttling(100, 9, 8_000_000).to_dict()},
            {"h1": Throttling(100, 0, 0).to_dict(), "h2": Throttling(100, 1, 500_000).to_dict()},
        ]
        said = "2 of 2 hosts used up their share; h2 most often: in 10 of 200 periods of 10 ms, 8 ms in all"
        assert sentence(runs) == f"processors: {said}"
        assert sentence(runs[1:]).startswith("processors: 1 of 2 hosts") and sentence([]) == ""
        assert sentence([{"h1": Throttling(5, 0, 0).to_dict()}]) == "processors: no host used up its share"
