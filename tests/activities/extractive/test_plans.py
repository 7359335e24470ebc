"""How a request becomes a plan: which questions it has, who answers them, and what waits for what."""

from pathlib import Path

import pytest

from activities.contracts import AgentCard, CrewCard, SubtaskDraft
from activities.models.extractive.questions import split_questions
from chargehand.contracts import Tier
from tests.activities.extractive.bakery import TABLES
from tests.activities.extractive.desk import CREW, Harness
from tests.activities.extractive.test_text_questions import DOCUMENTS, PASSAGES
from workflows.rules.plan_validation import check_plan

CARD = CrewCard(
    name="research",
    tier=Tier.SMALL,
    prompt_bytes=1,
    agents=tuple(
        AgentCard(name=name, description=does, tools=tools, tier=Tier.SMALL, prompt_bytes=1)
        for name, does, tools in CREW
    ),
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(TABLES, documents=DOCUMENTS, passages=PASSAGES).open(tmp_path_factory.mktemp("papers"))


@pytest.mark.parametrize(
    ("goal", "questions"),
    [
        ("Who is the landlord?", ["Who is the landlord?"]),
        ("total revenue by shop", ["total revenue by shop"]),
        ("Who is the landlord, and how high is the rent?", ["Who is the landlord", "how high is the rent?"]),
        (
            "Which shop sold most, what did it cost, and what does the lease say about rent?",
            ["Which shop sold most", "what did it cost", "what does the lease say about rent?"],
        ),
        ("1. Who is the landlord?\n2. How high is the rent?", ["Who is the landlord?", "How high is the rent?"]),
        (
            "Please answer:\n- total revenue by shop\n- damaged deliveries per supplier",
            ["total revenue by shop", "damaged deliveries per supplier"],
        ),
        ("Total revenue; number of deliveries", ["Total revenue", "number of deliveries"]),
        (
            "We run a bakery with four shops. Which one earns least? Also, who manages it?",
            ["Which one earns least?", "who manages it?"],
        ),
        ("Is there rye bread and wheat bread?", ["Is there rye bread and wheat bread?"]),
        ("Do you know how and why the pumps fail?", ["Do you know how and why the pumps fail?"]),
        ("What did Mr. Lund say about No. 5 in the minutes?", ["What did Mr. Lund say about No. 5 in the minutes?"]),
    ],
)
def test_a_request_is_cut_where_a_new_question_begins(goal: str, questions: list[str]) -> None:
    """Each question is one piece in the user's words; what asks for nothing is left aside."""
    assert list(split_questions(goal)) == questions


@pytest.mark.parametrize(
    ("question", "agent"),
    [
        ("How many deliveries were damaged?", "analyst"),
        ("How many deliveries can be damaged before a supplier is dropped?", "reader"),
        ("How often are deliveries damaged?", "reader"),
        ("How often were deliveries damaged in all?", "analyst"),
    ],
)
async def test_how_things_are_meant_to_be_is_not_counted(question: str, agent: str, harness: Harness) -> None:
    """Tables record what was; what can, may or does happen as a rule stands in a text."""
    planned = await harness.plan(question)

    assert [subtask.agent for subtask in planned.subtasks] == [agent]


async def test_independent_questions_become_subtasks_that_run_side_by_side(harness: Harness) -> None:
    """Figures go to the analyst and texts to the reader, and nothing waits."""
    plan = await harness.plan("Which shop had the highest revenue, and how much notice is needed to end the lease?")

    assert [(subtask.id, subtask.agent, subtask.depends_on) for subtask in plan.subtasks] == [
        ("T1", "analyst", []),
        ("T2", "reader", []),
    ]
    assert plan.strategy == "merge"


async def test_a_question_that_points_back_waits_for_the_name_it_points_to(harness: Harness) -> None:
    """`its` makes a subtask depend on the one that finds the name, and its figure is about that name."""
    plan, report, _ = await harness.report("Which shop had the highest revenue, and how many seats does it have?")

    assert [subtask.depends_on for subtask in plan.subtasks] == [[], ["T1"]]
    assert "**Harbour Street** has the highest total revenue" in report.answer
    assert "**Total seats: 22** (shop is Harbour Street; 1 row of shops.csv)" in report.answer


async def test_a_question_that_points_back_to_nothing_is_not_answered_for_everything(harness: Harness) -> None:
    """A figure over all rows is never passed off as one about `its`."""
    answer = await harness.answer("What was its total revenue?")

    assert answer.status == "partial"
    assert answer.gaps[0].endswith(
        "What the question points back to is not known here, so the figure is not narrowed down to it."
    )


async def test_a_request_for_a_summary_asks_for_each_document(harness: Harness) -> None:
    """Texts are quoted by the reader and tables measured by the analyst, one subtask each."""
    plan = await harness.plan("Please summarise these documents")

    assert [(subtask.agent, subtask.instruction) for subtask in plan.subtasks] == [
        ("reader", "Quote the key sentences of (staff-handbook.md): what it is about"),
        ("reader", "Quote the key sentences of (lease-station.pdf): what it is about"),
        ("reader", "Quote the key sentences of (minutes-2025-06.md): what it is about"),
        ("analyst", "Give the size, period and totals of the table (sales.csv): sales"),
        ("analyst", "Give the size, period and totals of the table (shops.csv): shops"),
        ("analyst", "Give the size, period and totals of the table (deliveries.csv): deliveries"),
    ]


async def test_a_named_document_alone_is_summarised(harness: Harness) -> None:
    """A summary of the handbook quotes the handbook only."""
    answer = await harness.answer("What is the staff handbook about?")

    assert {finding.source_refs[0].split("#")[0] for finding in answer.findings} == {"staff-handbook.md"}
    assert "Working hours · Holidays · Hygiene" in answer.content


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_a_plan_keeps_to_the_limit_and_drops_no_question(most: int, harness: Harness) -> None:
    """However few subtasks are allowed, each question stands in one of them."""
    goal = (
        "Who is the landlord? How high is the rent? How often is the oven descaled? How many deliveries were damaged?"
    )

    plan = await harness.plan(goal, most)

    instructions = " ".join(subtask.instruction for subtask in plan.subtasks)
    assert len(plan.subtasks) == most
    assert [question for question in split_questions(goal) if question not in instructions] == []


@pytest.mark.parametrize(
    "goal",
    [
        "?",
        "rent",
        "a",
        "Total revenue; TOTAL revenue!",
        "日本語の質問",
        "x" * 5_000,
        "1. \n2. \n3. ",
        "and and and",
    ],
)
async def test_any_request_gets_a_plan_that_passes_the_check(goal: str, harness: Harness) -> None:
    """Whatever is typed, the plan can be carried out."""
    draft = await harness.plan(goal)

    checked = check_plan(draft, CARD, max_subtasks=8, may_nest=False, ancestors=())

    assert len(checked.subtasks) >= 1


async def test_documents_without_a_reader_go_to_whoever_can_search(tmp_path: Path) -> None:
    """An agent that is missing from the crew is replaced by one with a like tool."""
    harness = Harness(documents=DOCUMENTS, passages=PASSAGES).open(tmp_path)
    subtask = (await harness.plan("Who is the landlord?")).subtasks[0]

    answer = await harness.carry_out(subtask.model_copy(update={"agent": "researcher"}))

    assert "Brunner Estates Ltd" in answer.content


async def test_an_agent_without_tools_sets_out_what_it_was_given(harness: Harness) -> None:
    """A writer's text holds the findings of its inputs, with their sources, and says that nothing was written anew."""
    _, inputs = await harness.outcomes("How high is the rent for the station?")
    subtask = SubtaskDraft(
        id="T2", agent="writer", instruction="Write a letter about the rent.", depends_on=["T1"], required=["T1"]
    )

    answer = await harness.carry_out(subtask, inputs)

    assert "2,450 euros" in answer.content
    assert answer.findings[0].source_refs == ["lease-station.pdf#page=1"]
    assert answer.content.startswith("Without a language model no new text is written or judged")


async def test_a_text_to_be_written_ends_in_the_passages_it_would_rest_on(harness: Harness) -> None:
    """No letter is made up: what is asked to be written about is quoted, and the gap is named."""
    answer = await harness.answer("Please draft a short email to the shops about rings and watches")

    assert answer.status == "partial"
    assert answer.gaps == [
        "No text was written: that takes a language model. These passages are what it would rest on."
    ]
    assert "Rings and watches stay in the locker." in answer.content


async def test_a_question_without_words_of_its_own_is_asked_with_what_stands_before_it(harness: Harness) -> None:
    """`and what happened then?` is looked for together with the question that it follows."""
    plan = await harness.plan("How many deliveries were damaged, and what happened then?")

    assert [subtask.instruction.partition(": ")[2] for subtask in plan.subtasks] == [
        "How many deliveries were damaged",
        "How many deliveries were damaged, and what happened then?",
    ]
