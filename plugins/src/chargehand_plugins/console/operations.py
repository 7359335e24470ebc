"""The operations of the HTTP API with inputs and outputs, from which routes and OpenAPI are built."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar, cast
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from chargehand import ErrorType
from chargehand.contracts.problems import describe_problems
from chargehand.contracts.request import LONGEST_ID
from chargehand.converter import PayloadConverter
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.problems import Problem, invalid
from chargehand_plugins.console.settings import ConsoleSettings

Model = TypeVar("Model", bound=BaseModel)

_JSON: Final = "application/json"
_SLASH: Final = "\0"
"""Stands for an escaped slash within a path segment."""
_CONVERTER: Final = PayloadConverter()


@dataclass(frozen=True)
class Call:
    request: Request
    backend: Backend
    settings: ConsoleSettings

    @property
    def session_id(self) -> str:
        return session_id_of(self.request)

    async def body(self, model: type[Model], noun: str) -> Model:
        """Parse the body as strictly as the converter parses people's workflow input.

        Raises:
            Problem: it is not JSON, or invalid.
        """
        stated = self.request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
        if stated != _JSON:
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
        return parse(model, await self.request.body(), noun)

    def query(self, model: type[Model]) -> Model:
        """Parse the query. Raises `Problem` if it is invalid."""
        return validate(model, self.request.query_params, "query")


Handle = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    """Below `/api/v1`."""
    name: str
    """Its `operationId`."""
    summary: str
    handle: Handle
    takes: type[BaseModel] | None = None
    returns: type[BaseModel] | None = None
    status: HTTPStatus = HTTPStatus.OK
    media_type: str = _JSON
    schema: Mapping[str, object] = field(default_factory=dict[str, object])
    """Schema of a response that is not a contract."""
    query: type[BaseModel] | None = None
    """Contract of its query parameters."""
    headers: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """Schemas of its request headers by name."""
    also: Mapping[HTTPStatus, str] = field(default_factory=dict[HTTPStatus, str])
    """Responses other than `status` and the common problems."""
    takes_files: bool = False


def parse(model: type[Model], data: bytes, noun: str) -> Model:
    """Parse JSON as a contract.

    Raises:
        Problem: it is invalid, worded as on the command line.
    """
    try:
        payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
        return cast("Model", _CONVERTER.from_payloads([payload], [model])[0])
    except ApplicationError as error:
        problems = error.message.partition(": ")[2] if error.type == ErrorType.INVALID_INPUT else error.message
        raise invalid(noun, [problems]) from error


def validate(model: type[Model], fields: Mapping[str, object], noun: str) -> Model:
    """Parse the fields of a form as a contract. Raises `Problem` if it is invalid."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise invalid(noun, describe_problems(error, model)) from error


def session_id_of(request: Request) -> str:
    """Return the session id in the path. Raises `Problem` if it is too long."""
    session_id: str = request.path_params["session"].replace(_SLASH, "/")
    if len(session_id) > LONGEST_ID:
        raise Problem(HTTPStatus.NOT_FOUND, "There is no such session.")
    return session_id


def path_for_routes(raw: bytes) -> str:
    """Unquote a path while keeping escaped slashes, as in session ids, from separating segments."""
    return unquote(raw.replace(b"%2F", b"%00").replace(b"%2f", b"%00"))


def answer(model: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Build a JSON response from a contract."""
    return Response(model.model_dump_json(), status, headers, _JSON)
