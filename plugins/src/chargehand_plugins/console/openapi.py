"""The OpenAPI document, built from the table of operations and the contracts' schemas."""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, RootModel
from pydantic.json_schema import models_json_schema

from chargehand.contracts import Event
from chargehand_plugins.console.operations import Operation

_REFERENCE: Final = "#/components/schemas/{model}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NUMBER: Final = {"type": "integer", "minimum": 1, "description": "Its place in the list, from 1."}
_PROBLEMS: Final = {
    HTTPStatus.UNAUTHORIZED: "The token is missing or wrong.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests; `Retry-After` says how many seconds to wait.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The Temporal server or a worker does not answer.",
}
_OF_SESSION: Final = {
    HTTPStatus.NOT_FOUND: "There is no such session.",
    HTTPStatus.CONFLICT: "The session is not in a state that allows this.",
}
_OF_BODY: Final = {
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON.",
}
_INVALID: Final = (
    "The input does not fit its schema, or breaks a rule that schemas cannot state, such as the installation's "
    "ceilings, the crews there are, a plan without cycles, or that a conversation has no report; `detail` says which."
)
_PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "Problem details as in RFC 9457.",
    "required": ["type", "title", "status", "detail", "kind"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "The phrase of the status."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, by field, and the remedy."},
        "kind": {"type": "string", "description": "What is wrong, as a word for programs, such as `InvalidInput`."},
    },
}


def openapi_document(operations: Sequence[Operation], prefix: str, url: str) -> dict[str, Any]:
    """Describe the operations as OpenAPI 3.1."""
    schemas, names = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(prefix + each.path, {})[each.method.lower()] = _describe(each, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Chargehand",
            "version": version("chargehand-cli"),
            "description": "Durable multi-agent sessions on Temporal.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": url}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Event(RootModel[Event]):
    """The schema of streamed events."""

    model_config = ConfigDict(title="Event")


_Names = dict[tuple[type[BaseModel], str], dict[str, Any]]


def _schemas(operations: Iterable[Operation]) -> tuple[dict[str, Any], _Names]:
    wanted = dict.fromkeys(
        pair
        for each in operations
        for pair in ((each.takes, "validation"), (each.returns, "serialization"))
        if pair[0] is not None
    )
    wanted[_Event, "serialization"] = None
    names, schemas = models_json_schema(list(wanted), ref_template=_REFERENCE)  # pyright: ignore[reportArgumentType]  # the modes are literals
    described = schemas["$defs"]
    described["Event"] = described.pop("_Event")
    return described, names  # pyright: ignore[reportReturnType]  # as above


def _describe(operation: Operation, names: _Names) -> dict[str, Any]:
    in_path = {name: _NUMBER if name == "number" else {"type": "string"} for name in _PARAMETER.findall(operation.path)}
    of_query: dict[str, Any] = operation.query.model_json_schema()["properties"] if operation.query else {}
    places = {"path": in_path, "query": of_query, "header": operation.headers}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {
                "name": name,
                "in": place,
                "required": place == "path",
                "description": schema.get("description", ""),
                "schema": {key: value for key, value in schema.items() if key != "description"},
            }
            for place, parameters in places.items()
            for name, schema in parameters.items()
        ],
        "responses": _responses(operation, names),
    }
    if operation.takes is not None:
        described["requestBody"] = {"required": True, "content": _content(operation, names)}
    return described


def _content(operation: Operation, names: _Names) -> dict[str, Any]:
    assert operation.takes, "only such operations have a body"
    schema = names[operation.takes, "validation"]
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if operation.takes_files:
        files = {"type": "array", "items": {"type": "string", "contentMediaType": "application/octet-stream"}}
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "required": ["request"],
                "additionalProperties": False,
                "properties": {"request": schema, "documents": files},
            }
        }
    return content


def _responses(operation: Operation, names: _Names) -> dict[str, Any]:
    schema = names[operation.returns, "serialization"] if operation.returns else operation.schema
    responses: dict[str, Any] = {
        str(int(operation.status)): {
            "description": operation.status.phrase,
            "content": {operation.media_type: {"schema": schema}},
        }
    }
    responses |= {str(int(status)): {"description": text} for status, text in operation.also.items()}
    of_session = _PARAMETER.search(operation.path)
    problems = _PROBLEMS | (_OF_SESSION if of_session else {}) | (_OF_BODY if operation.takes else {})
    if of_session or operation.takes or operation.query or operation.headers:
        problems[HTTPStatus.UNPROCESSABLE_ENTITY] = _INVALID
    for status, text in problems.items():
        content = {"application/problem+json": {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
        responses[str(int(status))] = {"description": text, "content": content}
    return responses
