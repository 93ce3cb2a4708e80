"""The filters of others that stand before Baton's at an interface's egress. Pure: reads what the kernel's dump says.

The kernel asks filters in the order of their preferences, and the first that gives a packet a verdict ends the chain: none
after it sees that packet. Only a filter whose actions end with `continue` (TC_ACT_UNSPEC) goes on to the next (tcf_classify
in net/sched/cls_api.c).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from agents.kernel.netlink import Entry, attributes
from agents.kernel.snapshot import CLASSIFIER_PREFERENCE, NIC_CLASS_PREFERENCE, TAGGER_PREFERENCE

OURS = frozenset({TAGGER_PREFERENCE, CLASSIFIER_PREFERENCE, NIC_CLASS_PREFERENCE})
TC_ACT_UNSPEC, TC_ACT_PIPE = -1, 3
TCA_ACT_KIND, TCA_ACT_OPTIONS = 1, 2
TCA_U32_SEL = 5
_ACTIONS = {"u32": 7, "matchall": 2, "flower": 3, "bpf": 1, "basic": 3, "fw": 4}
"""By kind of filter: the attribute that has its actions (linux/pkt_cls.h)."""
_PARAMETERS = {
    "mirred": 2, "gact": 2, "skbedit": 2, "vlan": 2, "pedit": 2, "bpf": 2, "sample": 2, "tunnel_key": 2, "csum": 1, "nat": 1
}  # fmt: skip
"""By kind of action: the attribute that begins with the fields of all actions (tc_gen in linux/pkt_cls.h)."""
_CONTROL = struct.Struct("=8xi")


@dataclass(frozen=True, slots=True)
class Before:
    """The preferences of filters that others have before Baton's: of all, and of those that may end the chain."""

    standing: tuple[int, ...] = ()
    ending: tuple[int, ...] = ()


def before_ours(found: Iterable[Entry]) -> Before:
    """What stands before Baton's filters in a dump of one hook."""
    standing: dict[int, bool] = {}
    for entry in found:
        preference = entry.info >> 16
        if entry.chain == 0 and preference < CLASSIFIER_PREFERENCE and preference not in OURS and _is_rule(entry):
            standing[preference] = standing.get(preference, False) or not _goes_on(entry)
    return Before(tuple(sorted(standing)), tuple(sorted(preference for preference, ends in standing.items() if ends)))


def _is_rule(entry: Entry) -> bool:
    """The kernel also dumps what rules stand in: each preference, and hash tables of u32."""
    return bool(entry.options) and (entry.kind != "u32" or TCA_U32_SEL in dict(attributes(entry.options)))


def _goes_on(entry: Entry) -> bool:
    """Whether packets surely reach the next filter; not of a program, whose result is its own."""
    actions = dict(attributes(entry.options)).get(_ACTIONS.get(entry.kind, 0), b"")
    for _, action in attributes(actions):
        control = _control(dict(attributes(action)))
        if control != TC_ACT_PIPE:
            return control == TC_ACT_UNSPEC
    return False


def _control(action: dict[int, bytes]) -> int | None:
    """What follows an action; None: not known."""
    kind = action.get(TCA_ACT_KIND, b"").rstrip(b"\0").decode()
    parameters = dict(attributes(action.get(TCA_ACT_OPTIONS, b""))).get(_PARAMETERS.get(kind, 0), b"")
    return int(_CONTROL.unpack_from(parameters)[0]) if len(parameters) >= _CONTROL.size else None
