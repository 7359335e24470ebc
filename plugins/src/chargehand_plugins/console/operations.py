"""The operations of the HTTP API: what each takes and returns. Routes and the OpenAPI document are made from this."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from chargehand import ErrorType
from chargehand.contracts.problems import describe_problems
from chargehand.converter import PayloadConverter
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.problems import Problem, invalid
from chargehand_plugins.console.settings import ConsoleSettings

Model = TypeVar("Model", bound=BaseModel)

_JSON: Final = "application/json"
_LONGEST_ID: Final = 1_000
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
        """Read the body as strictly as Temporal's converter reads what people send to a workflow.

        Raises:
            Problem: it is not JSON, or invalid.
        """
        stated = self.request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
        if stated != _JSON:
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
        return parse(model, await self.request.body(), noun)

    def query(self, model: type[Model]) -> Model:
        """Read the query. Raises `Problem` if it is invalid."""
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
    """Of an answer that is no contract."""
    query: type[BaseModel] | None = None
    """What it reads of the query."""
    headers: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """The schemas of the headers that it reads, by name."""
    also: Mapping[HTTPStatus, str] = field(default_factory=dict[HTTPStatus, str])
    """Other answers than `status` and the usual problems."""
    takes_files: bool = False


def parse(model: type[Model], data: bytes, noun: str) -> Model:
    """Read JSON as a contract.

    Raises:
        Problem: it is invalid; the words are those of the command line.
    """
    try:
        payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
        return cast("Model", _CONVERTER.from_payloads([payload], [model])[0])
    except ApplicationError as error:
        problems = error.message.partition(": ")[2] if error.type == ErrorType.INVALID_INPUT else error.message
        raise invalid(noun, [problems]) from error


def validate(model: type[Model], fields: Mapping[str, object], noun: str) -> Model:
    """Read the fields of a form as a contract. Raises `Problem` if it is invalid."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise invalid(noun, describe_problems(error, model)) from error


def session_id_of(request: Request) -> str:
    """Return the session that the path names. Raises `Problem` if it is too long for one."""
    session_id: str = request.path_params["session"]
    if len(session_id) > _LONGEST_ID:
        raise Problem(HTTPStatus.NOT_FOUND, "There is no such session.")
    return session_id


def answer(model: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Write a contract as JSON."""
    return Response(model.model_dump_json(), status, headers, _JSON)
