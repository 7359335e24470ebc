"""The tool `search`, over whichever engine."""

import pytest
from pydantic import JsonValue

from activities.contracts.tool import OUTPUT_CAP_CHARACTERS, ToolAnswer, ToolContext
from activities.tools.search.protocol import SearchHit, SearchResults
from activities.tools.search.tool import Search
from chargehand.contracts import Source

CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k", documents=("file:/docs",))


class Scripted:
    """An engine whose results are given."""

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


async def test_hits_are_listed_and_their_words_are_sources() -> None:
    """What was found can be cited, and from the web with who found it; a passage of a document has no web address."""
    engine = Scripted(
        SearchHit(title="Tides", snippet="Twice a day.", url="https://a.example/1", published="2026-01-02"),
        SearchHit(title="Log", snippet="High at six.", url="log.md#L3-L4"),
    )

    answer = await Search(engine).use({"query": " tides "}, CONTEXT)

    assert answer == ToolAnswer(
        output={
            "query": "tides",
            "results": [
                {"title": "Tides", "snippet": "Twice a day.", "url": "https://a.example/1"},
                {"title": "Log", "snippet": "High at six.", "url": "log.md#L3-L4"},
            ],
            "confidence": 50,
        },
        sources=(
            Source(
                ref="https://a.example/1",
                title="Tides (found by scripted, dated 2026-01-02 there)",
                url="https://a.example/1",
                quote="Twice a day.",
            ),
            Source(ref="log.md#L3-L4", title="Log", quote="High at six."),
        ),
    )
    assert engine.asked == [("tides", 8, ("file:/docs",))]


async def test_an_agent_knows_what_the_search_lacks() -> None:
    """An agent that found nothing is told what to try, and that not everybody answered."""
    cases: list[tuple[tuple[SearchHit, ...], str, str]] = [
        ((), "", "Nothing was found. Search again with other or fewer words."),
        ((), "One did not answer.", "Nothing was found. Search again with other or fewer words. One did not answer."),
        (
            (SearchHit(title="T", snippet="", url="https://a.example"),),
            "One did not answer.",
            "One did not answer.",
        ),
    ]
    for hits, note, said in cases:
        answer = await Search(Scripted(*hits, note=note)).use({"query": "q"}, CONTEXT)
        assert answer.output["note"] == said


def test_a_hit_keeps_its_host() -> None:
    """Who says it is known by the host, however the address is spelled."""
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


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": "  "}, {"query": 7}, {"query": ["a"]}])
async def test_a_call_without_a_query_is_answered_in_words(arguments: dict[str, JsonValue]) -> None:
    """Nothing is asked without a query."""
    engine = Scripted()

    answer = await Search(engine).use(arguments, CONTEXT)

    assert answer == ToolAnswer(ok=False, output={"error": "`query` must be what to look for, in a few words."})
    assert engine.asked == []


async def test_an_answer_stays_under_the_cap() -> None:
    """However much an engine finds, a model is handed no more than the cap of a tool call."""
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


async def test_a_place_that_was_found_twice_is_given_once() -> None:
    """Sources are told apart by their names; the better hit comes first and stays."""
    engine = Scripted(
        SearchHit(title="A", snippet="one", url="https://a.example/"),
        SearchHit(title="A", snippet="two", url="https://a.example/"),
    )

    answer = await Search(engine).use({"query": "q"}, CONTEXT)

    assert [source.quote for source in answer.sources] == ["one"]
