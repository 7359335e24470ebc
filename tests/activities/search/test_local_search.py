"""The search engine that stands in where there is none."""

from pathlib import Path

from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.search.local import LocalSearch
from activities.tools.search.protocol import SearchHit, SearchResults


def _search(tmp_path: Path) -> LocalSearch:
    return LocalSearch(DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "index", (tmp_path,)))


async def test_hits_name_the_place_in_the_document(tmp_path: Path) -> None:
    """Like a hit on the web, with a reference for an address; all words found is full confidence."""
    note = tmp_path / "note.md"
    note.write_text("# Launch\n\nThe launch moves to September because a part is late.\n")

    results = await _search(tmp_path).search("launch in September", 5, (f"file:{note}",))

    assert results == SearchResults(
        query="launch in September",
        results=(
            SearchHit(
                title="note.md: Launch",
                snippet="The launch moves to September because a part is late.",
                url="note.md#L3",
            ),
        ),
        confidence=100,
    )
