"""A follow-up session knows the previous report, typed and bounded; its sources stay known and checked."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from activities.contracts.rounds import InputOutcome
from activities.models.protocol import ModelCall
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.client import Chargehand
from chargehand.contracts import Finding, Limits, Report, SessionRequest, Source, Success
from chargehand.errors import ChargehandError, SearchAttributesMissing, SessionFailed
from chargehand.listing import SessionSummary
from chargehand.search_attributes import STATE, STOP_REASON, missing_attributes
from chargehand.session import Session
from chargehand.wire import SearchAttribute
from chargehand_plugins.operations.setup import register_attributes
from tests.conftest import local_server
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Held, Script, answer, cite, report, subtask, use, work_task
from tests.waiting import eventually, runs_of, until
from tests.workflows.conftest import OpenEnvironment, start_plainly
from tests.workflows.test_main_path import well_behaved
from workflows import run_end
from workflows.rules.report_content import read_again

pytestmark = pytest.mark.real_server

REF, READ = "search_documents.md#L1", "what search_documents read"
CONTENT = f"They agree.\n\n*Read for this: [{REF}]*"
FIRST = "What do they agree on?"
AGAIN = "Say again what they agree on."
NEWER = "Look on the web for what is newer."


def cite_earlier(call: ModelCall) -> BaseModel:
    """Answer with what the previous session has read."""
    [known] = work_task(call).inputs
    [source] = known.outcome.sources
    return answer("They did agree.", ref=source.ref, quote=source.quote)


SCRIPT = (
    Script()
    .plan(subtask("T1"))
    .plan(subtask("T1", instruction=AGAIN), goal="Is it so?")
    .plan(subtask("T1", instruction=AGAIN), subtask("T2", instruction="Read it again."), goal="And in short?")
    .plan(subtask("T1", agent="researcher", instruction=NEWER), goal="What is newer?")
    .work("", use("search_documents"), cite("They agree."))
    .work("again", cite_earlier)
    .work("web", use("search"), cite("They agree."))
    .synthesis(report("They agree [S1.1]."))
)


async def ask(earlier: Session, goal: str, **fields: Any) -> tuple[Session, Report]:
    session = await earlier.ask(goal, **fields)
    return session, await session.result()


async def start(opened: SessionEnvironment, **fields: Any) -> Session:
    session = await opened.chargehand.start(SessionRequest.model_validate({"goal": FIRST, **fields}))
    await session.result()
    return session


async def test_a_follow_up_session_knows_the_previous_report(environment: OpenEnvironment, tmp_path: Path) -> None:
    """Plan and agents get its goal, answer, findings and sources; claim checks, documents and tenant are kept."""
    (tmp_path / "lease.md").write_text("# Lease\nThree months.", encoding="utf-8")
    document = f"file:{tmp_path}/lease.md"
    async with environment(SCRIPT, document_roots=(tmp_path,)) as opened:
        first = await start(opened, documents=[document], tenant="acme")
        limits = Limits(max_turns=9)
        second, result = await ask(first, "Is it so?", limits=limits)
        asked = await second.request()
        _, without = await ask(first, "Is it so?", earlier_documents=False)
        plans, works = opened.model.tasks(PlanTask), opened.model.tasks(WorkTask)
        prompts = ["".join(each.text for each in call.messages) for call in opened.model.of_kind("plan")]
        documents = await second.documents()

    [known] = plans[1].earlier
    assert (known.instruction, known.outcome.content) == (FIRST, CONTENT)
    assert [(each.claim, each.quote) for each in known.outcome.findings] == [("They agree.", READ)]
    assert works[2].inputs == (known,)
    assert works[2].rounds == ()
    assert (result.follows, [(each.session, each.goal) for each in result.thread]) == (first.id, [(first.id, FIRST)])
    assert [(each.ref, each.quote, each.session) for each in result.sources] == [(REF, READ, first.id)]
    assert [(each.verification, each.quote) for each in result.claims] == [("supported", READ)]
    assert next(each.allowed for each in result.limits if each.limit == "max_turns") == 9
    assert (asked.crew, asked.tenant, documents) == ("research", "acme", (document,))
    assert ["lease.md" in prompt for prompt in prompts] == [True, True, False]
    assert without.verification == "supported"


async def test_a_follow_up_report_can_cite_earlier_quotations(environment: OpenEnvironment) -> None:
    """The source is attributed to the earlier session."""
    script = SCRIPT.work("again", answer("Nothing new."))
    async with environment(script) as opened:
        first = await start(opened)
        _, result = await ask(first, "And in short?", review="never")
        [written] = opened.model.tasks(SynthesisTask)

    assert [given.id for given in written.outcomes] == ["earlier report", "T1", "T2"]
    assert [[each.text for each in source.quotations] for source in written.sources] == [[READ]]
    assert result.answer == "They agree [S1]."
    assert [(each.ref, each.session) for each in result.sources] == [(REF, first.id)]
    assert [(each.verification, each.quote) for each in result.claims] == [("cited", READ)]


async def test_all_sessions_of_a_thread_list_the_whole_thread_in_order(environment: OpenEnvironment) -> None:
    """Of three sessions, the third gets the first in brief."""
    async with environment(SCRIPT) as opened:
        first = await start(opened)
        second, _ = await ask(first, "Is it so?")
        third, result = await ask(second, "Is it so?")
        ids = [first.id, second.id, third.id]

        async def is_listed() -> bool:
            found = opened.chargehand.list(thread=first.id, state="finished")
            return [each.id async for each in found] == ids[::-1]

        await until(is_listed)
        threads = [[each.id for each in await session.thread()] for session in (first, second, third)]
        last = opened.model.tasks(PlanTask)[-1]

    assert threads == [ids] * 3
    assert [(each.session, each.answer) for each in last.thread] == [(first.id, "They agree.\n\n*Read for this: [S1]*")]
    assert [each.session for each in result.thread] == ids[:2]
    assert [each.session for each in result.sources] == [first.id]


@pytest.mark.slow
async def test_a_follow_up_keeps_the_previous_report_after_continue_as_new(
    environment: OpenEnvironment, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents of the later run get it, and the session's own report names it."""
    chain = [subtask("T1"), subtask("T2", after=["T1"]), subtask("T3", after=["T2"])]
    async with environment(SCRIPT.plan(*chain, goal="And at length?")) as opened:
        first = await start(opened)
        monkeypatch.setattr(run_end, "MOST_EVENTS", 20)
        second, result = await ask(first, "And at length?", review="never")
        runs = await runs_of(client, second.id)
        last = opened.model.tasks(WorkTask)[-1]

    assert len(runs) > 1
    assert next((given.id, given.outcome.content) for given in last.inputs) == ("earlier report", CONTENT)
    assert (result.follows, result.reads) == (first.id, ("reads_private",))


async def test_a_session_that_cannot_be_followed_is_refused_at_once(environment: OpenEnvironment) -> None:
    """It may be unknown, running, cancelled or another tenant's; the message names the field and the remedy."""
    held = Held(answer("Late."))
    waiting = SCRIPT.plan(subtask("T1", instruction="Wait for long."), goal="Wait").work("Wait", held)
    async with environment(waiting) as opened:
        ended = await start(opened)
        running = await opened.start(SessionRequest(goal="Wait for it."), until=held)

        async def refusal(follows: str, **fields: Any) -> str:
            with pytest.raises(ChargehandError) as refused:
                await opened.run(SessionRequest(goal="Is it so?", follows=follows, **fields))
            assert isinstance(refused.value, SessionFailed)
            return str(refused.value)

        still = await refusal(running.id)
        await running.cancel()
        with pytest.raises(ChargehandError):
            await running.result()
        refusals = [await refusal("nobody"), await refusal(ended.id, tenant="acme"), await refusal(running.id)]
        turns = len(opened.model.calls)

    assert f"follows: session '{running.id}' is still running: wait for its report (`chargehand watch" in still
    assert "follows: there is no session 'nobody' of tenant 'default'" in refusals[0]
    assert f"follows: there is no session '{ended.id}' of tenant 'acme'" in refusals[1]
    cancelled = f"Session '{running.id}' was cancelled."
    assert f"follows: session '{running.id}' has no report to follow: {cancelled}" in refusals[2]
    assert turns == 6


async def test_private_text_goes_out_only_with_approval(environment: OpenEnvironment) -> None:
    """After a session that read documents no agent may reach out unapproved; after one on the web, it may."""
    async with environment(SCRIPT) as opened:
        private = await start(opened)
        _, kept = await ask(private, "What is newer?")
        rejected = [task.rejected[-1].errors[0] for task in opened.model.tasks(PlanTask) if task.rejected]
        searches_kept = len(opened.tools["search"].calls)
        public = await start(opened, goal="What is newer?")
        _, sent = await ask(public, "What is newer?")
        searches_sent = len(opened.tools["search"].calls)

    reason = "its inputs include private text, brought by the session that it belongs to, or the one that this follows"
    assert [error.split(";")[0] for error in rejected] == [f"subtask T1: it reaches out, and {reason}"] * 2
    assert searches_kept == 0
    assert [record.agent for record in kept.subtasks] == ["reader"]
    assert searches_sent == 2
    assert (kept.reads, sent.reads) == (("reads_private",), ("reads_untrusted",))


def test_quotations_of_a_source_that_was_read_again_are_dropped() -> None:
    """Once this session has read the source itself, an earlier session's quotation no longer counts."""

    def outcome(session: str, *refs: str) -> InputOutcome:
        findings = tuple(
            Finding(claim=f"It is so by {ref}.", sources=(ref,), confidence=80, quote="is so") for ref in refs
        )
        sources = tuple(Source(ref=ref, quote="is so", session=session) for ref in refs)
        return InputOutcome(
            id="T1", agent="reader", instruction="", outcome=Success(findings=findings, sources=sources)
        )

    earlier = read_again(outcome("before", "a.md", "b.md"), [outcome("", "b.md"), outcome("before", "a.md")]).outcome

    assert [source.ref for source in earlier.sources] == ["a.md"]
    assert [each.quote for each in earlier.findings] == ["is so", ""]


_LISTED: Final = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES


async def listed(chargehand: Chargehand, session_id: str, **filters: Any) -> list[SessionSummary]:
    return [each async for each in chargehand.list(1_000, **filters) if each.id == session_id]


async def events_of(client: Client, session_id: str) -> list[int]:
    return [event.event_type for event in (await client.get_workflow_handle(session_id).fetch_history()).events]


async def test_the_session_list_matches_the_report(environment: OpenEnvironment, client: Client) -> None:
    """Crew, tenant, stop reason, dollars and turns are equal; each of the four states costs one event."""
    request = SessionRequest(goal="What do the documents say about the topics?\nAll of them.", tenant="acme")
    started = datetime.now(UTC) - timedelta(minutes=1)
    async with environment(well_behaved(subtask("T1"), subtask("T2", agent="analyst", after=["T1"]))) as opened:
        session = await opened.chargehand.start(request)
        report = await session.result()
        filters = {"state": "finished", "tenant": "acme", "crew": "research"}
        await eventually(lambda: listed(opened.chargehand, session.id, **filters))
        [found] = [each async for each in opened.chargehand.list(thread=session.id, since=started)]
        events = await events_of(client, session.id)
        memo = await (await client.get_workflow_handle(session.id).describe()).memo()

    assert found.model_dump(exclude={"started_at", "ended_at"}) == {
        "id": session.id,
        "state": "completed",
        "step": "finished",
        "goal": "What do the documents say about the topics? All of them.",
        "crew": "research",
        "tenant": "acme",
        "waiting_for": "",
        "stop_reason": report.stop_reason,
        "verification": report.verification,
        "failure": None,
        "cost_usd": float(report.usage.cost_usd),
        "turns": report.usage.turns,
        "is_cost_final": True,
        "follows": "",
        "thread": session.id,
        "shown": report.ending.words,
    }
    assert (memo["state"], memo["ending"]) == ("finished", "answered")
    assert events.count(_LISTED) == 4
    assert await listed(opened.chargehand, session.id, tenant="other'quoted\\") == []


async def test_the_session_list_shows_what_a_session_waits_for(environment: OpenEnvironment) -> None:
    """A session that awaits a person can be found by that, until it continues."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        session = await opened.start(SessionRequest(goal="What is known?", approval="plan"), until="awaiting_approval")

        async def waits() -> list[str]:
            found = opened.chargehand.list(1_000, waiting=True, state="awaiting_approval")
            return [each.waiting_for async for each in found if each.id == session.id]

        await eventually(waits, lambda found: found == ["a decision on its plan"])
        await session.approve()
        await session.result()
        await eventually(waits, lambda found: not found)
        [found] = await eventually(lambda: listed(opened.chargehand, session.id, state="completed"))

    assert (found.waiting_for, found.step) == ("", "finished")


async def test_a_cron_run_is_not_listed_with_the_previous_stop_reason(environment: OpenEnvironment) -> None:
    """The server starts each run with the search attributes of the previous one."""
    before = [SearchAttributePair(STATE, "finished"), SearchAttributePair(STOP_REASON, "deadline")]
    async with environment(well_behaved(subtask("T1"))) as opened:
        request = SessionRequest(goal="What is known?", approval="plan")
        session = await start_plainly(opened, request, search_attributes=TypedSearchAttributes(before))
        [found] = await eventually(lambda: listed(opened.chargehand, session.id, waiting=True))

    assert (found.step, found.stop_reason) == ("awaiting_approval", "")


async def test_sessions_run_without_search_attributes(tmp_path: Path) -> None:
    """If none are registered, sessions set none, lists show the goal, filters say what to do, and setup helps."""
    async with local_server(search_attributes=()) as client:
        async with open_environment(client, tmp_path, well_behaved(subtask("T1"))) as opened:
            session = await opened.chargehand.start(SessionRequest(goal="What is known?"))
            report = await session.result()
            [found] = await eventually(lambda: listed(opened.chargehand, session.id, state="finished"))
            with pytest.raises(SearchAttributesMissing, match=r"ChargehandCrew.*`chargehand setup`"):
                await listed(opened.chargehand, session.id, crew="research")

        events = await events_of(client, session.id)
        added = await missing_attributes(client)
        await register_attributes(client, added)
        left = await missing_attributes(client)

    assert report.stop_reason == "completed"
    assert _LISTED not in events
    assert (found.goal, found.state, found.cost_usd) == ("What is known?", "completed", None)
    assert added == tuple(SearchAttribute)
    assert left == ()


async def test_an_unknown_signal_is_shown_with_the_update_to_send(environment: OpenEnvironment, client: Client) -> None:
    """After `finish_now` as a signal, the status lists it and the Web UI names the update to send instead."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        session = await opened.start(SessionRequest(goal="What is known?", approval="plan"), until="awaiting_approval")
        handle = client.get_workflow_handle(session.id)
        await handle.signal("finish_now")
        await handle.signal("faster", args=[1, "<b>"])
        status = await session.status()
        details = await handle.query("__temporal_workflow_metadata")
        await session.cancel()

    assert (status.unknown_signals, status.ignored_messages) == (("finish_now", "faster"), 2)
    assert f"update execute --workflow-id {session.id} --name finish_now" in str(details)
