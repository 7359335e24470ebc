"""A search service whose certificate is not to be trusted is named, and is not asked again and again."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest
from temporalio.exceptions import ApplicationError

from activities.tools.search.engine import JsonEngine
from tests.activities.certificates import issue, server_context


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, ssl.SSLContext | None]]:
    """Make a certificate for each fault, by an authority that the clients trust."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = issue("authority", (-9, 9))
    trusted = folder / "authority.pem"
    trusted.write_bytes(authority.pem)
    with patch.dict("os.environ", {"SSL_CERT_FILE": str(trusted), "NO_PROXY": "127.0.0.1"}):
        yield {
            "self-signed": server_context(issue("127.0.0.1", (-1, 9)), folder),
            "another host": server_context(issue("elsewhere.example", (-1, 9), authority), folder),
            "expired": server_context(issue("127.0.0.1", (-9, -1), authority), folder),
            "no TLS": None,
        }


@asynccontextmanager
async def serve(context: ssl.SSLContext | None) -> AsyncGenerator[str]:
    """Serve at a port; yields the address."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    accept = server.sockets[0].getsockname()[1]
    async with server:
        yield f"https://127.0.0.1:{accept}"


@pytest.mark.parametrize("fault", ["self-signed", "another host", "expired", "no TLS"])
async def test_a_server_that_cannot_be_trusted_is_named(contexts: dict[str, ssl.SSLContext | None], fault: str) -> None:
    """The failure names the host and the reason, and is not retried."""
    says = "does not speak TLS" if fault == "no TLS" else "its certificate is not trusted"
    async with serve(contexts[fault]) as url:
        engine = JsonEngine("SearXNG", {}, trust_env=False)
        with pytest.raises(ApplicationError) as refused:
            await engine.request("GET", url)
        await engine.close()

        assert refused.value.non_retryable
        assert "SearXNG at 127.0.0.1 cannot be used" in refused.value.message
        assert says in refused.value.message
