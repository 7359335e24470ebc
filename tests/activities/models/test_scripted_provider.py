"""The scripted provider keeps its word to the suite that rests on it."""

import httpx2
import pytest

from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, answer, dropping, error


async def test_only_what_a_provider_would_bill_is_counted() -> None:
    """Errors are free; an answer that got lost on its way is not."""
    replies = iter([error(500), answer(), dropping()])
    async with ScriptedProvider(lambda _: next(replies)) as server, client_of(server) as client:
        for _ in range(2):
            await client.post("/v1/messages", json={"model": "m", "messages": []})
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/v1/messages", json={"model": "m", "messages": []})

    assert (len(server.requests), server.charges) == (3, 2)


async def test_a_script_that_fails_is_never_taken_for_a_provider_that_does() -> None:
    """The client sees a 500, and the test that owns the script sees the mistake."""

    def respond(_: ScriptedRequest) -> ScriptedReply:
        raise KeyError("a mistake in the script")

    server = ScriptedProvider(respond)
    await server.start()
    async with client_of(server) as client:
        response = await client.post("/v1/messages", json={"model": "m", "messages": []})
    with pytest.raises(BaseExceptionGroup) as caught:
        await server.stop()

    assert response.status_code == 500
    assert [str(inner) for inner in caught.value.exceptions] == ["'a mistake in the script'"]


def client_of(server: ScriptedProvider) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.base_url, trust_env=False)
