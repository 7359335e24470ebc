"""The trace of a request that starts a session, by the API and by A2A."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client

from chargehand.contracts import SessionRequest
from chargehand_plugins.console.tests.conftest import OpenConsole, open_console
from chargehand_plugins.opentelemetry.caller_trace import CallerTrace, carried, received_trace
from tests.scripted_model import Script
from tests.started_trace import started_trace

PARENT: Final = f"00-{'ab' * 16}-{'cd' * 8}-01"


@dataclass(frozen=True)
class Desk:
    """A console, and the client that it starts sessions with."""

    console: OpenConsole
    client: Client

    async def start(self, headers: dict[str, str]) -> str:
        """Start a session by the API, as a program of a caller's does."""
        request = SessionRequest(goal="What is known?", review="never")
        body = request.model_dump(mode="json", exclude_unset=True)
        answered = await self.console.api.post("/api/v1/sessions", json=body, headers=headers)
        return answered.json()["session"]

    async def send(self, headers: dict[str, str]) -> str:
        """Start a session by A2A."""
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "What is known?"}]}
        parameters = {"message": message, "configuration": {"returnImmediately": True}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": parameters}
        answered = await self.console.api.post("/api/a2a", json=body, headers={"A2A-Version": "1.0", **headers})
        return answered.json()["result"]["task"]["id"]


@pytest.fixture(scope="module")
async def desk(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk]:
    config: dict[str, Any] = {**client.config(), "interceptors": [CallerTrace()]}
    sending = Client(**config)
    async with open_console(sending, tmp_path_factory.mktemp("traces"), Script()) as console:
        yield Desk(console, client)


async def test_a_session_belongs_to_the_trace_of_the_request_that_starts_it(desk: Desk) -> None:
    """The caller's span is handed on, with its vendor's state and without its baggage; without one, nothing is."""
    headers = {"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=zanzibar"}
    carrier = {"traceparent": PARENT, "tracestate": "vendor=1"}

    assert await started_trace(desk.client, await desk.start(headers)) == carrier
    assert await started_trace(desk.client, await desk.send(headers)) == carrier
    assert await started_trace(desk.client, await desk.start({})) is None


async def test_a_trace_that_cannot_be_read_starts_the_session_without_one(desk: Desk) -> None:
    """Whatever a caller sends as its trace, its request is done."""
    assert await started_trace(desk.client, await desk.start({"traceparent": f"{PARENT}-zanzibar"})) is None
    assert await started_trace(desk.client, await desk.start({"traceparent": PARENT, "tracestate": "x" * 600})) == {
        "traceparent": PARENT
    }


@given(
    st.text()
    | st.tuples(
        st.sampled_from(["00", "ff", "0"]),
        st.sampled_from(["0" * 32, "AB" * 16, "ab" * 15]),
        st.sampled_from(["0" * 16, "cd" * 8]),
    ).map(lambda parts: "-".join((*parts, "01")))
)
def test_only_what_the_standard_allows_is_handed_on(text: str) -> None:
    """Ids of zeros, capitals, other lengths and other texts name no trace."""
    with received_trace(text, "vendor=1"):
        assert carried() == {}
    with received_trace(PARENT):
        assert carried() == {"traceparent": PARENT}
