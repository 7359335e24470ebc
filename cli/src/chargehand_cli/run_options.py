"""Requests, raised limits and plan edits from command-line options."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

import typer

from chargehand import ChargehandError
from chargehand.toml_file import parser_words
from chargehand_cli.terminal import ended_by_signals
from chargehand_cli.verb import Documents

if TYPE_CHECKING:
    from pydantic import BaseModel

    from chargehand import Plan, PlanEdit, RaisedLimits, SessionRequest

    Model = TypeVar("Model", bound=BaseModel)

_SHOWN_CHARACTERS: Final = 200
"""Maximum characters shown of an unreadable file's name."""
_MOST_GOAL_CHARACTERS: Final = 100_000
"""Maximum of standard input; the contract's limit is lower and has its own message."""
_FIELDS: Final[Mapping[str, str]] = {
    **{name: name for name in ("goal", "crew", "tenant", "profile", "criteria", "output_schema", "answer_within")},
    **{name: name for name in ("approval", "review", "questions", "urgency", "live_text")},
    "words": "length_words",
    "turns": "limits.max_turns",
    "budget": "limits.budget_usd",
    **{name: f"limits.max_{name}" for name in ("parallel", "depth", "attempts", "rounds", "reviews")},
    **{name: f"limits.{name}" for name in ("deadline", "subtask_deadline", "on_limit")},
}
"""The field of a request that each option sets."""
_OPTIONS: Final[Mapping[str, str]] = {
    field: "GOAL" if name == "goal" else f"--{name.replace('_', '-')}" for name, field in _FIELDS.items()
}
"""Options as typed, by the field that they set."""
_LEAST_TURNS: Final = 3
"""The minimum of any session: a plan, an agent's turn and the report."""


class BadRequest(ChargehandError):  # noqa: N818  # reads as a statement: `except BadRequest`
    """The input is invalid; the message names each field."""


@dataclass(frozen=True)
class RequestOptions:
    """Request options; None if not given."""

    goal: Annotated[
        str | None, typer.Argument(metavar="GOAL", help="What to find out or do; - reads it from standard input.")
    ] = None
    docs: Documents = None
    trust_docs: Annotated[
        bool,
        typer.Option("--trust-docs", help="Trust --docs: no stranger wrote in them, and their text may be sent out."),
    ] = False
    input: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the request as JSON from a file, or - for standard input.")
    ] = None
    crew: Annotated[str | None, typer.Option(help="Crew that does the work.", show_default="research")] = None
    tenant: Annotated[str | None, typer.Option(help="Tenant that the session runs for.", show_default="default")] = None
    id: Annotated[
        str | None, typer.Option(help="Session ID. If a session with this ID exists, it is used instead of a new one.")
    ] = None
    criteria: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A criterion that the report is graded by; repeat it for several."),
    ] = None
    words: Annotated[
        int | None, typer.Option(help="Approximate length of the report; from 3,000 words on, written by section.")
    ] = None
    output_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Print the result as JSON that matches the JSON Schema in this file."),
    ] = None
    approve_plan: Annotated[
        bool, typer.Option("--approve-plan", help="Wait for approval of the plan: this terminal asks.")
    ] = False
    profile: Annotated[
        Literal["quick", "standard", "deep"] | None,
        typer.Option(help="Limits for a quick answer, the usual ones, or for deep research.", show_default="standard"),
    ] = None
    budget: Annotated[float | None, typer.Option(help="Budget in US dollars.", show_default="2.00")] = None
    turns: Annotated[int | None, typer.Option(help="Maximum number of model calls.", show_default="20")] = None
    deadline: Annotated[
        str | None, typer.Option(help="Maximum duration: 90s, 10m, 1h30m or ISO 8601.", show_default="10m")
    ] = None
    parallel: Annotated[int | None, typer.Option(help="Maximum number of agents at once.", show_default="5")] = None
    depth: Annotated[int | None, typer.Option(help="Maximum depth of delegation.", show_default="5")] = None
    attempts: Annotated[int | None, typer.Option(help="Maximum attempts per subtask.", show_default="3")] = None
    rounds: Annotated[int | None, typer.Option(help="Maximum rounds of one attempt.", show_default="10")] = None
    reviews: Annotated[int | None, typer.Option(help="Maximum reviews of the outcomes.", show_default="2")] = None
    subtask_deadline: Annotated[
        str | None, typer.Option(help="Maximum duration of one attempt at a subtask.", show_default="5m")
    ] = None
    on_limit: Annotated[
        Literal["finish", "pause"] | None,
        typer.Option(help="At a limit, write the report or wait for `chargehand raise`.", show_default="finish"),
    ] = None
    review: Annotated[
        Literal["auto", "always", "never"] | None,
        typer.Option(help="Review the outcomes, and have a critic check the report.", show_default="auto"),
    ] = None
    questions: Annotated[
        bool, typer.Option("--questions", help="Allow agents to ask you about ambiguous instructions.")
    ] = False
    answer_within: Annotated[
        str | None,
        typer.Option(help="How long a question or a call waits for you, or `none`.", show_default="15m, a working day"),
    ] = None
    urgency: Annotated[
        Literal["now", "batch"] | None,
        typer.Option(help="`batch` takes hours, at half the price where the provider offers it.", show_default="now"),
    ] = None
    live_text: Annotated[
        Literal["report", "agents"] | None,
        typer.Option(help="Whose text followers can read while it is written.", show_default="report"),
    ] = None


def build_request(
    options: RequestOptions, documents: tuple[str, ...], base: Mapping[str, Any] | None = None
) -> "SessionRequest":
    """Merge the options into the JSON request or else the base, and validate the result.

    Raises:
        BadRequest: the JSON is unreadable, or the request is invalid.
    """
    from chargehand import SessionRequest

    fields = read_json(options.input) if options.input else dict(base or {})
    typed = _given_options(options)
    own = {name: value for name, value in typed.items() if not name.startswith("limits.")}
    limits = {name.removeprefix("limits."): typed[name] for name in typed.keys() - own.keys()}
    fields |= own
    if limits:
        before = fields.get("limits")
        fields["limits"] = {**(cast("dict[str, Any]", before) if isinstance(before, dict) else {}), **limits}
    if documents:
        before = fields.get("documents")
        added = [{"uri": each, "trusted": True} for each in documents] if options.trust_docs else documents
        fields["documents"] = [*(cast("list[object]", before) if isinstance(before, list) else []), *added]
    named = {name: _OPTIONS[name] for name in typed}
    request = _validate(SessionRequest, fields, "The request is invalid", named)
    if request.limits.max_turns < _LEAST_TURNS:
        name = "--turns" if options.turns is not None else "limits.max_turns"
        raise BadRequest(
            f"The request is invalid: {name}: {request.limits.max_turns} cannot pay for a plan, an agent's turn and "
            f"the report; use {_LEAST_TURNS} or more"
        )
    return request


def _given_options(options: RequestOptions) -> dict[str, Any]:
    """Return the given options by the field that they set."""
    typed = vars(options) | {
        "goal": _text("-", _MOST_GOAL_CHARACTERS) if options.goal == "-" else options.goal,
        "criteria": options.criteria or None,
        "output_schema": read_json(str(options.output_schema)) if options.output_schema else None,
        "approval": "plan" if options.approve_plan else None,
        "questions": "allowed" if options.questions else None,
        "budget": _dollars(options.budget),
    }
    return {field: typed[name] for name, field in _FIELDS.items() if typed[name] is not None}


def build_raised_limits(turns: int | None, budget: float | None, deadline: str | None) -> "RaisedLimits":
    """Validate new limits.

    Raises:
        BadRequest: they are invalid.
    """
    from chargehand import RaisedLimits

    options = {path.removeprefix("limits."): option for path, option in _OPTIONS.items()}
    typed = {"max_turns": turns, "budget_usd": _dollars(budget), "deadline": deadline}
    raised = {name: value for name, value in typed.items() if value is not None}
    return _validate(RaisedLimits, raised, "The limits are invalid", options)


def build_plan_edit(edits: list[dict[str, Any]], file: str | None) -> "PlanEdit":
    """Validate changes to a plan; changes from a file come first.

    Raises:
        BadRequest: they are invalid.
    """
    from chargehand import PlanEdit

    read = read_json(file) if file else {}
    before = cast("object", read.get("edits"))
    if file and not isinstance(before, list):
        raise BadRequest(f'{file} is not a JSON object such as {{"edits": [{{"edit": "drop", "subtask": "T3"}}]}}.')
    return _validate(PlanEdit, read | {"edits": [*cast("list[object]", before or []), *edits]}, "The edit is invalid")


def read_plan(file: Path) -> "Plan":
    """Read a plan from a JSON file.

    Raises:
        BadRequest: the file is unreadable or its content is invalid.
    """
    from chargehand import Plan

    return _validate(Plan, _text(str(file)), f"{file} is not a valid plan")


def _validate(
    kind: "type[Model]", value: dict[str, Any] | str, problem: str, options: Mapping[str, str] | None = None
) -> "Model":
    """Validate a value; errors name a field by its option if it was given as one."""
    from pydantic import ValidationError

    from chargehand.contracts.problems import describe_problems, join_problems

    try:
        return kind.model_validate_json(value) if isinstance(value, str) else kind.model_validate(value)
    except ValidationError as error:
        problems = (_by_option(each, options or {}) for each in describe_problems(error, kind))
        raise BadRequest(f"{problem}: {join_problems(problems)}") from error


def _by_option(problem: str, options: Mapping[str, str]) -> str:
    path, separator, what = problem.partition(": ")
    if path == "input":
        return re.sub(r"\w+", lambda word: options.get(word[0], word[0]), what)
    for field, option in options.items():
        if path == field or path.startswith(f"{field}."):
            return f"{option}{separator}{what}"
    return problem


def _dollars(typed: float | None) -> Decimal | None:
    return None if typed is None else Decimal(str(typed))


def read_json(source: str) -> dict[str, Any]:
    """Read a JSON object from a file, or from standard input for `-`.

    Raises:
        BadRequest: it is unreadable or not a JSON object.
    """
    try:
        fields = json.loads(_text(source))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{source} {parser_words(error) or f'is not JSON: {error}'}.") from error
    if not isinstance(fields, dict):
        raise BadRequest(f'{source} is not a JSON object such as {{"goal": "…"}}.')
    return cast("dict[str, Any]", fields)


def _text(source: str, most: int = -1) -> str:
    """Read a file, or standard input for `-`.

    Raises:
        BadRequest: it is unreadable.
    """
    from chargehand.contracts.problems import printable

    try:
        with ended_by_signals():
            return sys.stdin.read(most) if source == "-" else Path(source).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:  # unknown users in `~name`, and content that is not text
        reason = error.strerror if isinstance(error, OSError) else parser_words(error) or error
        raise BadRequest(f"{printable(source, _SHOWN_CHARACTERS)} cannot be read: {reason}.") from error
