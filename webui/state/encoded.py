"""Documents as JSON. Pure."""

from __future__ import annotations

import json

import orjson


def encoded(value: object) -> bytes:
    """The value as JSON, in the order of its keys; rows may be named tuples, and keys numbers.

    By orjson, in a tenth of the time: a timeline has thousands of slots. It refuses numbers of more than 64 bits, which sums
    of what hosts report may have: each host may say as much of each flow.
    """
    try:
        return orjson.dumps(value, default=list, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=list, separators=(",", ":")).encode()
