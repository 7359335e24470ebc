"""Answers as a session gets them: one agent where one can answer, figures in bold, passages, and nothing else."""

from pathlib import Path

import pytest

from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.judgements import CritiqueAnswer, CritiqueTask, JudgeAnswer, JudgeTask
from activities.turn_kinds.plan import PlanTask, RefineAnswer, RefineTask, ReviewAnswer, ReviewTask
from activities.turn_kinds.synthesis import CompressAnswer, CompressTask, SynthesisAnswer
from benchmarks.evaluation.dataset import read_datasets
from benchmarks.extractive import ask_all, is_right, is_wrong
from benchmarks.extractive_harness import Harness
from benchmarks.extractive_questions import read_questions
from chargehand.contracts import Failure, Success
from chargehand_plugins.extractive.decisions import decide
from chargehand_plugins.extractive.planner import plan
from chargehand_plugins.extractive.tests.conftest import HarnessOf
from tests.parameters import first_fast
from tests.scripted_model import ALLOWANCE

EXAMPLE = Path("examples/question.txt").read_text(encoding="utf-8")


async def test_the_example_question_is_answered(ferries: Harness) -> None:
    """It takes three subtasks, the second of which needs a name found by the first, and is repeatable."""
    answered, again = [await ferries.ask(EXAMPLE) for _ in range(2)]

    assert answered == again
    assert [(subtask.agent, subtask.depends_on) for subtask in answered.plan.subtasks] == [
        ("analyst", []),
        ("analyst", ["T1"]),
        ("reader", []),
    ]
    assert answered.bold == ("Turnstone", "1,995", "103,295 EUR")
    assert any("renew the raw-water impeller every 500" in " ".join(quote.split()) for quote in answered.passages)


@pytest.mark.nightly
@pytest.mark.timeout(400)
async def test_labelled_questions_are_never_answered_wrong() -> None:
    """There is no wrong figure or bold text; for 9 in 10 the right passage is among the first three."""
    given = await ask_all(read_questions())

    assert [question.text for question, answered, _ in given if is_wrong(question, answered)] == []
    passages = [is_right(question, answered) for question, answered, _ in given if question.kind == "passage"]
    assert sum(passages) >= 0.9 * len(passages)


async def test_reasons_and_summaries_need_a_model(ferries: Harness) -> None:
    """Without one, passages are quoted in the user's language, with low confidence and status `partial`."""
    cases = [
        ("Why do sailings stop on the Island route?", "needs a language model"),
        ("Summarise the operations handbook", "needs a language model"),
        ("Warum gilt auf der Route Island ein Grenzwert für den Wind?", "brauchen ein Sprachmodell"),
    ]
    for question, said in cases:
        answered = await ferries.ask(question)
        assert [(answer.status, answer.confidence) for answer in answered.answers] == [("partial", 30)]
        assert said in answered.report.answer
        assert answered.bold == ()


async def test_a_question_about_a_text_is_answered_by_quoting_it(ferries: Harness) -> None:
    """A passage with every word asked about is the answer; with fewer, or for a wider question, evidence."""
    cases = [
        ("What does the maintenance manual say about preventing engine faults?", "success"),
        ("What does the manual say about preventing mutiny?", "partial"),
        ("What does the manual say about engine faults and what should we do?", "partial"),
        ("Explain what the manual says about preventing engine faults", "partial"),
    ]
    for question, status in cases:
        [answer] = (await ferries.ask(question)).answers
        assert answer.status == status
        assert (answer.content.startswith("> "), bool(answer.gaps)) == (status == "success", status == "partial")


async def test_a_sentence_that_limits_a_question_suppresses_the_figure(ferries: Harness) -> None:
    """A request is split only into questions; any other sentence may be a condition."""
    whole = await ferries.ask("How many minutes were lost in March 2025?")
    limited = await ferries.ask("How many minutes were lost in March 2025? Leave out the weather.")

    assert (len(whole.figures), len(limited.figures)) == (1, 0)


async def test_a_later_question_keeps_the_conditions_of_earlier_ones(ferries: Harness, harness_of: HarnessOf) -> None:
    """It keeps an earlier period, and gets no figure if that would drop another condition."""
    unread = await (await harness_of("waschsalon")).ask(
        "Wie sauber sind die Trockner, und wie hoch ist der durchschnittliche Preis pro Wäsche?"
    )
    kept = await ferries.ask("How many minutes were lost in March 2025, and how many sailings were cancelled by route?")
    dropped = await ferries.ask("How many minutes did fog have lost in 2025, and how many sailings were cancelled?")

    assert ["date 2025-03" in figure or "month 2025-03" in figure for figure in kept.figures] == [True, True]
    assert (len(dropped.figures), len(unread.figures)) == (1, 0)


def test_a_request_is_split_between_its_questions(ferries: Harness) -> None:
    """It splits at commas and `and` before question words, and not before relative clauses."""
    goal = "How many minutes were lost in March 2025, when does a crew change, and may I bring a dog, which is small?"
    task = PlanTask(goal=goal, max_subtasks=9, allowance=ALLOWANCE, may_nest=False)

    made = plan(task, ferries.catalog, ferries.agents)

    assert [each.instruction for each in made.subtasks] == [
        "Compute: How many minutes were lost in March 2025",
        "Quote: when does a crew change",
        "Quote: may I bring a dog, which is small?",
    ]


def outcome(name: str, confidence: int) -> InputOutcome:
    """Build an outcome with this confidence."""
    return InputOutcome(
        id=name, agent="reader", instruction="Quote: x", outcome=Success(content="Yes. It is.", confidence=confidence)
    )


def test_the_offline_model_makes_no_judgements() -> None:
    """It never rewrites, reviews or criticises; of answers it takes the surest and says so."""
    lost = Failure(reason="no_answer", message="nothing")
    refined = decide(
        RefineTask(goal="", agent="reader", instruction="x", problem="y", outcome=lost, attempts=1), RefineAnswer
    )
    judged = decide(JudgeTask(question="x", candidates=(outcome("a", 20), outcome("b", 90))), JudgeAnswer)

    assert isinstance(refined, RefineAnswer)
    assert not refined.worthwhile
    assert decide(ReviewTask(goal="", outcomes=(), max_subtasks=1, may_nest=False), ReviewAnswer) == ReviewAnswer(
        enough=True, missing=[], contradictions=[], subtasks=[]
    )
    draft = SynthesisAnswer(answer="", gaps=[], contradictions=[], confidence=0)
    assert decide(CritiqueTask(goal="", draft=draft, outcomes=()), CritiqueAnswer) == CritiqueAnswer(
        acceptable=True, problems=[]
    )
    assert isinstance(judged, JudgeAnswer)
    assert (judged.chosen, judged.confidence, "language model" in judged.reason) == ("b", 30, True)


def test_a_text_is_shortened_to_whole_sentences() -> None:
    """Sentences are dropped from the end, and the cut is marked."""
    task = CompressTask(instruction="", content="One is here. Two is there. Three is gone.", most_words=7)

    assert decide(task, CompressAnswer) == CompressAnswer(content="One is here. Two is there. […]")


async def test_simple_requests_get_one_agent(harness_of: HarnessOf, ferries: Harness) -> None:
    """At least 95 of 100 in the routing set do; a question without a certain figure goes to the reader."""
    cases = read_datasets(["routing"])["routing"].cases
    folders = {Path(case.documents).name for case in cases if case.documents}
    catalogs = {name: (await harness_of(name)).catalog for name in folders}
    chosen: list[tuple[str, ...]] = []
    for case in cases:
        task = PlanTask(goal=case.goal, max_subtasks=8, allowance=ALLOWANCE, may_nest=False)
        made = plan(task, catalogs.get(Path(case.documents or "").name, Catalog()), ferries.agents)
        chosen.append(tuple(subtask.agent for subtask in made.subtasks))

    routed = [agents == case.agents for agents, case in zip(chosen, cases, strict=True)]
    assert len(cases) > 100
    assert sum(len(agents) == 1 for agents in chosen) >= 0.95 * len(cases)
    assert sum(routed) >= 0.8 * len(cases)


TABLES = (
    "accounts",
    "verleih",
    "clinique",
    "bodega",
    "clinic",
    "librairie",
    "verein",
    "nursery",
    "cafe",
    "kletterhalle",
)


@pytest.mark.parametrize("number", first_fast(range(3)))
async def test_questions_about_tables_are_computed(harness_of: HarnessOf, number: int) -> None:
    """Four languages, totals rows, several currencies, decimal commas, text dates and yes/no are covered."""
    for table in TABLES:
        question = [each for each in read_questions() if each.folder.name == table][number]
        [figure, *_] = (await (await harness_of(table)).ask(question.text)).figures or [""]
        assert question.is_answered_by(figure), question.text


async def test_a_question_tables_cannot_answer_gets_one_sentence(harness_of: HarnessOf) -> None:
    """It gives the reason in the language of the question, and no row is quoted."""
    cases = [
        ("accounts", "How many invoices were cancelled?", "no column “cancelled”; its columns are number, customer"),
        ("verleih", "Wie viele Geräte sind kaputt?", "keine Spalte „kaputt“"),
        ("clinique", "Combien de consultations sont remboursées ?", "pas de colonne « remboursées »"),
        ("bodega", "¿Cuántos barcos navegan?", "Ningún documento contiene la palabra «barcos»"),
        ("accounts", "How many invoices are not by customer?", "covers the word “not”"),
        ("atelier", "Quel est le bénéfice de mars ?", "n'a pas de colonne « bénéfice » ; ses colonnes sont Datum,"),
        ("accounts", "What share of the amount is overdue?", "another currency"),
        ("nursery", "How many bills were sent in April 2024?", "No row of bills_2025.csv"),
        ("translators", "Wie viel hat Norda 2025 bezahlt?", "keine Spalte „bezahlt“"),  # `status` says what is paid
        ("translators", "What is the total of all invoices?", "in several ways: amount, invoices_2025.csv / amount"),
    ]
    for folder, question, said in cases:
        [answer] = (await (await harness_of(folder)).ask(question)).answers
        assert answer.status != "success"
        assert [found.claim for found in answer.findings if ".csv" in "".join(found.source_refs)] == []
        assert said in answer.content


async def test_a_later_question_about_it_gets_no_figure(ferries: Harness) -> None:
    """Rules do not know what `it` is; the reason says so, and not that rows leave doubt."""
    answered = await ferries.ask("How many minutes were lost in March 2025, and which vessel caused it?")

    assert len(answered.figures) == 1
    assert "depends on the one before" in answered.answers[1].content


async def test_the_price_of_another_thing_is_not_an_answer(tmp_path: Path) -> None:
    """If one line has the thing, and another the price of another thing, the passage is only evidence."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rules.txt").write_text("Members bring a towel.\nA lost locker key costs 15 euros.\n")
    harness = await Harness.open(tmp_path / "rules", tmp_path)

    for thing, is_answered in (("a towel", False), ("a lost locker key", True)):
        [answer] = (await harness.ask(f"What does {thing} cost?")).answers
        assert (answer.status == "success") == is_answered


async def test_a_partial_passage_names_the_word_it_lacks(harness_of: HarnessOf) -> None:
    """The word is named in the language of the question, and a superseded passage is quoted last."""
    asked = await (await harness_of("hostal")).ask("¿Cuánto cuesta el desayuno de 30 huéspedes?")

    assert "no tienen la palabra «30»" in asked.answers[0].content
    assert ["9 euros" in quote for quote in asked.passages] == [True, False]


async def test_a_near_match_is_not_an_answer(harness_of: HarnessOf) -> None:
    """A rule with an unrelated number, a bare name, or an event with another's date leaves a gap."""
    cases = [
        ("stables", "How many lessons were cancelled?"),
        ("imprenta", "¿Qué cliente ha hecho el pedido más rentable?"),
        ("allotments", "How long has Olive Webb been here?"),
        ("translators", "Which invoice of 2025 was paid last?"),
        ("imprenta", "¿Cuántos pedidos se entregaron en febrero?"),
        ("cafe", "Who earns the most per month?"),
    ]
    for folder, question in cases:
        answers = (await (await harness_of(folder)).ask(question)).answers
        assert [(answer.status == "success", bool(answer.message)) for answer in answers] == [(False, True)], question


async def test_two_leaders_are_both_named(harness_of: HarnessOf) -> None:
    """If the highest row and the highest sum belong to different groups, both are stated, less surely."""
    [answer] = (await (await harness_of("held-out-tables")).ask("Which destination had the highest cost?")).answers

    assert answer.content.startswith("**Theatre**, **410.00 GBP**: ")
    assert "**Science museum**, **642.40 GBP**: destination with the largest sum" in answer.content
    assert answer.confidence < 90


async def test_a_paragraph_that_answers_is_quoted_alone(tmp_path: Path) -> None:
    """The paragraphs next to one that has every word of the question are left out."""
    paragraphs = ("Bikes are free at weekends.", "Lost property is kept for four weeks.", "Dogs must wear a muzzle.")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rules.md").write_text("\n\n".join(["# Rules", *paragraphs]), encoding="utf-8")
    harness = await Harness.open(tmp_path / "rules", tmp_path)

    assert (await harness.ask("How long is lost property kept?")).passages == paragraphs[1:2]


@pytest.mark.parametrize(
    ("asked", "notice", "price", "neither"),
    [
        (
            "What notice must we give to end the lease, and what does it cost?",
            "Either party may end the lease with three months notice in writing.",
            "Ending the lease early costs a fee of 400 euro.",
            "cost",
        ),
        (
            "Welche Frist gilt für den Mietvertrag und was kostet das?",
            "Für den Mietvertrag gilt eine Frist von drei Monaten.",
            "Ein früheres Ende des Vertrags ist für 400 € möglich.",
            "kostet",
        ),
    ],
)
async def test_a_requested_price_is_quoted_or_reported_missing(
    tmp_path: Path, asked: str, notice: str, price: str, neither: str
) -> None:
    """A paragraph with all the other words is only a partial answer."""
    for folder, text in (("both", f"{notice}\n\n{price}"), ("one", notice)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lease.md").write_text(f"# Lease\n\n{text}\n", encoding="utf-8")
    both, one = [
        (await (await Harness.open(tmp_path / each, tmp_path)).ask(asked)).answers[0] for each in ("both", "one")
    ]

    assert (both.status, notice in both.content, price in both.content) == ("success", True, True)
    assert (one.status, notice in one.content, neither in one.gaps[0]) == ("partial", True, True)


async def test_newer_documents_are_quoted_before_superseded_ones(tmp_path: Path) -> None:
    """All have every word of the question; the latest date comes first, the replaced text last."""
    notes = {
        "note-2022-05-01.md": "Le tarif du ponton est de 12 euros par nuit, pour tous les bateaux de passage.",
        "note-2024-03-09.md": "À partir du printemps, le tarif du ponton est de 15 euros par nuit, eau comprise.",
        "tarif-2025.md": "Texte remplacé par une note. Par nuit, le tarif du ponton était de 14 euros en été.",
    }
    (tmp_path / "notes").mkdir()
    for name, text in notes.items():
        (tmp_path / "notes" / name).write_text(f"# Note\n\n{text}", encoding="utf-8")
    harness = await Harness.open(tmp_path / "notes", tmp_path)

    quoted = (await harness.ask("Quel est le tarif du ponton par nuit ?")).passages

    assert ["15 euros" in quoted[0], "12 euros" in quoted[1]] == [True, True]
