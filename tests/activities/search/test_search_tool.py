"""The tool `search` with any engine: a substitute where none is configured, and dates in one format."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.tool import OUTPUT_CAP_CHARACTERS, ToolAnswer, ToolContext
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.search.engine import iso_date
from activities.tools.search.local import LocalSearch
from activities.tools.search.protocol import SearchHit, SearchResults
from activities.tools.search.tool import Search
from chargehand.contracts import Source

CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k", documents=("file:/docs",))


class Scripted:
    """An engine with preset results."""

    name = "scripted"
    reaches_out = True

    def __init__(self, *hits: SearchHit, confidence: int = 50, note: str = "") -> None:
        self._hits = hits
        self._note = note
        self._confidence = confidence
        self.asked: list[tuple[str, int, tuple[str, ...]]] = []

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:
        self.asked.append((query, limit, documents))
        return SearchResults(query=query, results=self._hits, confidence=self._confidence, note=self._note)


async def test_hits_are_listed_and_can_be_cited() -> None:
    """Web sources name the engine and the date; a passage of a document has no URL."""
    engine = Scripted(
        SearchHit(title="Tides", snippet="Twice a day.", url="https://a.example/1", published="2026-01-02"),
        SearchHit(title="Log", snippet="High at six.", url="log.md#L3-L4"),
    )

    answer = await Search(engine).use({"query": " tides "}, CONTEXT)

    url, title = "https://a.example/1", "Tides (found by scripted, dated 2026-01-02 there)"
    results: list[JsonValue] = [
        {"title": "Tides", "snippet": "Twice a day.", "url": url},
        {"title": "Log", "snippet": "High at six.", "url": "log.md#L3-L4"},
    ]
    sources = (
        Source(ref=url, title=title, url=url, quote="Twice a day."),
        Source(ref="log.md#L3-L4", title="Log", quote="High at six."),
    )
    assert answer == ToolAnswer(output={"query": "tides", "results": results, "confidence": 50}, sources=sources)
    assert engine.asked == [("tides", 8, ("file:/docs",))]


async def test_empty_and_partial_searches_carry_a_note() -> None:
    """The note suggests other words if nothing was found, and says so if an engine did not answer."""
    cases: list[tuple[tuple[SearchHit, ...], str, str]] = [
        ((), "", "Nothing was found. Search again with other or fewer words."),
        ((), "One did not answer.", "Nothing was found. Search again with other or fewer words. One did not answer."),
        ((SearchHit(title="T", snippet="", url="https://a.example"),), "One did not answer.", "One did not answer."),
    ]
    for hits, note, said in cases:
        answer = await Search(Scripted(*hits, note=note)).use({"query": "q"}, CONTEXT)
        assert answer.output["note"] == said


def test_a_hits_host_is_normalized() -> None:
    """Case, `www.`, port and user info are ignored; an invalid URL or a document ref has no host."""
    cases: list[tuple[str, str | None]] = [
        ("https://www.A.example/1", "a.example"),
        ("http://a.example.:8080/", "a.example"),
        ("https://user@b.a.example", "b.a.example"),
        ("https://[::1]/", "::1"),
        ("https://[broken/", None),
        ("handbook.md#L1", None),
    ]
    for url, host in cases:
        assert SearchHit(title="", snippet="", url=url).host == host


async def test_a_call_without_a_query_is_answered_in_words() -> None:
    """Nothing is asked without a query."""
    engine = Scripted()
    calls: list[dict[str, JsonValue]] = [{}, {"query": ""}, {"query": "  "}, {"query": 7}, {"query": ["a"]}]
    refusal = ToolAnswer(ok=False, output={"error": "`query` must be what to look for, in a few words."})

    assert [await Search(engine).use(call, CONTEXT) for call in calls] == [refusal] * len(calls)
    assert engine.asked == []


async def test_an_answer_stays_under_the_cap() -> None:
    """However much an engine finds, the model gets no more than the cap of a tool call."""
    for size in (0, 100, 700, 900, 1_000, 1_400, 1_700, 1_900, 100_000):
        hits = (
            SearchHit(title="t" * size, snippet="s" * size, url=f"https://a.example/{number}/{'u' * (size % 997)}")
            for number in range(20)
        )
        answer = await Search(Scripted(*hits, note="n" * size)).use({"query": "q"}, CONTEXT)

        results = answer.output.pop("results")
        assert len(answer.model_dump_json()) <= OUTPUT_CAP_CHARACTERS
        assert isinstance(results, list)
        assert len(answer.sources) == len(results) > 0
        assert len(str(results)) <= len(results) * 300 + sum(len(source.ref) for source in answer.sources)


async def test_duplicate_hits_are_dropped() -> None:
    """Sources are identified by their refs, and the better hit comes first and is kept."""
    engine = Scripted(
        SearchHit(title="A", snippet="one", url="https://a.example/"),
        SearchHit(title="A", snippet="two", url="https://a.example/"),
    )

    answer = await Search(engine).use({"query": "q"}, CONTEXT)

    assert [source.quote for source in answer.sources] == ["one"]


async def test_document_hits_reference_their_place(tmp_path: Path) -> None:
    """They look like web hits, with a ref as URL; if all words are found, confidence is 100."""
    note = tmp_path / "note.md"
    note.write_text("# Launch\n\nThe launch moves to September because a part is late.\n")

    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "index", (tmp_path,))
    results = await LocalSearch(library).search("launch in September", 5, (f"file:{note}",))

    snippet = "The launch moves to September because a part is late."
    hit = SearchHit(title="note.md: Launch", snippet=snippet, url="note.md#L3")
    assert results == SearchResults(query="launch in September", results=(hit,), confidence=100)


def test_dates_are_normalized_to_iso_8601() -> None:
    """The engine's precision is kept, and times with a known zone are converted to UTC."""
    cases = [
        ("2026-01-02", "2026-01-02"),
        (" 2026-01-02 ", "2026-01-02"),
        ("2026-01", "2026-01"),
        ("2026", "2026"),
        ("2026-01-02T00:00:00", "2026-01-02"),
        ("2026-01-02T10:20:30", "2026-01-02T10:20:30"),
        ("2026-01-02 10:20:30.123456", "2026-01-02T10:20:30"),
        ("2026-01-02T10:20:30Z", "2026-01-02T10:20:30Z"),
        ("2026-01-02T00:20:30+02:00", "2026-01-01T22:20:30Z"),
        ("Fri, 02 Jan 2026 10:20:30 GMT", "2026-01-02T10:20:30Z"),
        ("Fri, 02 Jan 2026 10:20:30 -0500", "2026-01-02T15:20:30Z"),
        ("2 Jan 2026 10:20:30 GMT", "2026-01-02T10:20:30Z"),
    ]
    for stated, iso in cases:
        assert iso_date(stated) == iso


def test_invalid_dates_are_left_out() -> None:
    """A wrong date is worse than none."""
    no_dates = [
        None, "", " ", "yesterday", "3 days ago", "03/04/2026", "2026-13-01", "2026-02-30",
        "Fri, 32 Jan 2026 1:2:3 GMT", "0001-01-01T00:00:00+23:00", "9" * 10_000,
    ]  # fmt: skip

    assert [stated for stated in no_dates if iso_date(stated) is not None] == []


@given(st.text())
def test_any_text_gives_an_iso_date_or_none(stated: str) -> None:
    """No text raises an error, and parsing a result again returns the same."""
    iso = iso_date(stated)

    assert iso is None or iso_date(iso) == iso
