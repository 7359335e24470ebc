"""Credentials of the calling user: tools and MCP servers get them, and nothing else ever does."""

import asyncio
import base64
import io
import logging
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import JsonValue
from starlette.responses import Response
from temporalio.client import Client

from activities.credentials import credential_problems
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.credentials import credential_keys, seal_credentials
from chargehand.errors import ChargehandError, InvalidInput
from chargehand.tools import ToolContext, ToolError, tool
from chargehand_plugins.mcp.tests.http_server import serve_mcp
from chargehand_plugins.mcp.tests.test_sessions_with_tools import histories, worker
from tests.crew_files import crew_text
from tests.scripted_model import Script, ScriptedModel, answer, request_tools, subtask, work_task
from tests.waiting import eventually
from worker.logs import JsonFormatter, TextFormatter

CANARY = 'canary-7f3a"/+x'
KEYS = '{"one": "%s"}' % base64.b64encode(b"k" * 32).decode()  # noqa: UP031  # braces of JSON
OWN = ("whoami", "refuses", "breaks")
REMOTE = ("crm_whoami", "crm_fails")


def every_form() -> list[bytes]:
    """Return the credential in every form in which the tools leak it."""
    alone, with_name = CANARY.encode(), f"user:{CANARY}".encode()
    encoded = [base64.b64encode(alone).decode().rstrip("="), base64.b64encode(with_name).decode()[8:-2]]
    return [each.encode() for each in ("canary-7f3a", quote(CANARY, safe=""), *encoded)]


@tool(capabilities=[], credentials=["crm"])
def whoami(context: ToolContext) -> dict[str, Any]:
    """Leak the credential in every form."""
    value = context.credentials["crm"]
    logging.getLogger("own").warning("signed in with %s by %r", value, context)
    basic = base64.b64encode(f"user:{value}".encode()).decode()
    return {"value": value, value: [f"Bearer {value}", quote(value, safe=""), f"Basic {basic}"]}


@tool(capabilities=[], credentials=["crm"])
async def refuses(context: ToolContext) -> str:
    """Leak the credential in a message for the model."""
    raise ToolError(f"The service knows no {context.credentials['crm']}")


@tool(capabilities=[], credentials=["crm"])
async def breaks(context: ToolContext) -> str:
    """Leak the credential in an exception."""
    raise RuntimeError(f"401 for {context.credentials['crm']}") from ValueError(context.credentials["crm"])


@dataclass
class Crm:
    url: str = ""
    authorizations: set[str] = field(default_factory=set[str])


@contextmanager
def crm() -> Generator[Crm]:
    """Serve tools that repeat the headers of their call, to callers that send an authorization."""
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError as Refusal

    served, mcp = Crm(), MCPServer("crm")

    @mcp.tool(name="whoami")
    def repeat(context: Context) -> str:
        """Say who calls."""
        return f"You are {context.headers}"

    @mcp.tool()
    def fails(context: Context) -> str:
        """Fail with the caller's headers."""
        raise Refusal(f"No {context.headers}")

    def check(_: str, authorization: str) -> Response | None:
        served.authorizations.add(authorization)
        return None if authorization else Response("No.", status_code=401)

    with serve_mcp(mcp, check) as served.url:
        yield served


def asking_all(client: Client, folder: Path, url: str, model: ScriptedModel) -> AbstractAsyncContextManager[Chargehand]:
    """Run a worker that keeps a tape, and whose agent has all of the tools."""
    server = f"""
[[mcp]]
name = "crm"
url = "{url}"
bearer_token = "LISTING_TOKEN"
headers = {{ authorization = "Bearer ${{credential:crm}}" }}
tools = ["whoami", "fails"]
capabilities = []
start_seconds = 60
"""
    tools = ", ".join(f'"{name}"' for name in (*OWN, *REMOTE))
    crew = crew_text("desk", server, clerk=f"tools = [{tools}]\ncapabilities = []")
    chosen: dict[str, Any] = {"credential_keys": KEYS, "tape_record": folder / "tape.jsonl"}
    return worker(client, folder, crew, model, (whoami, refuses, breaks), **chosen)


@pytest.fixture(autouse=True)
def listing_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTING_TOKEN", "listing-token")


@contextmanager
def logged() -> Generator[Callable[[], str]]:
    """Capture everything logged at DEBUG in the workers' formats."""
    root, stream = logging.getLogger(), io.StringIO()
    level, handlers = root.level, [logging.StreamHandler(stream), logging.StreamHandler(stream)]
    for handler, formatter in zip(handlers, (TextFormatter, JsonFormatter), strict=True):
        handler.setFormatter(formatter(redacts=False))
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream.getvalue
    finally:
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)


def using_all() -> ScriptedModel:
    calls = request_tools(*((name, dict[str, JsonValue]()) for name in (*OWN, *REMOTE)))
    return ScriptedModel(Script().plan(subtask("T1", "clerk")).work("", calls, answer("Done.")))


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
async def test_a_user_credential_stays_where_it_is_used(client: Client, tmp_path: Path) -> None:
    """No history, prompt, report, trace, tape, file or log has it, though everything given it leaks it."""
    model = using_all()
    with crm() as served, logged() as log:
        async with asking_all(client, tmp_path, served.url, model) as chargehand:
            session = await chargehand.start(sealed_request())
            report = await asyncio.wait_for(session.result(), 120)
            trace = await session.trace()
            enough = len(OWN + REMOTE)
            kept = await eventually(
                lambda: histories(client, report.session), lambda found: found.count(b"sealed:") > enough
            )
        said = log()

    results = {each.tool: each for each in work_task(model.of_kind("work")[-1]).rounds[0].results}
    told = {name: str(result) for name, result in results.items()}
    assert served.authorizations == {"Bearer listing-token", f"Bearer {CANARY}"}
    assert [name for name, said in told.items() if "[credential crm]" not in said] == ["breaks"]
    assert "RuntimeError" in told["breaks"]
    assert "signed in with [credential crm]" in said
    files = files_below(tmp_path)
    assert b"crm_whoami" in files["tape.jsonl"]
    texts = {"prompts": str(model.calls), "report": report.model_dump_json(), "trace": trace.model_dump_json()}
    places = {"history": kept, "log": said.encode(), **files, **{name: text.encode() for name, text in texts.items()}}
    assert [(name, form) for name, text in places.items() for form in every_form() if form in text] == []


async def test_a_tool_without_its_user_credential_is_not_called(client: Client, tmp_path: Path) -> None:
    """The agent is told which is missing; a credential sealed for another tenant starts no session."""
    model = using_all()
    with crm() as served:
        async with asking_all(client, tmp_path, served.url, model) as chargehand:
            await chargehand.run(SessionRequest(goal="Who am I?", crew="desk"))
            session = await chargehand.start(sealed_request(tenant="other"))
            with pytest.raises(InvalidInput, match=r"credentials\.crm: .*cannot be opened here"):
                await session.opened()

    results = work_task(model.of_kind("work")[-1]).rounds[0].results
    errors = [str(each.output["error"]) for each in results]
    assert [each.partition(" needs")[0] for each in errors] == [f"The tool '{name}'" for name in (*OWN, *REMOTE)]
    assert all("credential 'crm', and the request does not bring it" in each for each in errors)
    assert served.authorizations == {"Bearer listing-token"}


def sealed_request(tenant: str = "acme", name: str = "crm") -> SessionRequest:
    """Build a request of tenant `acme` with a credential sealed for this tenant and name."""
    [sealed] = seal_credentials({name: CANARY}, tenant=tenant, keys=credential_keys(KEYS)).values()
    return SessionRequest(goal="Who am I?", crew="desk", tenant="acme", credentials={"crm": sealed})


@pytest.mark.parametrize(
    ("keys", "request_", "why"),
    [
        (KEYS, sealed_request(), ""),
        (None, sealed_request(), "has no CHARGEHAND_CREDENTIAL_KEYS"),
        (KEYS.replace("one", "two"), sealed_request(), "cannot be opened here"),
        (KEYS, sealed_request(tenant="other"), "cannot be opened here"),
        (KEYS, sealed_request(name="mail"), "cannot be opened here"),
    ],
)
def test_a_sealed_credential_opens_only_with_its_keys_tenant_and_name(
    keys: str | None, request_: SessionRequest, why: str
) -> None:
    """In any other case the request is refused with the credential's name."""
    problems = credential_problems(credential_keys(keys) if keys else None, request_)

    assert [why in each for each in problems if each.startswith("credentials.crm: ")] == ([True] if why else [])


def test_an_unsealed_credential_is_refused_without_being_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be sealed without keys, or if it is too short to be redacted."""
    monkeypatch.delenv("CHARGEHAND_CREDENTIAL_KEYS", raising=False)
    with pytest.raises(InvalidInput) as refused:
        SessionRequest(goal="Who am I?", credentials={"crm": CANARY})

    assert "canary" not in f"{refused.value!r} {refused.value.__cause__!r}"
    with pytest.raises(ChargehandError, match="CHARGEHAND_CREDENTIAL_KEYS is not set"):
        seal_credentials({"crm": CANARY})
    monkeypatch.setenv("CHARGEHAND_CREDENTIAL_KEYS", KEYS)
    with pytest.raises(InvalidInput, match=r"credentials\.crm: has 5 characters"):
        seal_credentials({"crm": "short"})
    assert "canary" not in repr(ToolContext(session="s", agent="a", idempotency_key="k", credentials={"crm": CANARY}))
