"""MCP servers over streamable HTTP: the official library's own, on loopback."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import ClassVar
from urllib.parse import parse_qs

import pytest
from temporalio.exceptions import ApplicationError

from activities.contracts.mcp_declaration import McpDeclaration, OAuthClient
from activities.contracts.tool import ToolAnswer, ToolContext
from activities.credentials import hide
from chargehand_plugins.mcp.tests.http_server import TOKEN, HttpServer, serve_mcp, serve_weather
from chargehand_plugins.mcp.tools.server import McpServer
from chargehand_plugins.mcp.tools.tool import tools_of
from tests.loopback_http import LoopbackHandler, serve_http

CONTEXT = ToolContext(session="s", agent="a", idempotency_key="k")


@pytest.fixture(scope="module")
def served() -> Iterator[HttpServer]:
    with serve_weather() as served:
        yield served


@pytest.fixture
def remote(served: HttpServer) -> HttpServer:
    """A server that does nothing unusual and has received no requests yet."""
    served.redirect = served.issuer = ""
    served.authorizations.clear()
    return served


async def call_forecast(server: McpServer) -> ToolAnswer:
    return await tools_of([server])["weather_forecast"].use({"city": "Oslo", "days": None}, CONTEXT)


def declared(url: str, token: str = TOKEN, resources: tuple[str, ...] = ()) -> McpServer:
    tools = () if resources else ("forecast",)
    declaration = McpDeclaration(
        name="weather", url=url, bearer_token="WEATHER_TOKEN", tools=tools, resources=resources, start_seconds=60
    )
    return McpServer(declaration, {"WEATHER_TOKEN": token})


@pytest.mark.parametrize("json_response", [False, True], ids=["events", "json"])
async def test_a_tool_is_called_with_the_bearer_token(*, json_response: bool) -> None:
    """Its description, the schema with an optional argument, and the results come over HTTP."""
    with serve_weather(json_response=json_response) as remote:
        server = declared(remote.url)
        await server.start()
        spec = tools_of([server])["weather_forecast"].spec
        answer, again = [await call_forecast(server) for _ in range(2)]
        await server.close()

    assert spec.description.endswith("Tell the weather of the next days.")
    assert spec.parameters["required"] == ["city", "days"]
    assert answer.sources[0].quote.startswith("Oslo: rain for 1 days.")
    assert again == answer
    assert set(remote.authorizations) == {f"Bearer {TOKEN}"}


async def test_only_declared_resources_are_read(remote: HttpServer) -> None:
    """The text is a source with credentials hidden; an undeclared or missing resource is an error."""
    server = declared(remote.url, resources=("weather://stations", "weather://gone"))
    tool = tools_of([server])["weather_read_resource"]

    read, gone, other = [
        await tool.use({"uri": f"weather://{name}"}, CONTEXT) for name in ("stations", "gone", "secrets")
    ]
    await server.close()

    assert [source.quote for source in read.sources] == ["Bergen\nOslo [credential]"]
    assert "The server refused it" in str(gone.output["error"])
    assert other.output["error"] == "There is no such resource; there are weather://stations, weather://gone."


async def test_a_server_with_only_resources_is_usable() -> None:
    """It is not asked for tools, which it need not support."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def read(_: object, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=asked.uri, text="Deep.")])

    with serve_mcp(Server("shelf", on_read_resource=read)) as url:
        server = declared(url, resources=("weather://a",))
        await server.start()
        answer = await tools_of([server])["weather_read_resource"].use({"uri": "weather://a"}, CONTEXT)
        await server.close()

    assert (server.problem, [source.quote for source in answer.sources]) == ("", ["Deep."])


async def test_a_wrong_token_is_reported_without_the_token(remote: HttpServer) -> None:
    """The agent gets the server's refusal, not the token."""
    server = declared(remote.url, "canary-wrong")

    with pytest.raises(
        ApplicationError, match=r"the MCP server 'weather' cannot be used: .*, HTTP status 401"
    ) as caught:
        await call_forecast(server)
    await server.close()

    assert "canary" not in str(caught.value)


async def test_a_redirect_to_another_host_is_not_followed(remote: HttpServer) -> None:
    """The address is the operator's, and the token is sent to it alone."""
    with serve_weather() as elsewhere:
        remote.redirect = elsewhere.url
        server = declared(remote.url)

        with pytest.raises(ApplicationError, match=r"cannot be used: .*, HTTP status 307"):
            await call_forecast(server)
        await server.close()

        assert remote.authorizations
        assert elsewhere.authorizations == []


@pytest.mark.parametrize(("status", "is_lost"), [(503, True), (429, True), (403, False)])
async def test_a_call_answered_by_a_gateway_counts_as_lost(remote: HttpServer, status: int, *, is_lost: bool) -> None:
    """Only the server itself, or a 403, refuses a call; a 503 or 429 leaves its outcome unknown."""
    server = declared(remote.url)
    await call_forecast(server)
    remote.statuses = [0, status]
    with pytest.raises(ApplicationError, match=f"HTTP status {status}") if is_lost else nullcontext():
        assert not (await call_forecast(server)).ok

    assert (await call_forecast(server)).ok
    await server.close()


async def test_a_server_is_used_again_when_it_comes_back(remote: HttpServer) -> None:
    """If the server has forgotten the MCP session, a new one is opened."""
    server = declared(remote.url)
    await call_forecast(server)
    remote.redirect = "http://127.0.0.1:9/"
    with pytest.raises(ApplicationError):
        await call_forecast(server)
    remote.redirect = ""
    server._not_before = 0.0  # pyright: ignore[reportPrivateUsage]  # instead of waiting

    assert (await call_forecast(server)).ok
    await server.close()


class _Issuer(LoopbackHandler):
    """Issues the token to the declared client and records who asked."""

    asked: ClassVar[list[tuple[str, str]]] = []
    status: ClassVar[int] = 200

    def reply(self) -> None:
        issuer = f"http://{self.headers['host']}"
        self.asked.append((self.path, self.headers.get("authorization", "")))
        if self.path.startswith("/.well-known/"):
            places = {"authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token"}
            kinds = {"response_types": "code", "grant_types": "client_credentials"}
            kinds |= {"token_endpoint_auth_methods": "client_secret_basic"}
            described = {"issuer": issuer, **places, **{f"{name}_supported": [kind] for name, kind in kinds.items()}}
            self.answer(200, json.dumps(described).encode(), content_type="application/json")
        else:
            body = parse_qs(self.body().decode())
            assert body["grant_type"] == ["client_credentials"]
            given = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}
            self.answer(self.status, json.dumps(given).encode(), content_type="application/json")


def _with_oauth(url: str, issuer: str) -> McpServer:
    client = OAuthClient(issuer=issuer, client_id="CLIENT", client_secret="SECRET")
    declaration = McpDeclaration(
        name="weather", url=url, oauth=client, tools=("forecast",), resources=("weather://token",), start_seconds=60
    )
    return McpServer(declaration, {"CLIENT": "canary-client", "SECRET": "canary-secret"})


async def test_a_token_is_obtained_by_oauth(remote: HttpServer) -> None:
    """Credentials go to the declared authorization server alone, and its token to the MCP server alone."""
    _Issuer.asked.clear()
    with serve_http(_Issuer) as remote.issuer:
        server = _with_oauth(remote.url, remote.issuer)
        answer = await call_forecast(server)
        repeated = await tools_of([server])["weather_read_resource"].use({"uri": "weather://token"}, CONTEXT)
        await server.close()

    credentials = base64.b64encode(b"canary-client:canary-secret").decode()
    assert answer.sources[0].quote.startswith("Oslo: rain")
    assert [source.quote for source in repeated.sources] == ["[credential] [credential]"]
    assert hide("bad client canary-secret") == "bad client [credential]"
    assert [each for each in _Issuer.asked if each[1]] == [("/token", f"Basic {credentials}")]
    assert set(remote.authorizations) == {"", f"Bearer {TOKEN}"}


async def test_calls_with_an_oauth_token_run_concurrently() -> None:
    """Both are in flight at once, even after their token was revoked."""
    from mcp.server.mcpserver import MCPServer

    remote, weather, calls = HttpServer(), MCPServer("weather"), list[asyncio.Event]()

    @weather.tool()
    async def forecast(city: str, days: int = 1) -> str:
        """Answer once there are two calls."""
        calls.append(asyncio.Event())
        for call in calls[: len(calls) // 2 * 2]:
            call.set()
        await calls[-1].wait()
        return f"{city} {days}"

    with serve_mcp(weather, remote.check, json_response=True) as remote.url, serve_http(_Issuer) as remote.issuer:
        server = _with_oauth(remote.url, remote.issuer)
        for refused in ([], [401, 401]):
            remote.statuses = list(refused)
            async with asyncio.timeout(20):
                first, second = await asyncio.gather(call_forecast(server), call_forecast(server))
                assert (first.ok, second.ok) == (True, True)
        await server.close()


@pytest.mark.parametrize(("status", "said"), [(503, "is not available"), (401, "check the client")])
async def test_a_failed_token_request_states_its_reason(remote: HttpServer, status: int, said: str) -> None:
    """An overloaded authorization server is told apart from one that refuses the client."""
    with serve_http(_Issuer) as remote.issuer:
        _Issuer.status = status
        server = _with_oauth(remote.url, remote.issuer)
        with pytest.raises(ApplicationError, match=f"authorization server.*{said}.*, HTTP status {status}"):
            await call_forecast(server)
        await server.close()
        _Issuer.status = 200


async def test_no_undeclared_authorization_server_is_asked(remote: HttpServer) -> None:
    """It does not matter that the MCP server names another one."""
    _Issuer.asked.clear()
    with serve_http(_Issuer) as declared_issuer, serve_http(_Issuer) as remote.issuer:
        server = _with_oauth(remote.url, declared_issuer)
        with pytest.raises(ApplicationError, match="cannot be used") as caught:
            await call_forecast(server)
        await server.close()

    assert _Issuer.asked == []
    assert "canary" not in str(caught.value)
