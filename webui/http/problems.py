"""What is wrong with the body of a request, in the operator's words, as of the configuration's fields."""

from __future__ import annotations

import difflib

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from webui.http.errors import RequestRefused
from webui.http.schema import ControlRequest, PolicyChange, Weight

LONGEST = 40
"""Characters of a name or value that an answer repeats."""
BODIES: dict[type[BaseModel], str] = {
    PolicyChange: 'send an object such as {"policy": "auto"}',
    ControlRequest: 'send an object such as {"action": "policy", "policy": "auto"}',
    Weight: 'write one such as {"source": "h1", "weight": 2}',
}
"""What to write in place of something that is no such object."""
WORDS = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "is not an object"), "list_type": "is not a list",
    **dict.fromkeys(("string_type", "string_unicode"), "is not a text"), "string_too_short": "is empty",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "is not a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "is not a number"),
    "literal_error": "is none of these", "missing": "is missing",
}  # fmt: skip
"""By type of pydantic's error: what to say of the value."""
BOUNDS = {
    "greater_than_equal": ("ge", "is under {}"), "less_than_equal": ("le", "is over {}"),
    "string_too_long": ("max_length", "is longer than {} characters"), "too_long": ("max_length", "has more than {} entries"),
}  # fmt: skip
"""By type of pydantic's error: where it has the bound, and what to say of it."""


def refusal(error: ValidationError, model: type[BaseModel]) -> RequestRefused:
    """The refusal for the first error that `model`, one of `BODIES`, found: the field, what is wrong, and what to write."""
    details = error.errors(include_url=False)[0]
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "value_error":
        text, _, remedy = str(context["error"]).partition("; ")
        return RequestRefused(text, remedy)
    inner, path, field = _place(model, details["loc"])
    if kind == "extra_forbidden":
        name = str(details["loc"][-1])[:LONGEST]
        near = difflib.get_close_matches(name.lower(), inner.model_fields, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"remove it, or choose from {', '.join(inner.model_fields)}"
        return RequestRefused(f"{'.'.join((*path, name))}: is unknown", remedy)
    if value is None and kind != "missing":
        words = "is null"
    elif kind in BOUNDS:
        name, words = BOUNDS[kind]
        words = words.format(f"{context[name]:.12g}")
    else:
        words = WORDS.get(kind, "is not allowed")
        if isinstance(value, str) and value and kind != "string_unicode":
            words = f"{value[:LONGEST]!r} {words}"
    remedy = (field.description if field is not None else None) or BODIES[inner]
    return RequestRefused(f"{'.'.join(path) or 'body'}: {words}", remedy)


def _place(model: type[BaseModel], loc: tuple[str | int, ...]) -> tuple[type[BaseModel], list[str], FieldInfo | None]:
    """The object, the path and the field of an error's location, which also holds the types that pydantic tried; the field is
    None where the object itself is wrong."""
    path: list[str] = []
    field = None
    for part in loc:
        if isinstance(part, int):  # of weights, the only list
            model, field = Weight, None
        elif part not in model.model_fields:
            continue
        else:
            field = model.model_fields[part]
        path.append(str(part))
    return model, path, field
