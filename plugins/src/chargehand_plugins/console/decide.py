"""The page of a decision link, for deciding one wait of one session without signing in or scripts."""

from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chargehand import ChargehandError, Status, Wait
from chargehand.contracts import Answer, CallDecision, WaitKind
from chargehand.contracts.conversation import USUAL_GOAL
from chargehand.messages import UPDATES
from chargehand.visibility import is_open
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.forms import read_content
from chargehand_plugins.console.pages import error_page, with_typed
from chargehand_plugins.console.problems import Problem, problem_of
from chargehand_plugins.console.templating import render
from chargehand_plugins.console.uploads import read_form
from chargehand_plugins.console.views import view_of_status
from chargehand_plugins.console.words import words
from chargehand_plugins.webhooks.links import DecisionLink, Links

_ACTIONS: Final[dict[WaitKind, tuple[str, ...]]] = {
    "plan": ("decide_plan",),
    "call": ("decide_call",),
    "question": ("answer",),
    "limits": ("raise_limits", "finish_now"),
}
"""The updates that a link allows, by kind of wait."""


async def _show(request: Request) -> Response:
    link = _link(request)
    return _state(request, link, await _status(request, link))


def _state(request: Request, link: DecisionLink, status: Status, problem: Problem | None = None) -> Response:
    """Show the forms of an open wait, or how it was decided."""
    if wait := _wait(status, link):
        return _page(request, status, wait, problem)
    records = [each for each in status.decisions if each.wait == link.wait and each.at >= link.since]
    if not records or records[-1].decision == "none":
        return _page(request, status, None, note=words("decide", "over"))
    by = f" ({records[-1].by})" if records[-1].by else ""
    return _page(request, status, None, note=words("decide", "was", decision=records[-1].decision, by=by))


async def _act(request: Request) -> Response:
    """Apply the form, if the link allows it."""
    action = str(request.path_params["action"])
    form = await read_form(request)
    try:
        link = _link(request)
        status = await _status(request, link)
        wait = _wait(status, link)
        if wait is None:
            return _state(request, link, status)
        if action not in _ACTIONS[wait.kind]:
            raise _refusal()
        try:
            content = read_content(UPDATES[action], form)
            if isinstance(content, CallDecision) and content.call != wait.id:
                raise _refusal()
            if isinstance(content, Answer) and f"question-{content.subtask}" != wait.id:
                raise _refusal()
            if content is not None:
                content = content.model_copy(update={"by": f"link sent to {link.sent_to}"})
            backend: Backend = request.app.state.backend
            await (await backend.session(link.session)).send(UPDATES[action], content)
        except (ChargehandError, Problem) as error:
            problem = problem_of(error)
            return with_typed(_state(request, link, await _status(request, link), problem), request, form)
    except (ChargehandError, Problem) as error:
        return error_page(request, problem_of(error), form)
    finally:
        await form.close()
    return _page(request, status, None, note=words("decide", "done"))


def _page(
    request: Request, status: Status, wait: Wait | None, problem: Problem | None = None, note: str = ""
) -> Response:
    if wait is not None:
        questions = tuple(each for each in status.questions if f"question-{each.subtask}" == wait.id)
        calls = tuple(each for each in status.calls if each.id == wait.id)
        asking = {each.subtask.partition("/")[0] for each in (*questions, *calls)}
        status = status.replace(
            goal="" if status.goal == USUAL_GOAL else status.goal,
            subtasks=tuple(each for each in status.subtasks if each.id in asking),
            plan=status.plan if wait.kind == "plan" else None,
            questions=questions,
            calls=calls,
        )
    view = view_of_status(status, None)
    base, actions = f"/decide/{request.path_params['link']}", _ACTIONS[wait.kind] if wait else ()
    values = {"view": view, "status": view.status, "wait": wait, "base": base, "actions": actions}
    values |= {"note": note, "problem": problem.detail if problem else "", "csrf": "", "here": ""}
    return HTMLResponse(render("decide.html", **values), problem.status if problem else HTTPStatus.OK)


def _link(request: Request) -> DecisionLink:
    links: Links = request.app.state.links
    link = links.read(request.path_params["link"], datetime.now(UTC))
    if link is None:
        raise _refusal()
    return link


def _refusal() -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, words("decide", "refused"))


async def _status(request: Request, link: DecisionLink) -> Status:
    """Read the status; an ended session has no waits, and its report lists the decisions."""
    backend: Backend = request.app.state.backend
    session, description = await backend.find(link.session)
    if is_open(description):
        return await session.status()
    ended = Status(session=link.session, goal="", state="finished")
    with suppress(ChargehandError):  # it has no report
        ended = ended.replace(decisions=(await session.result()).decisions)
    return ended


def _wait(status: Status, link: DecisionLink) -> Wait | None:
    """Find the wait of a link; None if it was decided or has ended."""
    return next((each for each in status.waits if (each.id, each.since) == (link.wait, link.since)), None)


ROUTES: Final = (Route("/decide/{link}", _show), Route("/decide/{link}/{action}", _act, methods=["POST"]))
