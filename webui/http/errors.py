"""Error answers as JSON {"error", "remedy"}, for programs and for the dashboard's script. An edge: HTTP."""

from __future__ import annotations

from flask import Blueprint, jsonify, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from controller.store.store import StoreUnavailable
from webui.state.poller import problem

JSON_PATHS = ("/api/", "/v1.0/")
REMEDIES = {
    400: "see /openapi.json for the fields of this path",
    401: "log in, or send Authorization: Bearer TOKEN (`baton token create`)",
    403: "reload the page and try again",
    404: "see /openapi.json for the paths",
    405: "see /openapi.json for the methods of this path",
    413: "send a shorter body",
    415: "send application/json",
    422: "see /openapi.json for the fields of this path",
    429: "wait, and try again",
    500: "see the web server's log for the cause",
}

errors = Blueprint("errors", __name__)


class RequestRefused(Exception):
    """A request that can't be carried out: the text names the field and the reason, `remedy` what to do."""

    def __init__(self, text: str, remedy: str, status: int = 422) -> None:
        super().__init__(text)
        self.remedy = remedy
        self.status = status


@errors.app_errorhandler(RequestRefused)
def _refused(error: RequestRefused) -> ResponseReturnValue:
    return jsonify(error=str(error), remedy=error.remedy), error.status


@errors.app_errorhandler(StoreUnavailable)
def _no_store(error: StoreUnavailable) -> ResponseReturnValue:
    return jsonify(problem(error)), 503


@errors.app_errorhandler(HTTPException)
def _http(error: HTTPException) -> ResponseReturnValue:
    if not request.path.startswith(JSON_PATHS):
        return error
    status = error.code or 500
    answer = jsonify(error=error.description or error.name, remedy=REMEDIES.get(status, REMEDIES[400]))
    for name, value in error.get_headers(request.environ):
        if name not in ("Content-Type", "Content-Length"):
            answer.headers[name] = value
    return answer, status
