"""Which sentences are quoted: what a question asks for decides between sentences that have its words."""

from pathlib import Path

import pytest

from activities.documents.catalog import DocumentEntry
from activities.models.extractive.cues import cues_of
from activities.models.extractive.terms import are_kin
from activities.models.extractive.wording import read_words, spelled_out, stem
from benchmarks.extractive_desk import Harness as RealDesk
from chargehand.contracts import Source
from tests.activities.extractive.desk import Harness

DOCUMENTS = (
    DocumentEntry(name="travel-policy.md", kind="md", units=60),
    DocumentEntry(name="glossary.txt", kind="txt", units=40),
    DocumentEntry(name="minutes-2023-04.md", kind="md", units=20),
    DocumentEntry(name="minutes-2025-09.md", kind="md", units=20),
    DocumentEntry(name="release.txt", kind="txt", units=20),
)
PASSAGES = (
    Source(
        ref="travel-policy.md#L10-L20",
        title="Travel policy > Nights away",
        quote="Nights away are booked by the office. They cost the member nothing up to 140 euros.\n\n"
        "Whoever stays with friends receives a flat sum. Breakfast is part of it.",
    ),
    Source(
        ref="glossary.txt#L1-L14",
        title="Glossary",
        quote="per diem\n\n   What is paid for meals. It differs by country.\n\nmileage\n\n"
        "   What is paid for the use of one's own car. Bicycles count half.",
    ),
    Source(
        ref="minutes-2023-04.md#L4-L6",
        title="Minutes > Membership fee",
        quote="The yearly membership fee was set at 60 euros for a household.",
    ),
    Source(
        ref="minutes-2025-09.md#L4-L6",
        title="Minutes > Membership fee",
        quote="The yearly membership fee was set at 75 euros for a household.",
    ),
    Source(
        ref="release.txt#L20-L22",
        title="Release",
        quote="The yellow derrick was sold in May. It lifted four tonnes of granite. Nobody asked for the price.",
    ),
    Source(
        ref="release.txt#L1-L6",
        title="Release",
        quote="The kettle descaler is unreliable in hard water. The kettle descaler is to be replaced if chalk shows.",
    ),
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(documents=DOCUMENTS, passages=PASSAGES).open(tmp_path_factory.mktemp("papers"))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How much do nights away cost?", "up to 140 euros"),
        ("What is paid for mileage?", "the use of one's own car"),
        ("When is the kettle descaler replaced?", "if chalk shows"),
    ],
)
async def test_the_kind_of_answer_decides_between_sentences(question: str, words: str, harness: Harness) -> None:
    """An amount, a defined term, an occasion is preferred to a sentence that only has the words."""
    answer = await harness.answer(question)

    assert answer.findings
    assert words in answer.findings[0].quote


async def test_who_owns_is_answered_by_the_field_that_names_the_owner(tmp_path: Path) -> None:
    """The word of the question stands nowhere, the word of the label does, and the search finds it."""
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "travel.md").write_text(
        "# Travel policy\n\nOwner: Marta Ilves\n\nChanged: 3 March 2025\n\n## Nights\n\n"
        "The policy for nights away allows a room of one's own. The office books it, and the member pays for meals.\n"
    )
    (papers / "fees.md").write_text("# Fees\n\nOwner: Jon Sund\n\nThe fees are due in March.\n")
    harness = await RealDesk.open(papers, tmp_path / "state")

    answered = await harness.ask("Who owns the travel policy?")

    assert "Owner: Marta Ilves" in answered.quotations[0]


async def test_a_sentence_that_points_back_brings_the_one_before(harness: Harness) -> None:
    """`It lifted four tonnes` is not quoted without what lifted them."""
    answer = await harness.answer("How many tonnes of granite were lifted?")

    assert "The yellow derrick was sold in May. It lifted four tonnes of granite." in answer.findings[0].quote


async def test_of_two_statements_alike_the_newer_comes_first(harness: Harness) -> None:
    """The date in a document's name decides where all else is equal."""
    answer = await harness.answer("How much is the yearly membership fee for a household?")

    assert answer.findings[0].source_refs == ["minutes-2025-09.md#L4-L6"]


async def test_a_number_is_not_answered_by_a_sentence_without_one(tmp_path: Path) -> None:
    """What was asked for is missing, so half of the words are not enough."""
    quote = "The harbour pilots come aboard by ladder, whatever the weather."
    passages = (Source(ref="pilots.txt#L1", title="Pilots", quote=quote),)
    harness = Harness(documents=(DocumentEntry(name="pilots.txt", kind="txt", units=3),), passages=passages).open(
        tmp_path
    )

    refused = await harness.answer("How many harbour pilots come by helicopter?")
    answered = await harness.answer("How do harbour pilots come aboard?")

    assert (refused.status, answered.status) == ("no_answer", "success")


@pytest.mark.parametrize(
    ("question", "fitting", "unfitting"),
    [
        (
            "How many users does it have?",
            "It has 300 registered users.",
            "Since 2019 those who made it have asked their users.",
        ),
        ("When does support end?", "Support ends in March.", "Support is given for version 5.2 alone."),
        ("Who reports on the test?", "Omar Haddad reports in September.", "The test is reported on."),
        ("What does a licence cost?", "A licence is 40 euros.", "A licence is dear."),
    ],
)
def test_what_kind_of_answer_is_asked_for_is_looked_for(question: str, fitting: str, unfitting: str) -> None:
    """How many asks for a number beside what is counted, when for a time, who for somebody, a cost for an amount."""
    needed = [cue.given for cue in cues_of(question) if cue.is_needed]

    assert needed
    assert all(given.search(fitting) for given in needed)
    assert not all(given.search(unfitting) for given in needed)


async def test_a_thing_that_is_asked_for_by_its_name_is_not_answered_without_it(tmp_path: Path) -> None:
    """What was done may be said in other words, a weight may not."""
    quote = "The yellow derrick of the northern quay was hauled away by a tug from Bergen."
    passages = (Source(ref="derrick.txt#L1", title="Derrick", quote=quote),)
    harness = Harness(documents=(DocumentEntry(name="derrick.txt", kind="txt", units=3),), passages=passages).open(
        tmp_path
    )

    noun = await harness.answer("What was the weight of the yellow derrick?")
    verb = await harness.answer("How was the yellow derrick removed?")

    assert noun.status == "no_answer"
    assert quote in verb.content


def test_words_are_cut_as_the_index_cuts_them() -> None:
    """Letters and digits that are written together are one word, in a column's name they are two."""
    text = "s3transfer, GitHub and unit_price cost 1,200.5 in Q3"

    assert [word.lower for word in read_words(text)] == [
        *("s3transfer", "github", "and", "unit", "price", "cost", "1,200.5", "in", "q3")
    ]
    assert [word.lower for word in read_words(spelled_out("unitPrice2024"))] == ["unit", "price", "2024"]


@pytest.mark.parametrize(
    ("left", "right", "is_kin"),
    [
        ("own", "owner", True),
        ("approve", "approval", True),
        ("manage", "manager", True),
        ("licence", "license", True),
        ("organise", "organization", True),
        ("France", "Francisco", False),
        ("boil", "boilerplate", False),
        ("car", "cargo", False),
        ("pass", "passenger", False),
    ],
)
def test_kindred_words_are_told_from_words_that_begin_alike(left: str, right: str, *, is_kin: bool) -> None:
    """A word of a question stands for words derived from it, and for no others."""
    assert are_kin(stem(left), stem(right)) is is_kin
