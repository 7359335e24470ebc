"""Options that several commands have, and how a command takes a whole group of them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Annotated, get_origin, get_type_hints

import typer

from chargehand_cli.location import Wishes

AsJson = Annotated[bool, typer.Option("--json", help="Put out JSON and nothing else on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]


@dataclass(frozen=True)
class Here(Wishes):
    """Options of a command that works on this machine."""

    application: Annotated[
        Path | None,
        typer.Option(help="Checkout whose worker the embedded server runs (CHARGEHAND_APPLICATION)."),
    ] = None
    state: Annotated[
        Path | None,
        typer.Option("--state-dir", help="Where sessions and files are kept (CHARGEHAND_STATE_DIR)."),
    ] = None
    task_queue: Annotated[str | None, typer.Option(help="Task queue of the workers (CHARGEHAND_TASK_QUEUE).")] = None


@dataclass(frozen=True)
class Where(Here):
    """Options of a command that works on a server."""

    address: Annotated[
        str | None,
        typer.Option(
            help="Temporal server, HOST:PORT. Without it TEMPORAL_ADDRESS, Temporal's profiles, or an embedded server."
        ),
    ] = None


@dataclass(frozen=True)
class WhereFilesAre(Where):
    """Options of a command that also writes or reads what workers keep beside the server."""

    artifacts: Annotated[
        Path | None,
        typer.Option(
            help="Directory, s3://BUCKET or gs://BUCKET that the server's workers share with this machine, for "
            "documents and for the files that agents make (CHARGEHAND_ARTIFACTS)."
        ),
    ] = None


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Have typer see each option of a parameter that is a group of them, a dataclass, as one of the command's own."""
    parameters = inspect.signature(command).parameters
    kinds: dict[str, type] = {
        name: each.annotation for name, each in parameters.items() if isinstance(each.annotation, type)
    }
    groups = {name: _options(kind) for name, kind in kinds.items() if is_dataclass(kind)}

    def with_groups(**given: object) -> None:
        for name, options in groups.items():
            given[name] = kinds[name](**{option: given.pop(option) for option in options})
        command(**given)

    shown: dict[str, inspect.Parameter] = {}
    for name, each in parameters.items():
        shown |= groups.get(name) or {name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY)}
    update_wrapper(with_groups, command)
    with_groups.__annotations__ = {name: each.annotation for name, each in shown.items()}
    with_groups.__signature__ = inspect.Signature([*shown.values()])  # pyright: ignore[reportFunctionMemberAccess]  # what inspect looks for
    return with_groups


def _options(group: type) -> Mapping[str, inspect.Parameter]:
    """Describe the fields that are declared as options, in their order."""
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
        if get_origin(hints[field.name]) is Annotated
    }
