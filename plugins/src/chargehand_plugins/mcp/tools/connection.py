"""A connection to an MCP server: a process, or a session over HTTP. Importing the `mcp` library takes a second."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import mcp_types as types
from httpx2 import AsyncClient, Auth, HTTPError, Request, Response, Timeout
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import FailFast, ValidationError

from activities.contracts.mcp_declaration import McpDeclaration, OAuthClient
from activities.contracts.rounds import Elicitation
from activities.credentials import keep_hidden
from activities.http.response_limits import BodyRefused, limit_client
from activities.processes.stall_timeout import note_progress
from chargehand_plugins.mcp.tools.definitions import readable
from chargehand_plugins.mcp.tools.relay import BYTES_A_VALUE, ValueCounter
from workflows.rules.forms import Form, FormField

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp.client._transport import TransportStreams
    from mcp.shared.dispatcher import ProgressFnT


class CheckedResult(types.CallToolResult):
    """A result whose check ends at the first wrong block: each is tried as every kind of block."""

    content: Annotated[list[types.ContentBlock], FailFast()]


_Result = TypeVar("_Result", types.CallToolResult, types.ReadResourceResult)

_CLOSE_SECONDS: Final = 6.0
"""The library gives a process two seconds to end, two more after SIGTERM, and two after SIGKILL."""
MOST_MESSAGE_BYTES: Final = 4_000_000
"""Maximum message size; a longer message ends the connection."""
_MOST_PAGES: Final = 20
_MOST_TOOLS: Final = 1_000
_MOST_QUESTIONS: Final = 100
_MESSAGE_CHARACTERS: Final = 1_000
_FORM_BYTES: Final = 4_000
_HINT_CHARACTERS: Final = 1_500
_UNANSWERED: Final = {"Server returned an error response", "Session terminated"}
"""Errors that the library derives from an HTTP status, for which the server has said nothing."""
_RELAY: Final = Path(__file__).with_name("relay.py")


class ServerUnusable(Exception):  # noqa: N818  # reads as a statement of fact
    """A server could not be started, reached or understood; the message says why, without secrets."""


class Connection:
    """A connection that is entered and left by a dedicated task, as the library requires."""

    def __init__(
        self, declared: McpDeclaration, environment: Mapping[str, str], credentials: Mapping[str, str] | None = None
    ) -> None:
        """Take the values of the declared variables, and the calling user's credentials."""
        self._statuses: deque[int] = deque([200], maxlen=1)
        streams = (
            _by_stdio(declared, declared.command, environment)
            if declared.command
            else _over_http(declared, declared.url or "", environment, credentials or {}, self._statuses)
        )
        self._declared = declared
        self._answers: Mapping[str, Mapping[str, Any] | None] = {}
        self._asked: Elicitation | None = None
        self._questions = 0
        self._client = Client(
            streams,
            cache=None,
            read_timeout_seconds=declared.start_seconds,
            # Newer servers end a call that needs an answer; older ones ask during the call.
            mode="legacy" if declared.elicitation else "auto",
            elicitation_callback=self._elicit if declared.elicitation else None,
        )
        self._leave = asyncio.Event()
        self._is_ready = False
        self.running = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start or reach the server. Raises `ServerUnusable`."""
        ready = asyncio.get_running_loop().create_future()
        task = self._task = asyncio.create_task(self._hold(ready))
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            async with asyncio.timeout(self._declared.start_seconds):
                await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.close()
            raise ServerUnusable(f"it did not start within {self._declared.start_seconds:g} seconds") from None
        except asyncio.CancelledError:
            await asyncio.shield(self.close())
            raise
        if not ready.done():
            raise ServerUnusable(self._reason(task.exception()))

    async def tools(self) -> list[dict[str, Any]]:
        """List the tools as described by the server. Raises `ServerUnusable`."""
        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._declared.start_seconds):
                capabilities = self._client.server_capabilities
                if not self._declared.tools and not (capabilities and capabilities.tools):
                    return []  # a server that only has resources
                for _ in range(_MOST_PAGES):
                    page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                    listed += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                    cursor = page.next_cursor
                    if cursor is None or len(listed) > _MOST_TOOLS:
                        break
        except Exception as error:
            raise ServerUnusable(self._reason(error)) from error
        return listed[:_MOST_TOOLS]

    async def call_answering(
        self, tool: str, arguments: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any] | None]
    ) -> tuple[types.CallToolResult, Elicitation | None]:
        """Call a tool once with a person's answers; also return further questions from the server.

        Only one call can use such a connection, since a server does not say for which call it asks. Raises like `call`.
        """
        self._answers = answers
        return await self.call(tool, arguments), self._asked

    async def _elicit(self, context: "ClientRequestContext", params: types.ElicitRequestParams) -> types.ElicitResult:  # noqa: ARG002  # the library's signature
        self._questions += 1
        if self._questions > _MOST_QUESTIONS:
            self._leave.set()
        elicitation = elicitation_of(self._declared.name, params)
        if elicitation is None:
            return types.ElicitResult(action="decline")
        if elicitation.key not in self._answers:
            self._asked = self._asked or elicitation
            return types.ElicitResult(action="cancel")
        answer = self._answers[elicitation.key]
        if answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=dict(answer))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool once. Raises `ServerUnusable` if its answer is lost, and `MCPError` if the server refuses.

        The library's `call_tool` would check the answer against a schema that a hostile server may have made slow
        to check.
        """
        context = copy_context()

        async def progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001  # the library's names
            # The library calls this in a separate task.
            context.run(note_progress)

        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))
        return await self._answer(request, CheckedResult, progress)

    async def read(self, uri: str) -> types.ReadResourceResult:
        """Read a resource once. Raises like `call`."""
        request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri))
        return await self._answer(request, types.ReadResourceResult)

    async def _answer(
        self, request: types.ClientRequest, shape: type[_Result], progress: "ProgressFnT | None" = None
    ) -> _Result:
        self.running += 1
        try:
            async with asyncio.timeout(self._declared.call_seconds):
                return await self._client.session.send_request(
                    request,
                    shape,
                    request_read_timeout_seconds=self._declared.call_seconds,
                    progress_callback=progress,
                )
        except MCPError as error:
            is_refused = 400 <= self._statuses[0] < 500 and self._statuses[0] not in {404, 408, 429}
            is_lost = error.message in _UNANSWERED and not is_refused
            if is_lost or error.code in {types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT}:
                raise ServerUnusable(self._reason(error)) from error
            raise
        except Exception as error:
            raise ServerUnusable(self._reason(error)) from error
        finally:
            self.running -= 1

    @property
    def is_open(self) -> bool:
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        """End the session, and the process with everything it started."""
        self._leave.set()
        task = self._task
        if task is None:
            return
        if not self._is_ready:
            task.cancel()
        _, running = await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        if running:
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)

    def _reason(self, error: BaseException | None) -> str:
        status = self._statuses[0]
        if status >= 500 or status == 429:
            return f"it, or its authorization server, is not available, HTTP status {status}"
        return _reason(error) + (f", HTTP status {status}" if status >= 300 else "")

    async def _hold(self, ready: "asyncio.Future[None]") -> None:
        async with self._client:
            self._is_ready = True
            ready.set_result(None)
            await self._leave.wait()


@asynccontextmanager
async def _by_stdio(
    declared: McpDeclaration, command: str, environment: Mapping[str, str]
) -> AsyncGenerator["TransportStreams"]:
    program = shutil.which(command)
    if program is None:
        raise ServerUnusable(f"there is no program '{command}'")
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-IS", str(_RELAY), str(MOST_MESSAGE_BYTES), program, *declared.args],
        env=dict(environment),
    )
    # A server may write anything to standard error, including credentials.
    nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    with nowhere:
        async with stdio_client(parameters, errlog=nowhere) as streams:
            yield streams


@asynccontextmanager
async def _over_http(
    declared: McpDeclaration,
    url: str,
    environment: Mapping[str, str],
    credentials: Mapping[str, str],
    statuses: deque[int],
) -> AsyncGenerator["TransportStreams"]:
    async def note_status(response: Response) -> None:
        statuses.append(response.status_code)

    places = {_origin(each) for each in (url, declared.oauth.issuer if declared.oauth else url)}

    async def stay(request: Request) -> None:
        # In OAuth a server states where to get tokens; that address must not be trusted.
        if _origin(str(request.url)) not in places:
            raise ServerUnusable("it leads to an address that its declaration does not name")

    timeout = Timeout(declared.start_seconds, read=declared.call_seconds + declared.start_seconds)
    async with (
        limit_client(
            AsyncClient(
                headers=declared.headers_of(environment, credentials),
                auth=_SharedToken(declared.oauth, url, environment) if declared.oauth else None,
                timeout=timeout,
                event_hooks={"request": [stay], "response": [note_status]},
            ),
            MOST_MESSAGE_BYTES,
            values_check,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port


class _Tokens:
    """Keeps a token in memory; other workers and restarts request their own."""

    def __init__(self) -> None:
        self._token: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        for secret in filter(None, (tokens.access_token, tokens.refresh_token)):
            keep_hidden(secret)
        self._token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Ignore it, since the client is the declared one."""


class _SharedToken(Auth):
    """Sends the requests of all calls with a single token.

    The library's flow holds a lock until its request is answered, so it is only used to get the token.
    """

    def __init__(self, declared: OAuthClient, url: str, environment: Mapping[str, str]) -> None:
        """Send the credentials to the declared authorization server only."""
        keep_hidden(environment[declared.client_secret])  # an error that repeats it may be logged
        self._provider = ClientCredentialsOAuthProvider(
            server_url=url,
            storage=_Tokens(),
            client_id=environment[declared.client_id],
            client_secret=environment[declared.client_secret],
            issuer=declared.issuer,
        )

    def _authorization(self) -> str:
        tokens = self._provider.context.current_tokens
        return f"Bearer {tokens.access_token}" if tokens and self._provider.context.is_token_valid() else ""

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        """Send with the current token; if there is none or it is refused, send with a new one."""
        if sent := self._authorization():
            request.headers["authorization"] = sent
            response = yield request
            if response.status_code != 401 and "insufficient_scope" not in response.headers.get("www-authenticate", ""):
                return
        async with aclosing(self._provider.async_auth_flow(request)) as flow:
            with suppress(StopAsyncIteration):
                outgoing = await anext(flow)
                while outgoing is not request or self._authorization() in {"", sent}:
                    outgoing = await flow.asend((yield outgoing))
        if self._authorization() not in {"", sent}:
            request.headers["authorization"] = self._authorization()
            yield request


def values_check(content_type: str) -> Callable[[bytes], None]:
    """Build the check of a body's parts, which bounds the values of a message or, in a stream, of each long event."""
    is_stream, values = content_type.startswith("text/event-stream"), ValueCounter()
    most = MOST_MESSAGE_BYTES / BYTES_A_VALUE

    def check(part: bytes) -> None:
        first, *events = part.replace(b"\r\n", b"\n").split(b"\n\n") if is_stream else [part]
        if values.add(first, *(each for each in events[:-1] if len(each) > most), *events[-1:]) > most:
            raise BodyRefused("it has too many values")

    return check


def _reason(error: BaseException | None) -> str:
    """Describe an error in our own words, since a server's words may contain anything."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, ServerUnusable):
        return str(error)
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return f"it ended the connection, or sent more than {MOST_MESSAGE_BYTES // 1_000_000} MB or too many values"
    if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == types.REQUEST_TIMEOUT):
        return "it did not answer in time"
    reasons = {
        OAuthFlowError: "its authorization server gave no token: check the client, its secret and the `url`",
        MCPError: f"it answered with error {error.code}" if isinstance(error, MCPError) else "",
        ValidationError: "its answer does not follow the protocol",
        HTTPError: f"it could not be reached ({type(error).__name__})",
    }
    unknown = f"it could not be used ({type(error).__name__})"
    return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), unknown)


def elicitation_of(server: str, params: types.ElicitRequestParams) -> Elicitation | None:
    """Turn a server's question into one for people; None if it is not a displayable form of plain values."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return None
    written = json.dumps(params.requested_schema, sort_keys=True)
    if len(written) > _FORM_BYTES:
        return None
    try:
        form = Form.model_validate(params.requested_schema)
    except ValidationError:
        return None
    hints = "; ".join(_hint(name, field, form) for name, field in form.properties.items())
    how = "Answer with" if len(form.properties) == 1 else "Answer with a JSON object of"
    message = readable(params.message, _MESSAGE_CHARACTERS)
    return Elicitation(
        key=hashlib.sha256(json.dumps([params.message, written]).encode()).hexdigest()[:16],
        asks=f"The MCP server '{server}' asks: {message}\n{how} {readable(hints, _HINT_CHARACTERS)}",
        form=params.requested_schema,
    )


def _hint(name: str, field: FormField, form: Form) -> str:
    kind = ", ".join(filter(None, (", ".join(map(str, field.options)) or field.type, field.limits)))
    optional = "" if name in form.required else ", may be left out"
    return f"{name} ({kind}{optional}){field.description and f': {field.description}'}"
