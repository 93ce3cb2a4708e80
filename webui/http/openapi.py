"""Makes the OpenAPI 3.1 description of the REST interface from the table of paths here and `webui.http.schema`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from webui.http import schema
from webui.state import lists

VERSION = "1.0"


class Operation(NamedTuple):
    """A GET operation: its path, summary, type of answer and query parameters."""

    path: str
    summary: str
    answer: type[BaseModel]
    query: dict[str, dict[str, Any]] | None = None


def _listed(sorts: Iterable[str], sort: str, most: int) -> dict[str, dict[str, Any]]:
    """The query parameters of a list in pages."""
    return {
        "search": {"type": "string", "maxLength": 200},
        "sort": {"type": "string", "enum": sorted(sorts), "default": sort},
        "order": {"type": "string", "enum": ["up", "down"]},
        "page": {"type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 1},
        "count": {"type": "integer", "minimum": 1, "maximum": most, "default": most},
    }


MEMBERS, FLOWS = _listed(lists.MEMBER_SORTS, "node", 5_000), _listed(lists.FLOW_SORTS, "busy", 2_000)
DPID = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
GETS = (
    Operation("/v1.0/topology/switches", "The switches with their ports, as in Ryu's rest_topology.", schema.Switches),
    Operation("/v1.0/topology/switches/{dpid}", "One switch: a list with one entry, or none.", schema.Switches),
    Operation("/v1.0/topology/links", "Both directions of the links between switches.", schema.Links),
    Operation("/v1.0/topology/links/{dpid}", "The links that leave one switch.", schema.Links),
    Operation("/v1.0/topology/hosts", "The hosts by MAC address.", schema.Hosts),
    Operation("/v1.0/topology/hosts/{dpid}", "The hosts at one switch.", schema.Hosts),
    Operation("/v1.0/tree", "The active spanning tree.", schema.Tree),
    Operation(
        "/v1.0/schedule",
        "The outcome of the slots of the last seconds.",
        schema.Schedule,
        {"seconds": {"type": "integer", "minimum": 1, "maximum": 20, "default": 2}},
    ),
    Operation("/v1.0/members", "A page of the hosts with an agent.", schema.Members, MEMBERS),
    Operation("/v1.0/flows", "A page of the traffic between hosts.", schema.Flows, FLOWS),
    Operation("/v1.0/thresholds", "The sieving thresholds in force.", schema.Thresholds),
    Operation("/v1.0/coflows", "The open coflows in their order.", schema.Coflows),
    Operation("/v1.0/policy", "The policy in force.", schema.Policy),
)
PARAMETERS = {operation.path.replace("{dpid}", "<dpid>"): tuple(operation.query or ()) for operation in GETS}
"""By path, as Flask's rules have it: the names of its query parameters."""


@cache
def document() -> dict[str, Any]:
    """The whole document. Every caller gets the same object and must not change it."""
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
        "summary": "Change the policy, and wait up to three seconds until it is in force.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": _json(schema.PolicyChange)},
        "responses": {
            "200": {"description": "In force.", "content": _json(schema.Done)},
            "202": {"description": "Set, but not yet taken over by a coordinator.", "content": _json(schema.Done)},
            **_problems(
                {
                    400: "Not JSON, or a query, which this path does not take.",
                    401: "Not logged in.",
                    403: "No CSRF token.",
                    409: "In conflict with the current state: unknown policy or host, or no published policy to change.",
                    413: "The body is too long.",
                    415: "Not application/json.",
                    422: "A value is not allowed.",
                }
            ),
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": VERSION,
            "description": "Reading needs no login unless the server is configured so; changing does.",
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
    problems = {400: "A query parameter that there is not."}
    parameters = []
    if "{dpid}" in operation.path:
        parameters.append({"name": "dpid", "in": "path", "required": True, "schema": DPID})
        problems[404] = "Not a datapath id."
    for name, schema_ in (operation.query or {}).items():
        parameters.append({"name": name, "in": "query", "required": False, "schema": schema_})
        problems[422] = "A value is not allowed."
    words = operation.path.removeprefix("/v1.0/").replace("/{dpid}", "_of").split("/")
    return {
        "operationId": "get_" + "_".join(words),
        "summary": operation.summary,
        **({"parameters": parameters} if parameters else {}),
        "responses": {
            "200": {"description": "The current data.", "content": _json(operation.answer)},
            **_problems(problems),
        },
    }


def _problems(causes: dict[int, str]) -> dict[str, Any]:
    problem = _json(schema.Problem)
    described = {503: "The store does not answer."} | causes
    return {str(status): {"description": cause, "content": problem} for status, cause in described.items()}


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
