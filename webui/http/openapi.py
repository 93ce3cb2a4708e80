"""The description of the REST interface, OpenAPI 3.1: paths from the table here, schemas from `webui.http.schema`. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from webui.http import schema

VERSION = "1.0"


class Operation(NamedTuple):
    """One thing to be asked: what it is called, says, takes and answers."""

    path: str
    summary: str
    answer: type[BaseModel]
    query: dict[str, dict[str, Any]] | None = None


DPID = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
GETS = (
    Operation("/v1.0/topology/switches", "Switches with their ports, as Ryu's rest_topology.", schema.Switches),
    Operation("/v1.0/topology/switches/{dpid}", "One switch: a list of one, or of none.", schema.Switches),
    Operation("/v1.0/topology/links", "Both directions of the links between switches.", schema.Links),
    Operation("/v1.0/topology/links/{dpid}", "The links that leave one switch.", schema.Links),
    Operation("/v1.0/topology/hosts", "Hosts by MAC address.", schema.Hosts),
    Operation("/v1.0/topology/hosts/{dpid}", "The hosts at one switch.", schema.Hosts),
    Operation("/v1.0/tree", "The active spanning tree.", schema.Tree),
    Operation(
        "/v1.0/schedule",
        "What became of the slots of the last seconds.",
        schema.Schedule,
        {"seconds": {"type": "integer", "minimum": 1, "maximum": 20, "default": 2}},
    ),
    Operation("/v1.0/members", "The hosts with an agent.", schema.Members),
    Operation("/v1.0/flows", "What hosts send to each other.", schema.Flows),
    Operation("/v1.0/thresholds", "The sieving thresholds in force.", schema.Thresholds),
    Operation("/v1.0/policy", "The policy in force.", schema.Policy),
)


@cache
def document() -> dict[str, Any]:
    """The whole document. It is shared: not to be changed."""
    models: set[type[BaseModel]] = {operation.answer for operation in GETS}
    models |= {schema.Problem, schema.Done, schema.PolicyChange}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [_validated(model) for model in ordered], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, Any] = {}
    for operation in GETS:
        paths[operation.path] = {"get": _get(operation)}
    paths["/v1.0/policy"]["put"] = {
        "operationId": "set_policy",
        "summary": "Changes the policy, and waits up to three seconds until it is in force.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": _json(schema.PolicyChange)},
        "responses": {
            "200": {"description": "In force.", "content": _json(schema.Done)},
            "202": {"description": "Set, but not taken over by a coordinator yet.", "content": _json(schema.Done)},
            **_problems(
                {
                    400: "Not JSON.",
                    401: "Not logged in.",
                    403: "No CSRF token.",
                    409: "Can't be as things are: no such policy, no such host, or nothing published to be changed.",
                    413: "Too long.",
                    415: "Not application/json.",
                    422: "A value that can't be.",
                }
            ),
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": VERSION,
            "description": "Reading needs no login unless the server asks for it; changing does.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`baton token create`"}},
        },
    }


def _validated(model: type[BaseModel]) -> tuple[type[BaseModel], Literal["validation"]]:
    return model, "validation"


def _get(operation: Operation) -> dict[str, Any]:
    problems = {503: "The store can't be asked."}
    parameters = []
    if "{dpid}" in operation.path:
        parameters.append({"name": "dpid", "in": "path", "required": True, "schema": DPID})
        problems[404] = "Not a datapath id."
    for name, schema_ in (operation.query or {}).items():
        parameters.append({"name": name, "in": "query", "required": False, "schema": schema_})
        problems[422] = "A value that can't be."
    words = operation.path.removeprefix("/v1.0/").replace("/{dpid}", "_of").split("/")
    return {
        "operationId": "get_" + "_".join(words),
        "summary": operation.summary,
        **({"parameters": parameters} if parameters else {}),
        "responses": {
            "200": {"description": "What there is.", "content": _json(operation.answer)},
            **_problems(problems),
        },
    }


def _problems(causes: dict[int, str]) -> dict[str, Any]:
    problem = _json(schema.Problem)
    return {str(status): {"description": cause, "content": problem} for status, cause in ({503: "No store."} | causes).items()}


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
