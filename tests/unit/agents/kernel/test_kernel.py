"""Which gate follows from what a kernel has; no kernel is asked."""

import pytest

from agents.kernel import probe
from agents.kernel.features import CANDIDATES, Feature, GateUnavailable, chosen_gate
from agents.kernel.probe import probed_gate, timers_are_fine


def kernel(**qdiscs: bool) -> list[Feature]:
    return [
        Feature(name, "qdisc", present, "other", f"modprobe sch_{name}") for name, present in qdiscs.items()
    ]


def test_auto_is_the_credit_gate_even_where_plug_is_there() -> None:
    assert chosen_gate(kernel(plug=True, tbf=True), "auto") == "tbf"
    assert chosen_gate(kernel(plug=False, tbf=True), "auto") == "tbf"


@pytest.mark.parametrize("wanted", ["tbf", "plug"])
def test_a_wish_that_the_kernel_can_meet_is_met(wanted: str) -> None:
    assert chosen_gate(kernel(plug=True, tbf=True), wanted) == wanted


def test_a_missing_plug_is_refused_with_its_module_and_the_gate_that_is_there() -> None:
    with pytest.raises(GateUnavailable, match=r"^gate: 'plug' .*modprobe sch_plug; or use 'tbf'$"):
        chosen_gate(kernel(plug=False, tbf=True), "plug")


def test_auto_never_turns_a_limit_in_bytes_into_one_in_time() -> None:
    with pytest.raises(GateUnavailable, match=r"^gate: 'tbf' .*modprobe sch_tbf; or use 'plug'$"):
        chosen_gate(kernel(plug=True, tbf=False), "auto")


def test_a_kernel_with_neither_gate_is_not_offered_one() -> None:
    with pytest.raises(GateUnavailable) as refused:
        chosen_gate(kernel(plug=False, tbf=False), "auto")
    assert "or use" not in str(refused.value)


def test_a_feature_of_another_kind_with_the_gates_name_does_not_count() -> None:
    with pytest.raises(GateUnavailable, match="modprobe sch_plug"):
        chosen_gate([Feature("plug", "tool", True, "", "")], "plug")


@pytest.mark.parametrize("wanted", ["", "TBF", "netem"])
def test_an_unknown_wish_is_refused_with_the_choices(wanted: str) -> None:
    with pytest.raises(GateUnavailable, match=r"^gate: .* is not a gate; use 'auto', 'tbf' or 'plug'$"):
        chosen_gate(kernel(plug=True, tbf=True), wanted)


@pytest.mark.parametrize(
    ("psched", "fine"),
    [
        ("000003e8 00000040 000f4240 3b9aca00\n", True),
        ("000003e8 00000040 000f4240 000000fa\n", False),  # 250 Hz: timers wait for the tick
        ("000003e8 00000040 000f4240\n", False),
        ("000003e8 00000040 000f4240 nonsense\n", False),
        ("", False),
    ],
)
def test_timers_are_fine_only_at_a_nanoseconds_resolution(psched: str, fine: bool) -> None:
    assert timers_are_fine(psched) is fine


def test_a_plug_that_this_kernel_lacks_is_refused_before_an_interface_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the agent would hold back nothing, and nobody would know."""
    monkeypatch.setattr(probe, "_require_namespaces", lambda: None)
    monkeypatch.setattr(probe, "_accepted", lambda *commands: "plug" not in commands[0])
    with pytest.raises(GateUnavailable, match="'plug' is not in this kernel"):
        probed_gate("plug")
    assert probed_gate("auto") == probed_gate("tbf") == "tbf"
    monkeypatch.setattr(probe, "_accepted", lambda *commands: True)
    assert probed_gate("plug") == "plug"


def test_each_feature_has_one_way_to_try_it() -> None:
    assert sorted(tried.name for tried in CANDIDATES if tried.trial is None) == sorted(probe._TRIALS)
