"""Endless responses cost a client no more than its limit."""

import asyncio
import io
import threading
import zlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

import chargehand.bucket
from activities.documents.artifacts import ArtifactStore
from activities.documents.downloads import Downloads
from activities.http.guarded_get import GuardedBackend
from activities.http.page import FetchError, FetchLimits
from activities.models.failures import ProviderError
from activities.models.protocol import ProviderJob
from activities.tools.pages.fetch import Fetcher
from activities.tools.search.engine import JsonEngine
from chargehand.bucket import BucketLocation, open_bucket
from chargehand.errors import BucketError, ChargehandError
from chargehand.wire import ErrorType
from chargehand_plugins.buckets import gcs
from tests.activities.models.calls import Wire, a_call, an_adapter
from tests.loopback_http import LoopbackHandler, serve_http
from tests.parameters import first_fast

MOST_SENT = 256 << 20
"""Bytes after which the server gives up on a client that reads everything."""


@dataclass
class EndlessServer:
    """A server that answers `/<status>/…` endlessly with that status, and `/<status>-<encoding>/…` compressed so."""

    url: str = ""
    redirects_to: str = ""
    sent: int = 0
    """Bytes of response bodies that the network has accepted."""
    answering: int = 0
    """Number of responses that a client has not yet hung up on."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self) -> None:
        """Wait until the clients have hung up on every answer."""
        with self.changed:
            assert self.changed.wait_for(lambda: not self.answering, timeout=20), "a client did not hang up"

    def count(self, answers: int) -> None:
        with self.changed:
            self.answering += answers
            self.changed.notify_all()


@contextmanager
def serve_endlessly() -> Generator[tuple[EndlessServer, list[str]]]:
    """Serve until the block ends; yields the server and the requests that were redirected elsewhere."""
    server = EndlessServer()
    elsewhere: list[str] = []

    class Target(LoopbackHandler):
        def reply(self) -> None:
            elsewhere.append(f"{self.command} {self.path}")
            self.answer(404)

    class Endless(LoopbackHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            server.count(1)
            self.close_connection = True
            self.body()
            status, _, encoding = self.path.split("/")[1].partition("-")
            self.send_response(int(status))
            self.send_header("Connection", "close")
            self.send_header("Content-Type", "application/json")
            if encoding:
                self.send_header("Content-Encoding", encoding)
            if status.startswith("3"):
                self.send_header("Location", server.redirects_to)
            self.end_headers()
            self._send_body(encoding)

        def do_PUT(self) -> None:  # noqa: N802  # the base class's name
            self.reply()

        def _send_body(self, encoding: str) -> None:
            deflater = zlib.compressobj(wbits=zlib.MAX_WBITS | 16) if encoding == "gzip" else None
            with suppress(OSError):
                while server.sent < MOST_SENT:
                    content = deflater.compress(bytes(1 << 20)) if deflater else b" " * 16_384
                    self.wfile.write(content)
                    server.sent += len(content)
            server.count(-1)

    with serve_http(Endless) as url, serve_http(Target) as other:
        server.url, server.redirects_to = url, f"{other}/target"
        yield server, elsewhere


STATUSES = ("200", "307", "308", "400", "429", "500")
_IN_FLIGHT = 8 << 20
"""What the network may accept beyond what is read, or as much again, since its window grows with it."""
LARGEST = {"model": 4_000_000, "search": 4_000_000, "page": 5_000_000, "document": 1_000_000, "bucket": 1 << 20}
"""Maximum size of a successful response, by the kind of client."""


class Unusable(Exception):  # noqa: N818  # reads as a statement of fact
    """A document was not read."""


@pytest.fixture(scope="module")
def _no_proxy() -> Generator[None]:
    with patch.dict("os.environ", {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}):
        yield


@pytest.fixture
def servers(_no_proxy: None) -> Generator[tuple[EndlessServer, list[str]]]:
    with serve_endlessly() as serving:
        yield serving


async def _ask_model(wire: Wire, url: str, *, as_job: bool = False) -> None:
    options = {"background": as_job} if wire == "responses" else {}
    model = an_adapter(wire, url, **options)

    async def remember(_: str) -> None:
        raise AssertionError("no job was begun")

    async def is_unwanted() -> bool:
        return True

    job = ProviderJob("", remember, is_unwanted) if as_job else None
    urgency = "batch" if as_job else "now"
    try:
        await model.complete(a_call("anthropic").model_copy(update={"job": job, "urgency": urgency}))
    finally:
        await model.aclose()


async def _request(url: str) -> None:
    engine = JsonEngine("An engine", {}, trust_env=False)
    try:
        await engine.ask(BaseModel, f"{url}/search")
    finally:
        await engine.close()


async def _read_page(url: str) -> None:
    await Fetcher(GuardedBackend(_allowed(url)), FetchLimits()).fetch(f"{url}/page")


async def _download(url: str, folder: Path) -> None:
    store = ArtifactStore(folder / "artifacts")
    limits = FetchLimits(wire_bytes=1_000_000, decoded_bytes=1_000_000, total=timedelta(seconds=20))
    downloads = Downloads(store, folder / "downloads", _allowed(url), limits)
    (answer,) = (await downloads.fetch_all([f"{url}/document"])).values()
    assert isinstance(answer, str)
    raise Unusable(answer)


def _allowed(url: str) -> frozenset[str]:
    return frozenset({url.removeprefix("http://").partition("/")[0]})


def _use_bucket(scheme: str, url: str) -> None:
    settings = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "k", "AWS_EC2_METADATA_DISABLED": "true"}
    settings["STORAGE_EMULATOR_HOST"] = url
    with (
        patch.dict("os.environ", settings),
        patch.object(gcs, "_RETRY", None),
        patch.object(chargehand.bucket, "LARGEST_OBJECT", 1 << 20),
    ):
        options = {"region": "us-east-1", "endpoint": url} if scheme == "s3" else {}
        bucket = open_bucket(BucketLocation(scheme, "documents", ""), **options)
        with suppress(BucketError):
            bucket.put("aa/a", b"text")  # the response has no content
        bucket.fetch("aa/a", io.BytesIO())


CLIENTS: Mapping[str, Callable[[str, Path], Awaitable[None]]] = {
    "model anthropic": lambda url, _: _ask_model("anthropic", url),
    "model anthropic batch": lambda url, _: _ask_model("anthropic", url, as_job=True),
    "model responses": lambda url, _: _ask_model("responses", url),
    "model responses background": lambda url, _: _ask_model("responses", url, as_job=True),
    "model chat": lambda url, _: _ask_model("chat", url),
    "search engine": lambda url, _: _request(url),
    "page": lambda url, _: _read_page(url),
    "document": _download,
    "bucket s3": lambda url, _: asyncio.to_thread(_use_bucket, "s3", url),
    "bucket gs": lambda url, _: asyncio.to_thread(_use_bucket, "gs", url),
}
_TOLD = {
    "200": (ErrorType.PROVIDER_REFUSED, True, True),
    "429": (ErrorType.RATE_LIMITED, False, False),
    "500": (ErrorType.PROVIDER_UNAVAILABLE, False, False),
}
"""The error reported for a model provider's status, except a free refusal."""
_EXPECTED = (ProviderError, ApplicationError, FetchError, ChargehandError, Unusable)


@pytest.mark.parametrize("client", first_fast(CLIENTS, 4, pytest.mark.nightly))
async def test_endless_responses_are_read_only_up_to_the_limit(
    client: str, servers: tuple[EndlessServer, list[str]], tmp_path: Path
) -> None:
    """The client hangs up, the failure is classified, and nothing is sent to a redirect's target."""
    server, elsewhere = servers
    for status in STATUSES:
        before = server.sent
        with pytest.raises(_EXPECTED) as caught:
            await CLIENTS[client](f"{server.url}/{status}", tmp_path / status)
        server.wait()

        kind = client.partition(" ")[0]
        attempts = 8 if kind == "bucket" else 1
        most = LARGEST[kind] if status == "200" else 64_000
        if "batch" in client or "background" in client:
            most = 32 << 20 if status == "200" else most
        assert server.sent - before < attempts * (most + max(_IN_FLIGHT, most)), status
        if isinstance(error := caught.value, ProviderError):
            told = _TOLD.get(status, (ErrorType.PROVIDER_REFUSED, True, False))
            assert (error.kind, error.is_final, error.fault.possibly_billed) == told, status
            assert ("it redirects to 127.0.0.1" in error.message) is status.startswith("3")
        if kind not in {"page", "document"}:
            # Pages and documents are read by GET, without any prompt, and each redirect is checked.
            assert elsewhere == [], status


@pytest.mark.parametrize(
    "client", first_fast(["model anthropic", "model responses", "model chat", "search engine", "page"], 2)
)
async def test_decompressed_responses_are_limited_too(
    client: str, servers: tuple[EndlessServer, list[str]], tmp_path: Path
) -> None:
    """A gzip bomb is dropped once it is too large, and encodings that were not offered are not read."""
    server, _ = servers
    for status in ("200-gzip", "500-gzip", "200-br", "200-zstd"):
        before = server.sent
        with pytest.raises(_EXPECTED):
            await CLIENTS[client](f"{server.url}/{status}", tmp_path)
        server.wait()

        assert server.sent - before < 64_000 + _IN_FLIGHT, status
