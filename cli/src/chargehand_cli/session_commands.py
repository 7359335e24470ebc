"""What commands that name a session do but run and watch it: show where it stands, and decide about it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chargehand.errors import SessionNotFound
from chargehand_cli.connection import Connection
from chargehand_cli.exit_codes import Exit
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.request_options import BadRequest, Typed
from chargehand_cli.run_commands import Output, put_report
from chargehand_cli.terminal import output_console, put, say

if TYPE_CHECKING:
    from chargehand.contracts import Plan, PlanDecision, Question, Report, Status


@dataclass(frozen=True)
class Decision:
    """What was typed about a plan; nothing means to show it."""

    approve: bool = False
    edit: Path | None = None
    reject: str | None = None

    def read(self) -> "PlanDecision | None":
        """Turn it into what the session takes.

        Raises:
            BadRequest: the plan's file cannot be used.
        """
        from pydantic import ValidationError  # noqa: PLC0415  # slow to load

        from chargehand.contracts import Plan, PlanDecision  # noqa: PLC0415  # as above
        from chargehand.converter import describe_problems  # noqa: PLC0415  # as above

        if self.approve:
            return PlanDecision(decision="approve")
        if self.reject is not None:
            return PlanDecision(decision="reject", reason=self.reject[:2_000])
        if self.edit is None:
            return None
        try:
            plan = Plan.model_validate_json(self.edit.read_bytes())
        except OSError as error:
            raise BadRequest(f"{self.edit} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            raise BadRequest(f"{self.edit} is no plan: {'; '.join(describe_problems(error, Plan))}") from error
        return PlanDecision(decision="edit", plan=plan)


async def status(connection: Connection, session_id: str, *, as_json: bool) -> Exit:
    """Say where a session stands."""
    await connection.open()
    found = await connection.session(session_id).status()
    if as_json:
        put(found.model_dump_json(indent=2))
    else:
        _put_status(found)
    return Exit.DONE


async def result(connection: Connection, session_id: str, output: Output) -> Exit:
    """Wait for a session's report and put it out."""
    await connection.open()
    return await put_report(connection, await report_of(connection, session_id), output)


async def report_of(connection: Connection, session_id: str) -> "Report":
    """Wait for a session's report; one that the server has forgotten is read from its file."""
    from chargehand_cli.session_files import kept_report  # noqa: PLC0415  # slow to load

    try:
        return await connection.session(session_id).result()
    except SessionNotFound:
        kept = kept_report(connection.place.state, session_id)
        if kept is None:
            raise
        return kept


async def plan(connection: Connection, session_id: str, decision: Decision, *, as_json: bool) -> Exit:
    """Show a session's plan, or decide about one that waits for approval."""
    decided = decision.read()
    await connection.open()
    session = connection.session(session_id)
    if decided:
        await session.decide_plan(decided)
        say(f"Session {session_id}: the plan was {_DECIDED[decided.decision]}.")
        return Exit.DONE
    found = await session.plan()
    if found is None:
        say(f"Session {session_id} has no plan yet.")
    elif as_json:
        put(found.model_dump_json(indent=2))
    else:
        _put_plan(found)
    return Exit.DONE


async def trace(connection: Connection, session_id: str, page: Path | None) -> Exit:
    """Put every step of a session out as JSON, or with the report as a page."""
    await connection.open()
    session = connection.session(session_id)
    steps = await session.trace()
    if page is None:
        put(steps.model_dump_json(indent=2))
        return Exit.DONE
    from chargehand_cli.rendering.page import report_page  # noqa: PLC0415  # slow to load

    drawn = report_page(await session.result(), steps)
    await asyncio.to_thread(page.write_text, drawn, encoding="utf-8")
    say(f"Report as a page: {page}")
    return Exit.DONE


async def finish(connection: Connection, session_id: str) -> Exit:
    """Ask a session to write its report from what is there."""
    await connection.open()
    await connection.session(session_id).finish_now()
    say(f"Session {session_id} writes its report from what is there; see it with `chargehand result {session_id}`.")
    return Exit.DONE


async def raise_limits(connection: Connection, session_id: str, typed: Typed) -> Exit:
    """Allow a session more turns, money or time."""
    from chargehand_cli.rendering.text import dollars  # noqa: PLC0415  # as above
    from chargehand_cli.typed_input import build_raised  # noqa: PLC0415  # slow to load

    raised = build_raised(typed)
    await connection.open()
    now = await connection.session(session_id).raise_limits(raised)
    until = f", until {now.deadline_at.astimezone():%Y-%m-%d %H:%M:%S}" if now.deadline_at else ""
    say(f"Session {session_id} may now take {now.max_turns} turns and {dollars(float(now.budget_usd))}{until}.")
    return Exit.DONE


async def answer(connection: Connection, session_id: str, text: str, subtask: str | None) -> Exit:
    """Answer the question of a subtask; of the only one that asks, if none is named."""
    from chargehand_cli.typed_input import build_answer  # noqa: PLC0415  # slow to load

    if subtask is not None:
        build_answer(subtask, text)
    await connection.open()
    session = connection.session(session_id)
    asked = _asked(await session.status(), subtask)
    await session.answer(build_answer(asked.subtask, text))
    say(f"Session {session_id}: {one_safe_line(asked.subtask)} goes on with your answer.")
    return Exit.DONE


def _asked(status: "Status", subtask: str | None) -> "Question":
    """Find the question that is meant.

    Raises:
        BadRequest: none is open, or not this one, or several are and none was named.
    """
    matching = [asked for asked in status.questions if subtask in (None, asked.subtask)]
    if len(matching) == 1:
        return matching[0]
    if not status.questions:
        raise BadRequest(f"Session {status.session} asks nothing now: it is {status.state.replace('_', ' ')}.")
    known = "; ".join(f"{one_safe_line(each.subtask)}: {one_safe_line(each.text)}" for each in status.questions)
    which = "Several questions are open" if subtask is None else f"Subtask {one_safe_line(subtask)} asks nothing"
    raise BadRequest(f"{which}. Say with --subtask which of these you answer: {known}")


async def cancel(connection: Connection, session_id: str) -> Exit:
    """Ask a session to stop without a report; Temporal says nothing if it has ended already."""
    from chargehand.visibility import describe  # noqa: PLC0415  # slow to load

    await connection.open()
    await connection.session(session_id).cancel()
    found = await describe(connection.chargehand.client, session_id)
    ended = found.workflow_execution_info.HasField("close_time")
    say(f"Session {session_id} {'has ended' if ended else 'was asked to stop'}.")
    return Exit.DONE


async def list_sessions(connection: Connection, limit: int, *, as_json: bool) -> Exit:
    """List sessions, the newest first."""
    await connection.open()
    found = [each async for each in connection.chargehand.list(limit)]
    if as_json:
        put("[" + ",\n ".join(each.model_dump_json() for each in found) + "]")
        return Exit.DONE
    if not found:
        say("There are no sessions here.")
    for each in found:
        took = f"{(each.ended_at - each.started_at).total_seconds():8.1f} s" if each.ended_at else " " * 10
        put(f"{each.started_at.astimezone():%Y-%m-%d %H:%M:%S}  {each.state:<10} {took}  {one_safe_line(each.id)}")
    return Exit.DONE


_DECIDED = {"approve": "approved", "edit": "replaced and approved", "reject": "rejected"}


def _put_status(status: "Status") -> None:
    from chargehand_cli.follow import asked_of  # noqa: PLC0415  # slow to load
    from chargehand_cli.live_tree import now, session_tree  # noqa: PLC0415  # as above

    at = now()
    ended = [record.ended_at for record in status.subtasks if record.ended_at]
    if status.state in ("finished", "failed", "cancelled") and ended:
        at = max(ended)
    output_console().print(session_tree(status.session, status, "", at, status.started_at or at))
    hint = asked_of(status.session, status.state, status.questions)
    if hint:
        say(f"It {hint}.")


def _put_plan(plan: "Plan") -> None:
    for subtask in plan.subtasks:
        after = f" after {', '.join(subtask.depends_on)}" if subtask.depends_on else ""
        put(f"{one_safe_line(subtask.id)} {one_safe_line(subtask.agent)}{after}")
        put("".join(f"    {line}\n" for line in safe_text(subtask.instruction).splitlines()))
    put(f"Then: {plan.strategy}. {one_safe_line(plan.final_instruction, 2_000)}".rstrip())
