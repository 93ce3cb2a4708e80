"""Queues that somebody else made or changed at an agent's interface: it finds, restores, refuses or leaves them."""

from __future__ import annotations

import errno
import itertools
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.kernel import snapshot
from agents.kernel.netlink import Netlink, NetlinkError
from agents.kernel.snapshot import ForeignQdisc, InterfaceInUse
from agents.loop.throttle import Throttle
from agents.membership.upkeep import CHECK_NS, Upkeep
from agents.priorities.tagger import Tagger
from agents.queues.host import Host
from tests.emulation.agents.queues.gated_wire import LEFT, OTHER, QDISCS, RATE, RIGHT, Wire, needs
from tests.emulation.namespaces import Pair, inside, pair, run
from topology.pieces import finished


def test_a_kicks_filter_that_somebody_deleted_is_put_back(wire: Wire) -> None:
    run("ip", "netns", "exec", wire.pair.left, "tc", "filter", "del", "dev", "eth0", "parent", "1:", "pref", "1")
    assert wire.host.queues.repair() == ["eth0: the filter of frames that wake the queues is missing"]
    assert wire.host.queues.repair() == []


@pytest.mark.parametrize("removed", [("qdisc", "clsact"), ("filter", "egress")])
def test_a_classifier_that_somebody_removed_is_put_back(either: Wire, removed: tuple[str, ...]) -> None:
    run("ip", "netns", "exec", either.pair.left, "tc", removed[0], "del", "dev", "eth0", *removed[1:])
    assert "classify" not in either.pair.found()
    assert looked_after(either) == ["eth0: the classifier is missing"]
    assert "classify" in either.pair.found()
    either.host.close_gate(16)
    either.send(20)
    assert either.received() <= 1
    assert looked_after(either) == []


def looked_after(wire: Wire) -> list[str]:
    """What an agent puts back that looks after all it has set up."""
    part = upkeep(wire.host)
    with inside(wire.pair.left):
        part.advance(time.monotonic_ns() + CHECK_NS)
    return list(part._lines)


def upkeep(host: Host) -> Upkeep:
    agent: Any = SimpleNamespace(member=False, rules=SimpleNamespace(reapply=lambda: None))
    keeper: Any = SimpleNamespace(rebuilt=lambda now_ns: None)
    parts: Any = SimpleNamespace(repair=list, warnings=list)
    return Upkeep(agent, host, keeper, parts, agent, Throttle(time.monotonic_ns))


def test_what_somebody_else_changed_is_found_and_put_back(either: Wire) -> None:
    assert either.host.queues.repair() == []
    tc = ("ip", "netns", "exec", either.pair.left, "tc")
    run(*tc, "class", "change", "dev", "eth0", "classid", "1:1", "htb", "rate", "5mbit")
    run(*tc, "class", "del", "dev", "eth0", "classid", "1:11")
    lines = "\n".join(either.host.queues.repair())
    assert "class 1:1 is limited" in lines
    assert "class 1:11 is missing" in lines
    assert either.host.queues.repair() == []
    shown = either.pair.found()
    assert "class htb 1:1 root rate 100Mbit ceil 100Mbit" in shown
    assert "class htb 1:11 parent 1:1" in shown


def test_a_look_that_takes_many_steps_finds_what_one_finds_and_nothing_wrong_in_what_was_made_meanwhile(wire: Wire) -> None:
    look = wire.host.queues.drift_steps()
    next(look)
    next(look)
    wire.host.queues.ensure_destination(40)
    assert finished(look) == []
    look = wire.host.queues.drift_steps()
    next(look)
    assert wire.host.queues.drift() == []  # one at once, while the other is not at its end
    run("ip", "netns", "exec", wire.pair.left, "tc", "class", "del", "dev", "eth0", "classid", f"1:{40:x}")
    steps = list(wire.host.queues.drift_steps())
    assert len(steps) > 5
    assert any("class 1:28 is missing" in line for line in finished(wire.host.queues.drift_steps()))
    wire.host.queues.repair()


def test_a_gate_that_the_kernel_refused_is_made_with_the_next_repair(either: Wire) -> None:
    run("ip", "netns", "exec", either.pair.left, "tc", "qdisc", "del", "dev", "eth0", "root")
    with pytest.raises(NetlinkError):
        either.host.queues.ensure_flow(LEFT, OTHER, 40)
    assert "eth0: the gate of destination 28 is missing" in either.host.queues.repair()
    assert either.host.queues.destinations()[40] == [(LEFT, OTHER, 0)]
    assert either.host.queues.repair() == []
    assert "class htb 1:28 parent 1:1" in either.pair.found()


def test_gates_that_the_kernel_refused_while_all_were_made_anew_are_made_with_the_next_repair(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = wire.host.queues
    for node in range(20, 30):
        queues.ensure_flow(LEFT, OTHER, node)
    wanted = queues.destinations()
    batch, before, batches = Netlink.batch, queues.version, itertools.count()

    def interfered(netlink: Netlink, messages: list[bytes]) -> None:
        if next(batches) == 9:
            run("ip", "netns", "exec", wire.pair.left, "tc", "qdisc", "del", "dev", "eth0", "root")
        batch(netlink, messages)

    run("ip", "netns", "exec", wire.pair.left, "tc", "qdisc", "del", "dev", "eth0", "root")
    monkeypatch.setattr(Netlink, "batch", interfered)
    with pytest.raises(NetlinkError):
        queues.repair()
    assert queues.version != before
    monkeypatch.undo()
    assert queues.repair()
    assert queues.destinations() == wanted
    assert queues.repair() == []


@pytest.mark.parametrize(
    ("before", "gate"),
    [(before, "tbf") for before in ("", "tbf", "pfifo", "fq_codel", "fq", "sfq", "netem")] + [("fq_codel", "plug")],
)
def test_the_interface_is_as_it_was_found(before: str, gate: str, tmp_path: Path) -> None:
    needs(gate)
    with pair() as ends:
        if before:
            needs(before)
            tc = ("ip", "netns", "exec", ends.left, "tc")
            run(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "7:", before, *QDISCS[before])
        found = ends.found()
        with inside(ends.left):
            host = Host("eth0", RATE, gate_kind=gate, run_dir=tmp_path)
            assert ends.found() != found
            host.close()
        assert ends.found() == found
        assert not list(tmp_path.glob("agent-*.json"))


@pytest.mark.parametrize("kind", ["pfifo", "tbf"])
def test_what_an_interfaces_qdisc_adds_to_each_packets_size_comes_back(kind: str, tmp_path: Path) -> None:
    needs(kind)
    with pair() as ends, inside(ends.left):
        run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "stab", "overhead", "38", kind, *QDISCS[kind])
        found, sizes = ends.found(), run("tc", "-d", "qdisc", "show", "dev", "eth0", "root")
        Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path).close()
        assert ends.found() == found
        assert "overhead 38" in sizes and run("tc", "-d", "qdisc", "show", "dev", "eth0", "root") == sizes


def test_a_qdisc_with_a_table_of_sizes_is_refused_and_untouched(tmp_path: Path) -> None:
    """The kernel's dump has all of it but the table."""
    with pair() as ends, inside(ends.left):
        stab = ("stab", "overhead", "38", "linklayer", "atm")
        run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", *stab, "pfifo", "limit", "77")
        found = ends.found()
        with pytest.raises(ForeignQdisc, match=r"root qdisc is pfifo 7: with a table of sizes \(stab\), which"):
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert ends.found() == found
        Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path, take_over=True).close()


@pytest.mark.parametrize("kind", ["fq_codel", "sfq"])
def test_a_qdisc_with_filters_of_its_own_is_refused_and_untouched(kind: str, tmp_path: Path) -> None:
    needs(kind)
    with pair() as ends, inside(ends.left):
        run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", kind, *QDISCS[kind])
        run("tc", "filter", "add", "dev", "eth0", "parent", "7:", "protocol", "ip", *DST, "flowid", "7:1")
        found = ends.found()
        with pytest.raises(ForeignQdisc, match=f"root qdisc is {kind} 7: with filters of its own, which"):
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert ends.found() == found


def test_a_clsact_that_shares_its_filters_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        run("tc", "qdisc", "add", "dev", "eth0", "egress_block", "22", "clsact")
        with pytest.raises(ForeignQdisc, match=r"clsact shares block 22 .*; give it one of its own") as refused:
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        for command in str(refused.value).partition("(")[2].rstrip(")").split("; "):
            run(*command.split())
        Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path).close()


def _with_own_root(ends: Pair) -> None:
    """Gives the interface a root qdisc of its own, as an administrator does."""
    run("tc", "-n", ends.left, "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "pfifo", "limit", "77")


def test_after_a_crash_the_next_start_puts_back_what_the_first_found(tmp_path: Path) -> None:
    with pair() as ends:
        _with_own_root(ends)
        found = ends.found()
        with inside(ends.left):
            crashed = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            crashed.link.close()  # and nothing else: as after kill -9
            with pytest.raises(InterfaceInUse, match="eth0: an agent runs there already"):
                Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            crashed._state._locked.close()  # as the kernel does when its process ends
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path).close()
        assert ends.found() == found


def test_what_a_killed_agent_left_whose_record_is_gone_keeps_no_other_out(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        killed = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        killed.link.close()
        killed._state._locked.close()
        killed._state.path.unlink()
        with pytest.raises(ForeignQdisc, match="tc qdisc del dev eth0 root"):
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        run("tc", "qdisc", "del", "dev", "eth0", "root")  # as it says
        Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path).close()
        assert "classify" not in ends.found()


def test_a_second_agent_with_another_run_dir_is_told_of_the_first_one(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        first = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path / "first")
        found = ends.found()
        with pytest.raises(ForeignQdisc, match=r"eth0: another agent of Baton, .* another --run-dir") as refused:
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path / "second")
        assert "Baton did not make" not in str(refused.value) and "stop that agent first" in str(refused.value)
        assert ends.found() == found
        first.close()
        Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path / "second").close()


def test_after_a_crash_a_qdisc_that_somebody_made_since_is_refused_and_untouched(tmp_path: Path) -> None:
    needs("htb")
    with pair() as ends:
        tc = ("ip", "netns", "exec", ends.left, "tc")
        _with_own_root(ends)
        with inside(ends.left):
            crashed = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            crashed.link.close()
            crashed._state._locked.close()
            run(*tc, "qdisc", "del", "dev", "eth0", "root")
            run(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "3")
            run(*tc, "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:3", "htb", "rate", "50mbit")
            for _ in range(2):
                with pytest.raises(ForeignQdisc, match="root qdisc is htb 1:"):
                    Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert "class htb 1:3 root prio 0 rate 50Mbit" in ends.found()
        assert "classify" not in ends.found()
        assert not list(tmp_path.glob("agent-*.json"))


def test_a_qdisc_with_one_below_it_is_refused_and_untouched(tmp_path: Path) -> None:
    with pair() as ends:
        tc = ("ip", "netns", "exec", ends.left, "tc")
        run(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "9:", "tbf", *QDISCS["tbf"])
        run(*tc, "qdisc", "add", "dev", "eth0", "parent", "9:1", "handle", "10:", "pfifo", "limit", "5")
        found = ends.found()
        with inside(ends.left):
            with pytest.raises(ForeignQdisc, match="root qdisc is tbf 9: with pfifo 10: below it"):
                Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            assert ends.found() == found
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path, take_over=True).close()


def test_an_interface_is_put_back_also_if_its_queues_are_gone_and_a_gate_was_moved_since(tmp_path: Path) -> None:
    with pair() as ends:
        tc = ("ip", "netns", "exec", ends.left, "tc")
        _with_own_root(ends)
        found = ends.found()
        with inside(ends.left):
            host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            host.queues.ensure_destination(16)
            run(*tc, "qdisc", "del", "dev", "eth0", "root")
            host.open_gate(16)
            host.close()
        assert ends.found() == found
        assert not list(tmp_path.glob("agent-*.json"))


def test_what_cannot_be_put_back_keeps_nothing_else_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise NetlinkError(errno.EPERM, "not here")

    with pair() as ends:
        _with_own_root(ends)
        with inside(ends.left):
            host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            monkeypatch.setattr(snapshot, "set_segments", refused)
            with pytest.raises(NetlinkError, match="not here"):
                host.close()
        assert [(row["kind"], row["handle"]) for row in ends.tc("qdisc", "show", "dev", "eth0")] == [("pfifo", "7:")]


def test_an_interface_that_got_another_name_meanwhile_is_put_back(tmp_path: Path) -> None:
    with pair() as ends:
        _with_own_root(ends)
        found = ends.found()
        with inside(ends.left):
            host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            _rename(ends, "eth0", "lan0")
            host.close()
        _rename(ends, "lan0", "eth0")
        assert ends.found() == found
        assert not list(tmp_path.glob("agent-*.json"))


def test_an_interface_that_gets_the_name_of_a_renamed_one_has_an_agent_of_its_own(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        first = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        _rename(ends, "eth0", "lan0")
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        run("ip", "link", "set", "eth0", "up")
        second = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert all("qdisc htb 1: root" in run("tc", "qdisc", "show", "dev", name) for name in ("lan0", "eth0"))
        for host in first, second:
            host.close()
        assert not any("htb" in run("tc", "qdisc", "show", "dev", name) for name in ("lan0", "eth0"))
        assert not list(tmp_path.iterdir())


def test_what_a_killed_agent_left_is_put_back_under_the_interfaces_new_name(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        _with_own_root(ends)
        killed = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        killed.link.close()
        killed._state._locked.close()
        _rename(ends, "eth0", "lan0")
        Host("lan0", RATE, gate_kind="tbf", run_dir=tmp_path).close()
        assert "qdisc pfifo 7: root" in run("tc", "qdisc", "show", "dev", "lan0")


def test_another_interface_that_has_the_name_by_now_is_left_alone(tmp_path: Path) -> None:
    with pair() as ends:
        _with_own_root(ends)
        with inside(ends.left):
            host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
            run("ip", "-n", ends.left, "link", "del", "eth0")
            run("ip", "-n", ends.left, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
            found = ends.found()
            host.close()
        assert ends.found() == found
        assert not list(tmp_path.glob("agent-*.json"))


def _rename(ends: Pair, before: str, after: str) -> None:
    run("ip", "-n", ends.left, "link", "set", before, "down")
    run("ip", "-n", ends.left, "link", "set", before, "name", after, "up")


def test_who_interrupts_a_start_finds_the_interface_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(netlink: Netlink, whole: bytes | bytearray) -> None:
        monkeypatch.undo()
        netlink._socket.send(whole)  # and its answer stays unread
        raise KeyboardInterrupt

    with pair() as ends, inside(ends.left):
        _with_own_root(ends)
        found = ends.found()
        monkeypatch.setattr(Netlink, "request", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert ends.found() == found
        assert not list(tmp_path.glob("agent-*.json"))


def test_a_foreign_filter_at_the_same_hook_stays(tmp_path: Path) -> None:
    with pair() as ends:
        tc = ("ip", "netns", "exec", ends.left, "tc")
        run(*tc, "qdisc", "add", "dev", "eth0", "clsact")
        run(*tc, "filter", "add", "dev", "eth0", "egress", "pref", "9", "protocol", "ip", "u32", "match", "u32", "0", "0")
        found = ends.found()
        with inside(ends.left):
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path).close()
        assert ends.found() == found


DST = ("u32", "match", "ip", "dst", "10.9.0.2/32")
MIRROR = ("action", "mirred", "egress", "mirror", "dev", "lo")


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        ((*DST, *MIRROR), True),
        ((*DST, *MIRROR, "continue"), False),
        ((*DST, *MIRROR, "pipe", "action", "gact", "continue"), False),
        ((*DST, *MIRROR, "pipe", "action", "gact", "ok"), True),
        ((*DST, "action", "skbedit", "mark", "7", "continue"), False),
        (("u32", "match", "u32", "0", "0"), True),
        (("matchall", "action", "gact", "continue"), False),
        (("bpf", "bytecode", "1,6 0 0 4294967295"), True),
        (("bpf", "da", "bytecode", "1,6 0 0 0"), True),
    ],
)
def test_a_filter_of_others_that_may_keep_packets_from_the_classifier_is_warned_of(
    wire: Wire, rule: tuple[str, ...], ends: bool
) -> None:
    tc = ("ip", "netns", "exec", wire.pair.left, "tc", "filter")
    wire.host.free_senders(16, 60_000)
    made = subprocess.run((*tc, "add", "dev", "eth0", "egress", "pref", "10", "protocol", "ip", *rule), check=False)
    if made.returncode:
        pytest.skip(f"this kernel lacks {rule[0]} or its action")
    assert wire.host.flows.repair() == []
    assert wire.host.flows.warnings() == [
        "eth0: egress filter pref 10 may let packets past Baton's; end it with `continue` (TC_ACT_UNSPEC), "
        "or give it a preference above 47811"
    ] * ends
    assert outstanding(wire) == 0, "what is released would pass the other filter twice"
    run(*tc, "del", "dev", "eth0", "egress", "pref", "10")
    assert wire.host.flows.repair() == wire.host.flows.warnings() == []
    assert outstanding(wire) == 60_000


def outstanding(wire: Wire) -> int:
    return int.from_bytes(wire.host.flows._outstanding.get((16).to_bytes(4, "little")) or b"", "little")


def test_filters_of_others_after_batons_are_not_warned_of(wire: Wire) -> None:
    tc = ("ip", "netns", "exec", wire.pair.left, "tc", "filter")
    run(*tc, "add", "dev", "eth0", "egress", "pref", "47812", "protocol", "ip", *DST)
    assert wire.host.flows.repair() == wire.host.flows.warnings() == []


def test_a_filter_that_was_there_at_the_start_is_warned_of_and_told_when_it_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with pair() as ends, inside(ends.left):
        run("tc", "qdisc", "add", "dev", "eth0", "clsact")
        run("tc", "filter", "add", "dev", "eth0", "egress", "pref", "10", "protocol", "ip", *DST)
        host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert host.flows.warnings()
        part = upkeep(host)
        for second in 1, 2:
            part.advance(time.monotonic_ns() + second * CHECK_NS)
        said = "eth0: egress filter pref 10 may let packets past Baton's"
        assert caplog.text.count(said) == 1 and caplog.text.count("no longer") == 0
        run("tc", "filter", "del", "dev", "eth0", "egress", "pref", "10")
        part.advance(time.monotonic_ns() + 3 * CHECK_NS)
        assert caplog.text.count(f"no longer: {said}") == 1
        host.close()


def test_an_ingress_qdisc_which_has_no_egress_is_refused_and_untouched(tmp_path: Path) -> None:
    """The kernel takes a filter for its egress, and runs it on what comes in."""
    with pair() as ends, inside(ends.left):
        run("tc", "qdisc", "add", "dev", "eth0", "ingress")
        found = ends.found()
        for take_over in (False, True):
            with pytest.raises(ForeignQdisc, match="ingress qdisc, where Baton needs clsact"):
                Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path, take_over=take_over)
        assert ends.found() == found
        assert not list(tmp_path.glob("agent-*.json"))


def test_an_ingress_qdisc_that_somebody_made_since_stays(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        run("tc", "qdisc", "del", "dev", "eth0", "clsact")
        run("tc", "qdisc", "add", "dev", "eth0", "ingress")
        host.close()
        assert "qdisc ingress" in ends.found()


def test_no_filter_is_put_back_into_an_ingress_qdisc_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pair() as ends, inside(ends.left):
        host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        tagger = Tagger("eth0")
        run("tc", "qdisc", "del", "dev", "eth0", "clsact")
        run("tc", "qdisc", "add", "dev", "eth0", "ingress")
        for _ in range(2):
            assert host.flows.repair() == [] and not tagger.repair()
        assert run("tc", "filter", "show", "dev", "eth0", "ingress") == ""
        assert caplog.text.count("ingress qdisc, where Baton needs clsact") == 1
        run("tc", "qdisc", "del", "dev", "eth0", "ingress")
        assert tagger.repair() and host.flows.repair() == ["eth0: the classifier is missing"]
        tagger.close()
        host.close()


def test_an_interface_that_vanishes_during_a_look_makes_no_queue_seem_missing(tmp_path: Path) -> None:
    """The kernel goes on with its dump by the interface's place among all, and marks nothing."""
    with pair() as ends, inside(ends.left):
        for first in "a", "b":  # a before b
            run("ip", "link", "add", f"{first}0", "type", "veth", "peer", "name", f"{first}1")
        run("ip", "link", "set", "b0", "up")
        host = Host("b0", RATE, gate_kind="tbf", run_dir=tmp_path)
        for node in range(16, 216):
            host.queues.ensure_flow(LEFT, RIGHT, node)
        look = host.queues.drift_steps()
        next(look)
        run("ip", "link", "del", "a0")
        assert finished(look) == []
        run("tc", "qdisc", "del", "dev", "b0", "parent", "1:20")
        assert any("qdisc tbf 20: is missing" in line for line in host.queues.drift())
        host.close()


@pytest.mark.parametrize("kind", ["htb", "prio"])
def test_a_foreign_classful_qdisc_is_refused_and_untouched(kind: str, tmp_path: Path) -> None:
    needs(kind)
    with pair() as ends:
        tc = ("ip", "netns", "exec", ends.left, "tc")
        run(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "9:", kind, *QDISCS[kind])
        found = ends.found()
        with inside(ends.left), pytest.raises(ForeignQdisc, match=f"root qdisc is {kind} 9:"):
            Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert ends.found() == found


def test_an_interface_without_a_mac_address_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        before = run("tc", "qdisc", "show", "dev", "lo")
        with pytest.raises(OSError, match="has no MAC address; name an Ethernet interface"):
            Host("lo", RATE, gate_kind="tbf", run_dir=tmp_path)
        assert run("tc", "qdisc", "show", "dev", "lo") == before and not list(tmp_path.iterdir())
