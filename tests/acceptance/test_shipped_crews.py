"""Every shipped crew completes its example: on its tape, and whatever its agents say."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.contracts.crew import Crew
from activities.contracts.tool import READS_DOCUMENTS
from activities.crews.files import load_crews
from activities.turn_kinds.plan import RouteAnswer, RouteDraft
from activities.turn_kinds.work import WorkWithIssuesAnswer
from benchmarks.evaluation.dataset import ROOT, read_datasets
from benchmarks.evaluation.scores import Scores
from benchmarks.evaluation.sessions import Job, evaluate
from chargehand.contracts import SessionRequest
from chargehand.plugins import installed
from chargehand_plugins.code_review.activity import add_parts
from tests.environment import TOOLS, open_environment
from tests.parameters import first_fast
from tests.scripted_model import Script, answer, subtask

_REVIEW_TOOLS = ("read_diff", "read_code", "code_history", "review_comments")
MUST_DISCLAIM = ("contract-review", "patient-summary", "portfolio")
"""Crews whose work could be taken for legal, medical or financial advice."""


def _crews() -> Mapping[str, Crew]:
    return load_crews([ROOT / "crews", *installed().crews], dict.fromkeys((*TOOLS, *_REVIEW_TOOLS), READS_DOCUMENTS))


def test_every_crew_has_an_example_a_tape_and_documentation() -> None:
    """Each has a case with documents, a tape and an expected answer, and a row in docs/crews.md."""
    cases = {case.crew: case for dataset in read_datasets(()).values() for case in dataset.cases if case.tape}
    page = (ROOT / "docs" / "crews.md").read_text(encoding="utf-8")

    for name in _crews():
        case = cases[name]
        assert case.answer
        assert (ROOT / (case.documents or "none")).is_dir()
        assert (ROOT / (case.tape or "none")).is_file()
        assert f"\n| {name} |" in page
        assert f"examples/tapes/{Path(case.tape or 'none').name}" in page


@pytest.mark.parametrize("name", MUST_DISCLAIM)
def test_crews_close_to_professional_advice_deny_giving_any(name: str) -> None:
    """Its disclaimer, which every report shows, says that the report is not advice."""
    assert re.search(r"\b(no|not|neither)\b[^.]* advice\b", _crews()[name].disclaimer)


def test_a_patients_record_cannot_leave() -> None:
    """No agent of that crew has a tool that could reach out, whatever implements it."""
    tools = {tool for agent in _crews()["patient-summary"].agents for tool in agent.tools}

    assert tools <= {"search_documents", "read_document", "query_data", "draw_chart"}


@pytest.mark.nightly
async def test_every_crew_tape_reproduces_its_expected_answer(client: Client, tmp_path: Path) -> None:
    """On the code paths of a real session, each case passes and every citation matches its source."""
    scores = list[Scores]()
    await evaluate(client, tmp_path, Job(read_datasets(["crews"])["crews"], "tape"), scores.append)

    assert scores
    for score in scores:
        assert score.passed, score
        assert score.citations in {1, None}, score  # a review, or an answer to be sent, has none
        assert score.gaps_named is not False, score


@pytest.mark.parametrize("name", first_fast(sorted(_crews()), 3))
async def test_every_crew_completes_a_plan_with_all_its_agents(tmp_path: Path, name: str) -> None:
    """Each planned or routed agent's subtask succeeds, and the report carries the crew's disclaimer."""
    crew = _crews()[name]
    script = Script().plan(*(subtask(f"T{number}", agent.name) for number, agent in enumerate(crew.agents, start=1)))
    nothing_found = WorkWithIssuesAnswer(**answer("It is right.").model_dump(exclude={"kind"}), issues=[])
    for agent in crew.agents:
        script = script.work("", nothing_found, agent=agent.name) if agent.reviews else script
    routed = crew.agents[:2] if crew.routing.otherwise == "model" else crew.agents
    drafts = [RouteDraft(agent=agent.name, instruction="Find what there is to know.", reason="so") for agent in routed]
    script = script.on("route", RouteAnswer(routes=drafts, confidence=90))
    async with open_environment(
        None, tmp_path, script, own_crews=(*installed().crews,), more_tools=_REVIEW_TOOLS, parts=[add_parts]
    ) as opened:
        report = await opened.run(SessionRequest(goal="What is there to know?", crew=name))

    assert {record.agent for record in report.subtasks} == {agent.name for agent in routed}
    assert {record.state for record in report.subtasks} == {"success"}
    assert report.disclaimer == crew.disclaimer
