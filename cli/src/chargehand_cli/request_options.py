"""A request as it was typed: its fields are the options of the commands that begin a session."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from chargehand.errors import ChargehandError


class BadRequest(ChargehandError):  # noqa: N818  # reads as a statement: `except BadRequest`
    """The request cannot be used; the message names each field."""


@dataclass(frozen=True)
class Typed:
    """A request as options give it; None is what was not typed."""

    goal: Annotated[str | None, typer.Argument(metavar="GOAL", help="What you want to know or have done.")] = None
    docs: Annotated[
        list[Path] | None, typer.Option("--docs", "-d", help="A document or folder to work on; may be repeated.")
    ] = None
    input: Annotated[
        str | None, typer.Option(metavar="FILE", help="A request as JSON from a file, or - for standard input.")
    ] = None
    crew: Annotated[str | None, typer.Option(help="The crew that does the work.", show_default="research")] = None
    id: Annotated[
        str | None,
        typer.Option(help="Id of the session. If it exists already, that one is taken instead of a new one."),
    ] = None
    approve_plan: Annotated[
        bool, typer.Option("--approve-plan", help="Wait for `chargehand plan SESSION --approve`.")
    ] = False
    budget: Annotated[float | None, typer.Option(help="US dollars.", show_default="2.00")] = None
    turns: Annotated[int | None, typer.Option(help="Model calls.", show_default="20")] = None
    deadline: Annotated[str | None, typer.Option(help="90s, 10m, 2h or ISO 8601.", show_default="10m")] = None
    parallel: Annotated[int | None, typer.Option(help="Subtasks at the same time.", show_default="5")] = None
    depth: Annotated[int | None, typer.Option(help="Delegations deep.", show_default="5")] = None
    attempts: Annotated[int | None, typer.Option(help="Tries at a subtask.", show_default="3")] = None
    rounds: Annotated[int | None, typer.Option(help="Rounds of an agent.", show_default="10")] = None
    subtask_deadline: Annotated[
        str | None, typer.Option(help="Time of one attempt at a subtask.", show_default="5m")
    ] = None
    on_limit: Annotated[
        Literal["finish", "pause"] | None,
        typer.Option(help="At a limit, write the report, or wait for `chargehand raise`.", show_default="finish"),
    ] = None
    review: Annotated[
        Literal["auto", "always", "never"] | None,
        typer.Option(help="Have a judge look at the outcomes and a critic at the report.", show_default="auto"),
    ] = None
    questions: Annotated[
        bool, typer.Option("--questions", help="Let an agent ask you what an unclear instruction means.")
    ] = False
    answer_within: Annotated[
        str | None, typer.Option(help="How long a question waits before the work goes on.", show_default="5m")
    ] = None
    urgency: Annotated[
        Literal["now", "batch"] | None,
        typer.Option(help="`batch`: hours, at half the price, where the provider offers that.", show_default="now"),
    ] = None
