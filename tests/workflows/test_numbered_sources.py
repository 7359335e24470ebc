"""Short refs in whole sessions: models write them, and everything that is kept or handed on has whole ones."""

from pathlib import Path

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import SessionRequest
from tests.scripted_model import Script, answer, compacted, report, request_tools, subtask, use, work_task
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_long_conversations import run

READ, OTHER = "search_documents.md#L1", "read_document.md#L1"
WORDS = "what search_documents read"


async def test_what_another_agent_read_is_cited_by_its_number(environment: OpenEnvironment) -> None:
    """A dependent reads the input's sources by number, adds its own behind them, and its outcome names all in full."""
    both = answer("Both [p1], [p2].", ref="p1", quote=WORDS)
    script = (
        Script()
        .plan(subtask("T1"), subtask("T2", after=["T1"]))
        .work("T1", use("search_documents"), answer("It says so [p1].", ref="p1", quote=WORDS))
        .work("T2", use("read_document"), request_tools(("read_document", {"document": "p1"})), both)
        .synthesis(report("It says so [S1.1], and more [S2]."))
    )
    async with environment(script) as opened:
        result = await opened.run(SessionRequest(goal="What do the documents say?", review="never"))
        last = [call for call in opened.model.of_kind("work") if isinstance(call.task, WorkTask) and call.task.inputs]

    assert f"[p1] {READ} A title" in last[0].messages[0].text
    assert f"[p2] {OTHER} A title" in last[-1].messages[2].results[0].text
    assert work_task(last[-1]).rounds[1].calls[0].arguments == {"document": READ}
    assert [source.ref for source in result.sources] == [READ, OTHER]
    assert "p1" not in result.model_dump_json(include={"answer", "claims", "sources", "subtasks"})


async def test_a_number_outlives_its_conversation(tmp_path: Path) -> None:
    """After it has summed up, an agent cites what it read before by the number that it had."""
    result, model, _ = await run(tmp_path, compacted("So far: so [p1]."))

    anew = [call for call in model.of_kind("work") if work_task(call).summary and not work_task(call).rounds]
    assert {work_task(call).summary for call in anew} == {f"So far: so [{READ}]."}
    assert all("So far: so [p1]." in call.messages[0].text for call in anew)
    assert all(f"[p1] {READ}" in call.messages[0].text for call in anew)
    assert [source.ref for source in result.sources] == [READ]
