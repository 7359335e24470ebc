"""Words that stand for a word of a question when documents are searched."""

from pathlib import Path

import pytest

from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.words import variants


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("licence", "license"),
        ("organized", "organised"),
        ("colours", "colors"),
        ("behavior", "behaviour"),
        ("centre", "center"),
        ("catalogue", "catalog"),
    ],
)
def test_a_word_is_spelled_in_all_its_ways(word: str, other: str) -> None:
    """British and American spellings stand for each other."""
    assert other in variants(word)
    assert word in variants(other)


async def test_the_other_spelling_is_found_and_covers_the_question(tmp_path: Path) -> None:
    """A question in one spelling finds a text in the other as if it were its own."""
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "terms.txt").write_text("The license fee is due when the boats are launched.\n")
    (papers / "other.txt").write_text("The harbour master keeps a list of all boats that are launched.\n")
    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "indexes", (papers,))

    found = await (await library.open((papers.as_uri(),))).find("licence fee")

    assert [(passage.document, passage.coverage) for passage in found.passages] == [("terms.txt", 1.0)]
    assert found.missing == ()
