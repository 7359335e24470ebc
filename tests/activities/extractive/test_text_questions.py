"""Questions over texts: each is answered by words copied from the passage that a person would point to."""

from pathlib import Path

import pytest

from activities.contracts import SubtaskDraft
from activities.documents.catalog import DocumentEntry
from activities.turn_kinds.plan import RejectedPlan
from chargehand.contracts import Source
from tests.activities.extractive.bakery import TABLES
from tests.activities.extractive.desk import Harness

DOCUMENTS = (
    DocumentEntry(
        name="staff-handbook.md",
        kind="md",
        units=200,
        headings=("Staff handbook", "Working hours", "Holidays", "Hygiene", "Ovens", "Complaints"),
        opening="Staff handbook of the bakery.",
    ),
    DocumentEntry(name="lease-station.pdf", kind="pdf", units=4, headings=("Lease", "Rent", "Notice")),
    DocumentEntry(name="minutes-2025-06.md", kind="md", units=40, headings=("Minutes", "Flour", "New oven")),
)


def passage(ref: str, title: str, quote: str) -> Source:
    return Source(ref=ref, title=title, quote=quote)


PASSAGES = (
    passage(
        "staff-handbook.md#L10-L14",
        "Staff handbook > Working hours",
        "The early shift begins at 3:30 and ends at 11:30. Nobody works more than five early shifts in a row. A "
        "shift may be swapped with a colleague if the shop manager is told by noon of the day before.",
    ),
    passage(
        "staff-handbook.md#L20-L23",
        "Staff handbook > Holidays",
        "Everybody has 28 days of paid holiday a year. Ask for them in writing, at least six weeks ahead. In "
        "December no holiday is granted, since it is the busiest month.",
    ),
    passage(
        "staff-handbook.md#L31-L37",
        "Staff handbook > Hygiene",
        "Wash your hands for at least 30 seconds:\n\n- before you touch dough,\n- after you have handled eggs,\n- "
        "after every break.\n\nRings and watches stay in the locker. Anyone with a fever goes home at once and tells "
        "the manager.",
    ),
    passage(
        "staff-handbook.md#L44-L48",
        "Staff handbook > Ovens",
        "The deck oven is descaled on the first Monday of each month. Let it cool below 60 degrees before the door "
        "is taken off. Only people who have had the burner training may light it by hand.",
    ),
    passage(
        "staff-handbook.md#L60-L63",
        "Staff handbook > Complaints",
        "A customer who is unhappy with a cake gets the price back, without discussion, within 14 days. Write every "
        "complaint into the red book, with date, product and what was given back.",
    ),
    passage(
        "lease-station.pdf#page=1",
        "Lease > Rent",
        "The monthly rent for the shop at the station is 2,450 euros, payable on the third working day. It rises by "
        "two per cent every January. The tenant pays for water and electricity.",
    ),
    passage(
        "lease-station.pdf#page=3",
        "Lease > Notice",
        "Either side may end this lease by giving nine months' notice in writing to the end of a quarter. The "
        "landlord is Brunner Estates Ltd, represented by Ms Clara Brunner.",
    ),
    passage(
        "minutes-2025-06.md#L8-L12",
        "Minutes > Flour",
        "Petra Lund proposed to buy flour from a second mill because Hofer was late in April. It was agreed to test "
        "Talmühle for three months. Omar Haddad reports in September.",
    ),
    passage(
        "minutes-2025-06.md#L15-L19",
        "Minutes > New oven",
        "A second deck oven for Old Mill was turned down: the electrical supply of the building is too weak, and a "
        "new line would cost 38,000 euros. The matter is taken up again in 2026.",
    ),
)

QUESTIONS = [
    ("When does the early shift begin?", "staff-handbook.md#L10-L14", "The early shift begins at 3:30"),
    ("How many early shifts in a row may somebody work?", "staff-handbook.md#L10-L14",
     "more than five early shifts in a row"),
    ("How can I swap a shift with a colleague?", "staff-handbook.md#L10-L14", "if the shop manager is told by noon"),
    ("How many days of paid holiday do we get?", "staff-handbook.md#L20-L23", "28 days of paid holiday"),
    ("Why is no holiday granted in December?", "staff-handbook.md#L20-L23", "since it is the busiest month"),
    ("When must I wash my hands?", "staff-handbook.md#L31-L37", "- after you have handled eggs,"),
    ("Where do rings and watches stay?", "staff-handbook.md#L31-L37", "Rings and watches stay in the locker."),
    ("How often is the deck oven descaled?", "staff-handbook.md#L44-L48", "on the first Monday of each month"),
    ("Who may light the oven by hand?", "staff-handbook.md#L44-L48", "Only people who have had the burner training"),
    ("What does an unhappy customer get back?", "staff-handbook.md#L60-L63", "gets the price back"),
    ("What does the lease say about rent?", "lease-station.pdf#page=1", "2,450 euros"),
    ("How much notice is needed to end the lease?", "lease-station.pdf#page=3", "nine months' notice"),
    ("Who is the landlord?", "lease-station.pdf#page=3", "Brunner Estates Ltd"),
    ("Why did Petra Lund propose a second mill?", "minutes-2025-06.md#L8-L12", "because Hofer was late in April"),
    ("Who reports in September on the test of Talmühle?", "minutes-2025-06.md#L8-L12",
     "Omar Haddad reports in September"),
    ("Why was the second deck oven turned down?", "minutes-2025-06.md#L15-L19",
     "the electrical supply of the building is too weak"),
]  # fmt: skip


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(TABLES, documents=DOCUMENTS, passages=PASSAGES).open(tmp_path_factory.mktemp("papers"))


async def test_what_is_asked_along_and_not_answered_is_named(harness: Harness) -> None:
    """Questions that share one subtask, for want of turns, are each answered or named as a gap."""
    questions = {"When does the early shift begin?": "3:30", "Who is the landlord?": "Brunner Estates"}
    [planned] = (await harness.plan(" ".join(questions), most=1)).subtasks

    answer = await harness.carry_out(planned)

    quoted = " ".join(finding.quote for finding in answer.findings)
    told = " ".join(answer.gaps)
    assert [question in told for question in questions] == [words not in quoted for words in questions.values()]
    assert answer.status == ("partial" if told else "success")
    assert told


@pytest.mark.parametrize(("question", "ref", "words"), QUESTIONS, ids=[question for question, _, _ in QUESTIONS])
async def test_a_question_about_a_text_is_answered_with_its_words(
    question: str, ref: str, words: str, harness: Harness
) -> None:
    """The first quotation is from the right place and holds the words that answer, though tables are at hand too."""
    answer = await harness.answer(question)

    assert answer.status == "success", answer
    assert answer.findings[0].source_refs == [ref]
    assert words in answer.findings[0].quote


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of France?",
        "Who won the football world cup in 2022?",
        "What is the parking policy for visitors?",
        "What are the opening hours of the museum?",
        "How do I reset my password?",
        "Which landlord descales the fever of a colleague, the flour of December and the watches of the quarter?",
    ],
)
async def test_what_no_document_says_is_said_to_be_in_none(question: str, harness: Harness) -> None:
    """A question that the documents do not answer ends in no_answer, with the question named and nothing quoted."""
    answer = await harness.answer(question)

    assert answer.status == "no_answer"
    assert answer.findings == []
    assert answer.message.startswith("No document here answers this: “")
    assert question in answer.message


async def test_little_coverage_leads_to_a_second_search_with_the_words_that_do_exist(harness: Harness) -> None:
    """Words that stand nowhere are left out of the second search, and there is no third."""
    harness.calls.clear()
    question = "What is the exact procedure for descaling the flux capacitor?"

    await harness.answer(question)

    assert [call.arguments["query"] for call in harness.calls] == [question, "descaling"]


async def test_the_document_that_is_named_is_searched_first(harness: Harness) -> None:
    """`the lease` is looked for in the lease, and its name is not one of the words looked for."""
    harness.calls.clear()

    await harness.answer("What does the lease say about rent?")

    assert [call.arguments for call in harness.calls] == [{"query": "rent", "document": "lease-station.pdf"}]


async def test_a_question_without_documents_is_searched_for_outside(tmp_path: Path) -> None:
    """Without documents the researcher looks, and says so when nothing is found."""
    harness = Harness().open(tmp_path)

    plan = await harness.plan("Who invented the croissant?")
    answer = await harness.carry_out(plan.subtasks[0])

    assert [subtask.agent for subtask in plan.subtasks] == ["researcher"]
    assert answer.status == "no_answer"
    assert answer.message == (
        "Nothing was found, and no documents were given: “Who invented the croissant?”; “invented” and “croissant” "
        "stand in none."
    )


async def test_an_unreadable_document_is_named_when_nothing_was_found(tmp_path: Path) -> None:
    """The user learns which file could not be looked into."""
    broken = DocumentEntry(name="scan.pdf", kind="pdf", problem="it holds pictures only")
    harness = Harness(documents=(*DOCUMENTS, broken), passages=PASSAGES).open(tmp_path)

    answer = await harness.answer("What is the parking policy for visitors?")

    assert answer.gaps == ["scan.pdf could not be read: it holds pictures only"]


async def test_every_answer_says_that_no_language_model_was_used(harness: Harness) -> None:
    """Quotations, figures and refusals alike end in the plain statement."""
    answers = [
        await harness.answer(question)
        for question in ("Who is the landlord?", "Total revenue by city", "What is the capital of France?")
    ]

    assert [
        answer.content.endswith(
            "*No language model was used: this is an evidence sheet of quoted passages and computed figures.*"
        )
        for answer in answers
    ] == [True, True, True]


async def test_an_instruction_by_somebody_else_is_carried_out_as_well(harness: Harness) -> None:
    """A reader that is told in free words what to find searches for those words."""
    instruction = "Find out who the landlord is.\n\nAn earlier attempt failed."
    subtask = SubtaskDraft(id="T1", agent="reader", instruction=instruction, depends_on=[], required=[])

    answer = await harness.carry_out(subtask)

    assert "Brunner Estates Ltd" in answer.content


async def test_a_rejected_plan_is_followed_by_the_simplest_one(harness: Harness) -> None:
    """After a rejection there is one subtask, the same every time."""
    goal = "Who is the landlord, and how many deliveries were damaged?"
    rejected = RejectedPlan(plan="{}", errors=("subtasks: too many",))

    first = await harness.plan(goal, rejected=[rejected])
    second = await harness.plan(goal, rejected=[rejected])

    assert [subtask.agent for subtask in first.subtasks] == ["reader"]
    assert first == second
