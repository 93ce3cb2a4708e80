"""A short seeded run of the fuzzer of LLDP; `baton bench fuzz` is the long one."""

from __future__ import annotations

import pytest

from bench.fuzz import lldp
from controller.openflow.discovery import Discovery
from controller.openflow.intake.lldp import Doubt, Lldp


def test_no_lldp_of_a_host_changes_the_network_beyond_its_port() -> None:
    found = lldp.fuzz(4.0, seed=7)
    assert found["crashes"] == 0, found["first_crashes"]
    assert found["accepted_forgeries"] == 0, found["first_forgeries"]
    assert found["runs"] > 200 and found["forgeries"] > 80
    assert all(found["doubted"][f"lldp_{doubt.value}"] for doubt in Doubt), "otherwise the run shows nothing"


def test_without_the_tag_forgeries_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lldp, "_tag", lambda *_: bytes(16))
    assert lldp.fuzz(1.0, seed=8)["accepted_forgeries"]


def test_an_error_of_discovery_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("port")

    monkeypatch.setattr(Discovery, "lldp_doubted", broken)
    assert lldp.fuzz(1.0, seed=9)["crashes"]


def test_a_port_without_a_bound_of_addresses_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unbounded(Discovery):
        """Keeps every address."""

        def __init__(self, **_: int) -> None:
            super().__init__(hosts_per_port=100_000)

    monkeypatch.setattr(lldp, "Discovery", Unbounded)
    assert lldp.fuzz(5.0, seed=10)["crashes"]
