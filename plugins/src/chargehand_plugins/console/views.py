"""What the pages show of a session: the facts of its status, or of its report once it has ended."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from chargehand import (
    Artifact,
    InvalidInput,
    NotReachable,
    PendingCall,
    Question,
    Report,
    SessionEnded,
    Status,
    SubtaskRecord,
)
from chargehand.messages import UPDATES
from chargehand.state_words import NEEDS
from chargehand_cli.rendering.progress import spend_facts
from chargehand_cli.rendering.text import duration, session_facts
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.templating import render
from chargehand_plugins.console.words import words

_WORK_IS_OVER: Final = frozenset({"synthesising", "finished", "failed", "cancelled"})


@dataclass(frozen=True)
class SessionView:
    """Everything that a session's page shows."""

    goal: str = ""
    state: str = "running"
    facts: tuple[str, ...] = ()
    remark: str = ""
    subtasks: tuple[SubtaskRecord, ...] = ()
    plan_json: str = ""
    """The plan that awaits approval."""
    questions: tuple[Question, ...] = ()
    calls: tuple[PendingCall, ...] = ()
    max_turns: int = 0
    budget: str = ""
    is_open: bool = True
    can_steer: bool = False
    can_change: bool = False
    """Whether a part of the plan has not begun, and can be changed."""
    has_report: bool = False
    artifacts: tuple[Artifact, ...] = ()
    web_ui: str | None = None


@dataclass(frozen=True)
class Page:
    """Renders the parts of a session's page for one browser."""

    session_id: str
    csrf: str
    base: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", f"/sessions/{quote(self.session_id, safe='')}")

    def live(self, view: SessionView) -> Markup:
        """Render what only shows."""
        return Markup(render("_live.html", view=view, base=self.base))  # noqa: S704  # the template has escaped it

    def actions(self, view: SessionView) -> Markup:
        """Render what people can do."""
        values = {
            "view": view,
            "base": self.base,
            "csrf": self.csrf,
            "session_id": self.session_id,
            "updates": UPDATES.values(),
        }
        return Markup(render("_actions.html", **values))  # noqa: S704  # as above

    def whole(self, view: SessionView, problem: str = "") -> str:
        actions = self.actions(view)
        return render(
            "session.html",
            view=view,
            session_id=self.session_id,
            base=self.base,
            csrf=self.csrf,
            here="",
            problem=problem,
            live=self.live(view),
            actions=actions,
            key=key_of(actions),
        )


def key_of(html: str) -> str:
    """Name a fragment, so that the page can tell whether it has it."""
    return hashlib.sha256(html.encode()).hexdigest()[:16]


async def view_session(backend: Backend, session_id: str) -> SessionView:
    """Read what the page shows; without a worker, what the server knows.

    Raises:
        SessionNotFound: there is no such session.
    """
    session, goes_on = await backend.find(session_id)
    web_ui = backend.session_url(session_id)
    if goes_on:
        try:
            return view_of_status(await session.status(), web_ui)
        except NotReachable:
            recorded = view_of_status(await session.recorded_status(), web_ui)
            return replace(recorded, remark=words("session", "no_worker"), can_steer=False, can_change=False)
    try:
        return _of_report(await session.result(), web_ui)
    except (SessionEnded, InvalidInput) as error:  # the latter of a conversation
        recorded = view_of_status(await session.recorded_status(), web_ui)
        return replace(recorded, remark=str(error), is_open=False, can_steer=False, can_change=False)


def view_of_status(status: Status, web_ui: str | None) -> SessionView:
    """Show the facts of a status."""
    started = [f"{duration(datetime.now(UTC) - status.started_at)} so far"] if status.started_at else []
    awaits = status.state == "awaiting_approval" and status.plan is not None
    return SessionView(
        goal=status.goal,
        state=status.state,
        facts=(*spend_facts(status), *started),
        remark=NEEDS["paused"] if status.state == "paused" else "",
        subtasks=status.subtasks,
        plan_json=status.plan.model_dump_json(indent=2) if awaits and status.plan else "",
        questions=status.questions,
        calls=status.calls,
        max_turns=status.max_turns,
        budget=f"{status.budget_usd:.2f}",
        can_steer=status.state not in _WORK_IS_OVER,
        can_change=not awaits
        and status.state not in _WORK_IS_OVER
        and any(each.state == "waiting" for each in status.subtasks),
        web_ui=web_ui,
    )


def _of_report(report: Report, web_ui: str | None) -> SessionView:
    return SessionView(
        goal=report.goal,
        state="finished",
        facts=tuple(session_facts(report)),
        remark=report.notice,
        subtasks=report.subtasks,
        is_open=False,
        has_report=True,
        artifacts=report.artifacts,
        web_ui=web_ui,
    )
