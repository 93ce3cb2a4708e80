"""The dashboard's controls: POST /api/control. It needs a login, and each change is recorded with its user. An edge: HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from flask import Blueprint, current_app, jsonify, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ValidationError

from controller.store.store import StoreUnavailable
from webui.access.auth import audit, login_required
from webui.http.api import poller
from webui.http.commands import apply, change_of, describe
from webui.http.errors import RequestRefused
from webui.http.problems import BODIES, LONGEST, refusal
from webui.http.schema import ControlRequest, PolicyChange, Weight
from webui.settings import STORE

M = TypeVar("M", bound=BaseModel)

control = Blueprint("control", __name__)


def body(model: type[M]) -> M:
    """The request's JSON body as a model. Raises RequestRefused, which names the wrong field or place."""
    if not request.is_json:
        raise RequestRefused("Content-Type: is not application/json", "send the body as application/json", 415)
    try:
        value = json.loads(request.get_data(), object_pairs_hook=_once)
    except RecursionError:
        raise RequestRefused("body: nested too deeply", BODIES[model]) from None
    except json.JSONDecodeError as error:
        raise _no_json(f"line {error.lineno}, column {error.colno}: {error.msg}", model) from None
    except UnicodeDecodeError as error:
        raise _no_json(f"byte {error.start}: no UTF-8", model) from None
    except _Twice as error:
        raise RequestRefused(f"{error}: is given twice", "leave one out") from None
    except ValueError:
        raise _no_json("a number has thousands of digits", model) from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise refusal(error, model) from None


class _Twice(ValueError):
    """An object has a field twice: which one was meant is not known. The text is its name."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(name[:LONGEST].encode(errors="replace").decode())
        found[name] = value
    return found


def _no_json(why: str, model: type[BaseModel]) -> RequestRefused:
    return RequestRefused(f"body: not JSON: {why}", BODIES[model], 400)


def changed(asked: Callable[[list[Weight]], PolicyChange]) -> ResponseReturnValue:
    """Makes the change that is asked for, given the present weights, and records it; answers with the result: 200 when it is in
    force, 202 when it is not yet."""
    last: PolicyChange | None = None

    def noted(weights: list[Weight]) -> PolicyChange:
        nonlocal last
        last = asked(weights)
        return last

    try:
        change, done = apply(current_app.extensions[STORE], poller(), noted)
    except (RequestRefused, ValidationError):  # nothing is changed
        raise
    except Exception as error:
        if last is not None:  # it may have been written, or a part of it
            why = str(error) if isinstance(error, StoreUnavailable) else f"{type(error).__name__}: {error}"
            audit(f"{describe(last)}: not known to be in force, {why}", severity="warning", taken=False)
        raise
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
        raise refusal(error, Weight if action.action == "weight" else PolicyChange) from None
