"""Documents from the web: which are fetched, once, and what is never reached."""

import asyncio
from pathlib import Path

import pytest
from loopback_downloads import LIMITS, LoopbackDownloads
from made_documents import HANDBOOK, pdf
from pydantic import TypeAdapter, ValidationError

from activities.documents.artifacts import ArtifactStore
from activities.documents.downloads import Download, Downloads
from activities.documents.library import DocumentLibrary
from chargehand.contracts.request import DocumentUri
from tests.activities.pages.page_server import PageServer, answer


class Clock:
    """Says what time it is."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now(self) -> float:
        return self.seconds


def _downloads(tmp_path: Path, server: PageServer, clock: Clock | None = None) -> tuple[Downloads, ArtifactStore]:
    """Make downloads as in production, with the loopback server allowed by the operator."""
    store = ArtifactStore(tmp_path / "artifacts")
    allowed = frozenset({server.host})
    return Downloads(store, tmp_path / "downloads", allowed, LIMITS, now=(clock or Clock()).now), store


async def test_a_downloaded_document_is_stored_under_its_digest(tmp_path: Path, server: PageServer) -> None:
    """Its name comes from the URL and from the content type that the server states."""
    names = {
        ("/files/handbook.pdf", "application/pdf"): "handbook.pdf",
        ("/handbook.pdf?version=2", "application/octet-stream"): "handbook.pdf",
        ("/wiki/Node.js", "text/html; charset=utf-8"): "Node.js.html",
        ("/page.htm", "text/html"): "page.htm",
        ("/download", "application/pdf"): "download.pdf",
        ("/a%20b%2F..%2Fc%00.md", "text/plain"): "c_.md",
        ("/", "text/html"): "127.0.0.1.html",
    }
    for path, content_type in names:
        server.pages[path] = answer(b"words", content_type=content_type)
    downloads, store = _downloads(tmp_path, server)
    urls = {f"http://{server.host}{path}": name for (path, _), name in names.items()}

    brought = await downloads.fetch_all(urls)

    digest = store.put(b"words")
    expected = {url: Download(url=url, name=name, digest=digest, bytes=5, at=1_000_000.0) for url, name in urls.items()}
    assert brought == expected
    assert {file.suffix for file in (tmp_path / "downloads").iterdir()} == {".json"}


async def test_a_download_is_reused_for_a_day(tmp_path: Path, server: PageServer) -> None:
    """Concurrent requests and other workers on the host share it; after a day it is downloaded again."""
    url = f"http://{server.host}/a.md"
    server.pages["/a.md"] = answer(b"first")
    clock = Clock()
    workers = [_downloads(tmp_path, server, clock=clock)[0] for _ in range(2)]

    at_once = await asyncio.gather(*(workers[0].fetch_all([url, url]) for _ in range(3)))
    by_another = await workers[1].fetch_all([url])
    server.pages["/a.md"] = answer(b"second!")
    clock.seconds += 24 * 3_600
    anew = await workers[0].fetch_all([url])

    assert at_once == [by_another] * 3
    assert len(server.requests) == 2
    assert [entry.bytes for entry in anew.values() if isinstance(entry, Download)] == [7]


async def test_a_failed_download_is_not_retried_for_a_minute(tmp_path: Path, server: PageServer) -> None:
    """An agent that searches three times does not wait three times; a minute later the document may be back."""
    url = f"http://{server.host}/a.md"
    clock = Clock()
    downloads, _ = _downloads(tmp_path, server, clock=clock)

    first, second = await downloads.fetch_all([url]), await downloads.fetch_all([url])
    server.pages["/a.md"] = answer(b"here")
    clock.seconds += 61
    third = await downloads.fetch_all([url])

    assert first == second == {url: f"It was not read: {url} answered 404 Not Found."}
    assert isinstance(third[url], Download)
    assert len(server.requests) == 2


async def test_harmful_responses_are_refused(tmp_path: Path, server: PageServer) -> None:
    """Redirects to private hosts or plain HTTP, oversized bodies and unrequested compression are refused."""
    locations = ("https://10.0.0.1/", "http://public.example/", "file:///etc/passwd", "")
    pages = [
        *((answer(status="302 Found", Location=location), "") for location in locations),
        (answer(b"x" * 200_000, Content_Length="10000000000"), "is larger than 0 MB"),
        (answer(b"\x1f\x8b", Content_Encoding="gzip"), "compressed"),
    ]
    server.pages = {f"/{number}.md": page for number, (page, _) in enumerate(pages)}
    downloads, _ = _downloads(tmp_path, server)

    problems = await downloads.fetch_all([f"http://{server.host}{path}" for path in server.pages])

    for problem, (_, named) in zip(problems.values(), pages, strict=True):
        assert isinstance(problem, str)
        assert named in problem
    assert (len(server.requests), (tmp_path / "artifacts").exists()) == (len(pages), False)
    assert list((tmp_path / "downloads").iterdir()) == []


async def test_documents_from_the_web_are_searchable(tmp_path: Path, server: PageServer) -> None:
    """Passages have their page or line; an unreachable document has a problem of its own."""
    server.pages["/handbook.md"] = answer(HANDBOOK.encode(), content_type="text/markdown")
    server.pages["/manual"] = answer(pdf(), content_type="application/pdf")
    store = ArtifactStore(tmp_path / "artifacts")
    downloads = LoopbackDownloads(store, tmp_path / "downloads", server.host)
    library = DocumentLibrary(store, tmp_path / "index", (), downloads)

    opened = await library.open(tuple(f"https://w.example/{name}" for name in ("handbook.md", "manual", "gone.pdf")))

    refs = {passage.ref for passage in (await opened.search("annual leave warranty")).passages}
    assert refs == {"handbook.md#L5-L8", "manual.pdf#page=2"}
    problems = {entry.name: entry.problem for entry in opened.catalog.documents if entry.problem}
    assert problems == {"gone.pdf": f"It was not read: http://{server.host}/gone.pdf answered 404 Not Found."}


async def test_a_worker_without_downloads_reports_the_document(tmp_path: Path) -> None:
    """The session does not fail."""
    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "index")

    opened = await library.open(("https://public.example/a.pdf",))

    [entry] = opened.catalog.documents
    assert entry.problem == "This worker reads no documents from the web: upload it."


def test_web_documents_must_be_https_urls() -> None:
    """Validation of the request refuses anything else."""
    for uri in ("http://a.example/x", "https:///x", "https:// a", "https://a.example/\n", "ftp://a/x"):
        with pytest.raises(ValidationError):
            TypeAdapter(DocumentUri).validate_python(uri)
