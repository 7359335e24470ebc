"""View models of a session's pages, from its status or, once it has ended, its report."""

import asyncio
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from chargehand import InvalidInput, NotReachable, Report, ServerRefused, Session, SessionEnded, Status
from chargehand.history.projection import Projection
from chargehand.history.steps import Draft
from chargehand.history.tree import TreeReader, status_of, trace_of
from chargehand.messages import UPDATES, Messages
from chargehand.spans import SUPERVISOR
from chargehand.state_words import ENDED, NEEDS
from chargehand.temporal_errors import translated
from chargehand.visibility import is_open
from chargehand.wire import WorkflowType
from chargehand_cli.rendering.escaping import error_text
from chargehand_cli.rendering.markdown import safe_html
from chargehand_cli.rendering.progress import spend_facts
from chargehand_cli.rendering.svg import timeline
from chargehand_cli.rendering.text import answer_below_notice, duration, session_facts
from chargehand_plugins.console.activity import AgentView, Message, messages_of, supervisor_view
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.templating import render
from chargehand_plugins.console.words import words

_PATIENCE_SECONDS: Final = 3
"""Time for a worker to answer before the page reports that none does."""
_PARTS: Final = ("decisions", "live", "actions")
_SO_FAR: Final = re.compile(r'(<time class="since" datetime="[^"]*">)[^<]*|<svg.*?</svg>', re.DOTALL)
"""Values that change with time only, which the page counts up itself; excluded from change detection."""
_WORK_IS_OVER: Final = ENDED | {"synthesising"}


@dataclass(frozen=True)
class SessionView:
    """Everything shown on a session's page."""

    status: Status
    """The session's status, without its plan unless that awaits approval."""
    facts: tuple[str, ...] = ()
    since: datetime | None = None
    """When its work began; absent if it is over."""
    remark: str = ""
    tree: AgentView | None = None
    """The activity of its supervisor and agents."""
    messages: tuple[Message, ...] = ()
    agents: tuple[str, ...] = ()
    """Agents available to subtasks of the plan."""
    timeline: Markup | str = ""
    is_open: bool = True
    is_conversation: bool = False
    """Whether it is a conversation, with other messages than a session."""
    can_steer: bool = False
    can_change: bool = False
    """Whether part of the plan has not begun and can be changed."""
    report: Report | None = None
    answer: Markup | str = ""
    web_ui: str | None = None


@dataclass(frozen=True)
class Page:
    """Renders the parts of a session's page for one browser."""

    session_id: str
    csrf: str

    @property
    def base(self) -> str:
        return f"/sessions/{quote(self.session_id, safe='')}"

    def parts(self, view: SessionView) -> dict[str, Markup]:
        """Render pending decisions, the read-only part and other actions, by page element."""
        values = self._values(view)
        return {name: Markup(render(f"_{name}.html", **values)) for name in _PARTS}  # noqa: S704  # it has escaped them

    def whole(self, view: SessionView, problem: str = "", done: str = "") -> str:
        parts = self.parts(view)
        place = "/sessions" if done == "start" else f"{self.base}/{done}" if done else ""
        values = self._values(view) | {"here": "", "problem": problem, "done": done, "done_place": place}
        return render("session.html", **values, **parts, key=key_of(parts["actions"]), now=datetime.now(UTC))

    def _values(self, view: SessionView) -> dict[str, object]:
        return {
            "view": view,
            "status": view.status,
            "base": self.base,
            "csrf": self.csrf,
            "session_id": self.session_id,
            "updates": UPDATES.values(),
        }


def key_of(html: str) -> str:
    """Hash a fragment's content, so that the page can tell whether it is current."""
    return hashlib.sha256(_SO_FAR.sub(r"\1", html).encode()).hexdigest()[:16]


async def view_session(backend: Backend, session_id: str, work: Projection | None = None) -> SessionView:
    """Read a session's view; without a worker, from the server, and without a follower's projection, from scratch.

    A follower that was cut off, as by a restart of the server, may not have seen the end of a session.

    Raises:
        SessionNotFound: there is no such session.
    """
    session, description = await backend.find(session_id)
    is_conversation = description.type.name == WorkflowType.CONVERSATION
    client, web_ui = backend.connect().client, backend.session_url(session_id)
    if work is None or (work.scope.draft.ended_at is None and not is_open(description)):
        with translated(session_id):
            work = await TreeReader(client, session_id).read(Draft.of(session_id), None)
    if is_open(description):
        view = await _of_running(backend, session, work, web_ui)
        crew = (await session.request()).crew if view.status.plan else ""
        own = {agent for each in backend.crews if each.name == crew for agent in each.agents}
        return replace(view, agents=tuple(sorted({*view.agents, *own})), is_conversation=is_conversation)
    try:
        return _of_report(await session.result(), work, web_ui)
    except (SessionEnded, InvalidInput) as error:  # the latter of a conversation
        status = await _recorded_status(session, work)
        view = view_of_status(status, web_ui, work)
        remark = error_text(error)
        remark = f"{remark.rstrip('.')}. {status.failure.remedy}" if status.failure else remark
        return replace(
            view, remark=remark, is_open=False, is_conversation=is_conversation, can_steer=False, can_change=False
        )


async def _of_running(backend: Backend, session: Session, work: Projection, web_ui: str | None) -> SessionView:
    handle = backend.connect().client.get_workflow_handle(session.id)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            # `work` has the children's spend; `Session.status` would have to read their histories for it.
            with translated(session.id):
                status = await handle.query(Messages.status.name, result_type=Status)
    except (NotReachable, ServerRefused, TimeoutError):
        recorded = view_of_status(await _recorded_status(session, work), web_ui, work)
        return replace(recorded, remark=words("session", "no_worker"), can_steer=False, can_change=False)
    spent = work.spent  # it is current even if the worker is busy
    known = {"turns": max(status.turns, spent.turns), "spent_usd": max(status.spent_usd, spent.cost_usd)}
    return view_of_status(status.model_copy(update=known), web_ui, work)


async def _recorded_status(session: Session, work: Projection) -> Status:
    with suppress(InvalidInput):  # no request that a worker accepts
        return status_of(work, (await session.request()).goal)
    return status_of(work)


def view_of_status(status: Status, web_ui: str | None, work: Projection | None = None) -> SessionView:
    """Build the view of a status, with the agents' activity as far as it has been read."""
    ended_at = work.scope.draft.ended_at if work else None
    took = (duration(ended_at - status.started_at),) if ended_at and status.started_at else ()
    awaits = status.state == "awaiting_approval" and status.plan is not None
    return SessionView(
        status=status if awaits else status.replace(plan=None),
        facts=(*spend_facts(status), *took),
        since=None if took else status.started_at,
        remark=NEEDS["paused"] if status.state == "paused" else "",
        tree=supervisor_view(work, status) if work else None,
        messages=messages_of(work) if work else (),
        agents=tuple(sorted({each.agent for each in status.plan.subtasks} | {SUPERVISOR})) if status.plan else (),
        timeline=timeline(trace_of(work)) if work else "",
        can_steer=status.state not in _WORK_IS_OVER,
        can_change=not awaits
        and status.state not in _WORK_IS_OVER
        and any(each.state == "waiting" for each in status.subtasks),
        web_ui=web_ui,
    )


def _of_report(report: Report, work: Projection, web_ui: str | None) -> SessionView:
    view = view_of_status(status_of(work, report.goal), web_ui, work)
    return replace(
        view,
        facts=tuple(fact for fact in session_facts(report) if fact != view.status.standing.words),
        remark=report.notice,
        answer=safe_html(answer_below_notice(report), report.sources),
        is_open=False,
        report=report,
    )
