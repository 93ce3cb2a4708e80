"""The dashboard's controls: POST /api/control. It needs a login, and each change is recorded with its user. An edge: HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from flask import Blueprint, current_app, jsonify, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ValidationError

from webui.access.auth import audit, login_required
from webui.http.api import poller
from webui.http.commands import apply, change_of, describe
from webui.http.errors import RequestRefused
from webui.http.schema import ControlRequest, PolicyChange, Weight
from webui.settings import STORE

FIELDS = frozenset(name for model in (ControlRequest, PolicyChange, Weight) for name in model.model_fields)
"""The field names to show from pydantic's location of an error, which also holds the types that it tried."""
M = TypeVar("M", bound=BaseModel)

control = Blueprint("control", __name__)


def body(model: type[M]) -> M:
    """The request's JSON body as a model. Raises RequestRefused, which names the wrong field or place."""
    try:
        value = json.loads(request.get_data()) if request.is_json else request.get_json()  # the latter: UnsupportedMediaType
    except RecursionError:
        raise RequestRefused("body: nested too deeply", "see /openapi.json for the fields") from None
    except json.JSONDecodeError as error:
        raise _no_json(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise _no_json(f"byte {error.start}: no UTF-8") from None
    except ValueError as error:  # a number with thousands of digits
        raise _no_json(str(error)) from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise refusal(error) from None


def _no_json(why: str) -> RequestRefused:
    return RequestRefused(f"body: not JSON: {why}", 'send an object such as {"policy": "auto"}; see /openapi.json', 400)


def refusal(error: ValidationError) -> RequestRefused:
    """The refusal for the first error that a model found."""
    details = error.errors(include_url=False, include_context=False, include_input=False)[0]
    extra = details["type"] == "extra_forbidden"
    field = ".".join(str(part)[:40] for part in details["loc"] if extra or isinstance(part, int) or part in FIELDS) or "body"
    return RequestRefused(f"{field}: {details['msg'].removeprefix('Value error, ')}", "see /openapi.json for the fields")


def changed(asked: Callable[[list[Weight]], PolicyChange]) -> ResponseReturnValue:
    """Makes the change that is asked for, given the present weights, and records it; answers with the result: 200 when it is in
    force, 202 when it is not yet."""
    change, done = apply(current_app.extensions[STORE], poller(), asked)
    audit(describe(change), severity="warning" if change.override else "info", taken=done["taken"])
    return jsonify(done), 200 if done["taken"] else 202


@control.post("/api/control")
@login_required
def act() -> ResponseReturnValue:
    """Carries out one action (`schema.ControlRequest`)."""
    action = body(ControlRequest)
    try:
        return changed(lambda weights: change_of(action, weights))
    except ValidationError as error:
        raise refusal(error) from None
    except ValueError as error:
        raise RequestRefused(str(error), "see /openapi.json") from None
