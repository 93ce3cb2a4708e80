"""A short siege on an emulated fabric; `baton bench siege` is the long one."""

from __future__ import annotations

from bench.siege import rates
from bench.siege.siege import Options, run

SECONDS = 8.0


def test_coordination_goes_on_under_siege() -> None:
    """Against the undisturbed run: in a test the machine may have other work, which takes a page's or a slot's time."""
    found = run(Options(seconds=SECONDS))
    print({verdict["target"]: verdict["found"] for verdict in found["verdicts"]}, found["sent"], found["refused"])
    verdicts = {verdict["target"]: verdict["holds"] for verdict in found["verdicts"]}
    assert verdicts["goodput, of as many harmless frames"] and verdicts["pings lost"] and verdicts["late slots"]
    assert verdicts["processes that restarted"] and verdicts["descriptors after the siege"]
    assert verdicts["floods that arrived and were counted"], found["refused"]
    assert found["sent"].keys() >= {*rates.STRANGER, *rates.TENANT, *rates.KEYED}
    assert "host_moved" not in found["events"]
