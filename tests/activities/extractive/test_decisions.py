"""Decisions without a language model: nothing is made up, and what was not done is said."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.contracts import InputOutcome
from activities.turn_kinds.compress import CompressAnswer, CompressTask
from activities.turn_kinds.critique import CritiqueAnswer, CritiqueTask
from activities.turn_kinds.judge import JudgeAnswer, JudgeTask
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.refine import RefineAnswer, RefineTask
from activities.turn_kinds.registry import Task
from activities.turn_kinds.review import ReviewAnswer, ReviewTask
from activities.turn_kinds.synthesis import SynthesisAnswer
from chargehand.contracts import Escalation, Failure, Finding, Outcome, Partial, Success
from tests.activities.extractive.desk import Harness

LOST = Failure(reason="no_answer", message="No passage fits.", confidence=99)
REPORT = SynthesisAnswer(answer="Three months [S1].", gaps=[], contradictions=[], confidence=80)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness().open(tmp_path_factory.mktemp("papers"))


def candidate(name: str, outcome: Outcome) -> InputOutcome:
    return InputOutcome(id=name, agent="reader", instruction="How long is the notice?", outcome=outcome)


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        (
            RefineTask(goal="g", agent="reader", instruction="i", problem="p", outcome=LOST, attempts=1),
            RefineAnswer(
                worthwhile=False,
                instruction="",
                reason="No language model was used; rules do not rewrite instructions.",
            ),
        ),
        (
            ReviewTask(goal="g", outcomes=(candidate("T1", LOST),), max_subtasks=3, may_nest=True),
            ReviewAnswer(enough=True, missing=[], contradictions=[], subtasks=[]),
        ),
        (CritiqueTask(goal="g", draft=REPORT, outcomes=()), CritiqueAnswer(acceptable=True, problems=[])),
    ],
    ids=["refine", "review", "critique"],
)
async def test_what_takes_a_mind_is_left_as_it_is(harness: Harness, task: Task, answer: TurnAnswer) -> None:
    """No instruction is rewritten, no work added, no fault found."""
    reply = await harness.complete(task, type(answer))

    assert type(answer).model_validate_json(reply.text) == answer


async def judged(harness: Harness, *candidates: InputOutcome) -> JudgeAnswer:
    reply = await harness.complete(JudgeTask(question="How long?", candidates=candidates), JudgeAnswer)
    return JudgeAnswer.model_validate_json(reply.text)


async def test_the_surer_answer_is_chosen(harness: Harness) -> None:
    """The answer whose agent is surest is chosen, and the reason owns up to how."""
    decision = await judged(
        harness,
        candidate("T1", Partial(content="Two months.", confidence=40)),
        candidate("T2", Escalation(reason="confidence_too_low", content="Three months.", confidence=60)),
        candidate("T3", Success(content="Four months.", confidence=50)),
    )

    assert decision == JudgeAnswer(
        chosen="T2",
        reason="T2 was chosen because its agent is surer of it (60 of 100) than any other of its own (50 at most). "
        "No language model was used: what the answers say was not compared.",
        confidence=60,
    )


async def test_of_equally_sure_answers_the_first_is_chosen(harness: Harness) -> None:
    """A tie is no reason to go by anything but the order, and is told."""
    decision = await judged(
        harness,
        candidate("T1", Partial(content="Two months.", confidence=20)),
        candidate("T2", Success(content="Three months.", confidence=60)),
        candidate("T3", Success(content="Four months.", confidence=60)),
    )

    assert decision.chosen == "T2"
    assert "it is the first of those whose agents are surest (60 of 100)" in decision.reason


async def test_only_answers_are_chosen(harness: Harness) -> None:
    """What came to nothing is no candidate, however sure it is; findings without prose are one."""
    finding = Finding(claim="Notice is 3 months.", confidence=10)
    decision = await judged(
        harness,
        candidate("T1", LOST.model_copy(update={"content": "Nothing was found."})),
        candidate("T2", Success(findings=(finding,), confidence=10)),
        candidate("T3", Success(confidence=90)),
    )

    assert decision.chosen == "T2"
    assert "it is the only one with an answer" in decision.reason


async def test_nothing_is_chosen_from_nothing(harness: Harness) -> None:
    """Without an answer among the candidates there is no decision."""
    decision = await judged(harness, candidate("T1", LOST))

    assert decision == JudgeAnswer(chosen="", reason="None of the candidates has an answer.", confidence=0)


async def shortened(harness: Harness, content: str, most_words: int) -> str:
    task = CompressTask(instruction="How long is the notice?", content=content, most_words=most_words)
    return CompressAnswer.model_validate_json((await harness.complete(task, CompressAnswer)).text).content


PAPER = """# Notice

Notice is three months, e.g. from 13. Oktober on. Dr. Smith wants it in
writing. [lease.pdf#page=2] The landlord may waive it (see p. 4). Exceptions:

- A flood. The house must be closed.
- A fire,
  whoever is to blame.

| month | rent |
|---|---|
| May | 900 |

```sql
SELECT 1;

SELECT 2;
```

All else is in “Annex A.” Nothing more.
"""
NOTE = "\n\n*(Shortened to its first sentences.)*"


@pytest.mark.parametrize(
    ("most_words", "end"),
    [
        (16, "Oktober on."),  # 2 of the heading, 9, and 5 of the note
        (22, "Oktober on."),
        (23, "[lease.pdf#page=2]"),  # 7 more with the citation
        (31, "p. 4)."),  # 8 more
        (39, "p. 4)."),  # a colon leads on to what no longer fits
        (40, "must be closed."),  # 1 before the colon, and 8
        (47, "is to blame."),  # 7 more
        (53, "is to blame."),  # 6 of the table's head, without a row of it
        (58, "| May | 900 |"),
        (63, "| May | 900 |"),  # no part of a block of code
        (64, "SELECT 2;\n```"),
    ],
)
async def test_a_text_ends_where_a_sentence_ends(harness: Harness, most_words: int, end: str) -> None:
    """Whole sentences, list items and table rows are kept from the start, as many as fit, and it is said."""
    text = await shortened(harness, PAPER, most_words)

    assert text == PAPER[: PAPER.index(end) + len(end)] + NOTE


async def test_what_fits_is_left_alone(harness: Harness) -> None:
    """A text within the limit comes back as it was."""
    assert await shortened(harness, PAPER, len(PAPER.split())) == PAPER.strip()


async def test_a_sentence_that_is_too_long_is_not_cut(harness: Harness) -> None:
    """When not even the first sentence fits, nothing of it is said."""
    assert await shortened(harness, "One sentence of quite a few words. Another.", 7) == ""
    assert await shortened(harness, PAPER, 15) == ""


PROSE = st.sampled_from(["So it is. ", "It is so! [a.md#L1] ", "夏です。", "e.g. this: ", ".", "“A.” ", " ", "\n\n"])
MARKS = st.sampled_from(["# Head\n", "- item. Two.\n", "> quoted\n", "| a | b |\n|---|---|\n", "| 1 | 2 |\n", "```\n"])


@given(content=st.lists(PROSE | MARKS, max_size=30).map("".join), most_words=st.integers(0, 60))
async def test_shortening_keeps_the_beginning_within_the_limit(harness: Harness, content: str, most_words: int) -> None:
    """Whatever the text, what is kept is how it begins, word for word, and never longer than asked."""
    text = await shortened(harness, content, most_words)

    assert len(text.split()) <= most_words
    assert content.strip().startswith(text.removesuffix(NOTE))


async def test_no_text_takes_long(harness: Harness) -> None:
    """Texts made to be awkward are cut in seconds."""
    awkward = [part * 40_000 for part in ("a. ", "[x ", "A. [", "| ", ": ", ".\n", "-\n", "x \t", "``` ", "#\n")]
    awkward.append(f"{'x ' * 30}\n{' ' * 50_000}x")

    began = time.monotonic()
    for text in awkward:
        await shortened(harness, text, 20)

    assert time.monotonic() - began < 20
