"""An agent restores what another program changes on its host, and status, store, events and doctor show it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulation.stack.star import Star, star

ROOT = Path(__file__).parents[3]
HOST = "h2"


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with star(coordinator={"slice": "10ms"}) as made:
        yield made


def baton(fabric: Star, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from cli.main import main; main()", *words]
    command += ["--run-dir", str(fabric.baton.directory / "run")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def doctor(fabric: Star) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(baton(fabric, "doctor", "--hosts", "--json").stdout)
    return found


def of_member(fabric: Star, name: str) -> dict[str, Any]:
    return next((member for member in fabric.baton.store.members().values() if member["name"] == name), {})


def test_a_root_qdisc_that_somebody_replaced_is_put_back_and_is_shown_by_status_store_events_and_doctor(fabric: Star) -> None:
    fabric.baton.wait(lambda: of_member(fabric, HOST).get("kernel") == platform.release(), "the host tells of itself")
    before, put_back = doctor(fabric), of_member(fabric, HOST)["put_back"]
    amiss = {"kernel", "version", "gate", "key", "agent"} | (set() if put_back else {"drift"})
    assert not [one for one in before["findings"] if one["what"] in amiss]
    assert {host["name"] for host in before["hosts"]} == {f"h{number}" for number in range(1, 7)}

    interface = fabric.emulated.interface(HOST)
    fabric.emulated.run_in(HOST, "tc", "qdisc", "replace", "dev", interface, "root", "pfifo", "limit", "9")
    fabric.baton.wait(lambda: "htb" in fabric.emulated.run_in(HOST, "tc", "qdisc", "show", "dev", interface), "it is put back")
    fabric.baton.wait(lambda: of_member(fabric, HOST)["put_back"] > put_back, "the coordinator knows")

    member = of_member(fabric, HOST)
    assert f"put back: {interface}: qdisc htb 1: is " in member["drift"][-1]
    assert not of_member(fabric, "h1")["drift"]

    def told() -> bool:
        return any(one["kind"] == "drift" and one["text"].startswith(f"{HOST}: ") for one in fabric.baton.store.events(100))

    fabric.baton.wait(told, "an event")
    assert f"{HOST}: put back: " in baton(fabric, "status").stdout.replace("\n", " ")
    answer = baton(fabric, "doctor", "--hosts", "--json")
    drifted = [one for one in json.loads(answer.stdout)["findings"] if one["what"] == "drift"]
    assert [one["host"] for one in drifted] == [HOST]
    assert drifted[0]["remedy"]
    assert answer.returncode == 1
    assert HOST in baton(fabric, "doctor", "--hosts").stdout


def test_a_host_whose_interface_gets_another_mac_address_is_a_member_with_that_one(fabric: Star) -> None:
    fabric.baton.wait(lambda: bool(of_member(fabric, "h3")), "it is a member")
    other = "02:00:00:00:33:03"
    fabric.emulated.run_in("h3", "ip", "link", "set", fabric.emulated.interface("h3"), "address", other)
    fabric.baton.wait(lambda: of_member(fabric, "h3").get("mac") == other, "it is a member with the other address")
    assert [member["mac"] for member in fabric.baton.store.members().values() if member["name"] == "h3"] == [other]


def test_hosts_on_one_machine_have_one_clock_kernel_and_key(fabric: Star) -> None:
    fabric.baton.wait(lambda: all("offset_us" in m for m in fabric.baton.store.members().values()), "clocks are known")
    hosts = doctor(fabric)["hosts"]
    assert len({(host["kernel"], host["key"], host["version"]) for host in hosts}) == 1
    assert all(abs(host["offset_us"]) < 50_000 + host["uncertainty_us"] for host in hosts)
    secret = (fabric.baton.directory / "key").read_text().strip()
    assert secret not in json.dumps(hosts)


def test_a_host_without_an_agent_is_named(fabric: Star) -> None:
    agent = fabric.baton.agents[HOST]
    agent.terminate()
    agent.wait(10)
    fabric.baton.wait(lambda: not of_member(fabric, HOST), "it has left")
    time.sleep(0.3)
    missing = [one for one in doctor(fabric)["findings"] if one["what"] == "agent"]
    assert [one["host"] for one in missing] == [HOST]
