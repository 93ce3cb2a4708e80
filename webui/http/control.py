"""The dashboard's controls: POST /api/control. Only for who is logged in; who did what is recorded. An edge: HTTP."""

from __future__ import annotations

from typing import TypeVar

from flask import Blueprint, current_app, jsonify, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ValidationError

from webui.access.auth import audit, login_required
from webui.http.api import poller
from webui.http.commands import apply, change_of, describe, in_force
from webui.http.errors import Refused
from webui.http.schema import Control, PolicyChange, Weight
from webui.settings import STORE

FIELDS = frozenset(name for model in (Control, PolicyChange, Weight) for name in model.model_fields)
"""Of a location in a body; pydantic also names the types that it tried there."""
M = TypeVar("M", bound=BaseModel)

control = Blueprint("control", __name__)


def body(model: type[M]) -> M:
    """The request's JSON as a model. Raises Refused, which names the field."""
    try:
        value = request.get_json()  # a BadRequest or UnsupportedMediaType of its own
    except RecursionError:
        raise Refused("body: nested too deeply", "see /openapi.json for the fields") from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise refusal(error) from None


def refusal(error: ValidationError) -> Refused:
    """The first thing that a model found wrong."""
    details = error.errors(include_url=False, include_context=False, include_input=False)[0]
    extra = details["type"] == "extra_forbidden"
    field = ".".join(str(part)[:40] for part in details["loc"] if extra or isinstance(part, int) or part in FIELDS) or "body"
    return Refused(f"{field}: {details['msg'].removeprefix('Value error, ')}", "see /openapi.json for the fields")


def changed(change: PolicyChange) -> ResponseReturnValue:
    """Makes the change, records it, and answers with what became of it."""
    done = apply(current_app.extensions[STORE], poller(), change)
    audit(describe(change), severity="warning" if change.override else "info", taken=done["taken"])
    return jsonify(done), 200 if done["taken"] else 202


@control.post("/api/control")
@login_required
def act() -> ResponseReturnValue:
    """Does one action: see `schema.Control`."""
    asked = body(Control)
    weights = [Weight(**weight) for weight in in_force(poller().read(fresh_ns=0))["weights"]]
    try:
        change = change_of(asked, weights)
    except ValidationError as error:
        raise refusal(error) from None
    except ValueError as error:
        raise Refused(str(error), "see /openapi.json") from None
    return changed(change)
