"""Create projects, and write and check crews: `init`, `crew new`, `crew check` and `crew show`."""

import asyncio
import json
import re
from collections.abc import Callable
from importlib import import_module, resources
from pathlib import Path
from typing import Annotated, Final

import typer

from chargehand.errors import MissingExtra
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit, put, put_check, put_json, say
from chargehand_cli.verb import LOCAL, AsJson, verb
from chargehand_plugins.operations.worker_program import Checked, check

app = typer.Typer()
_crew = typer.Typer(name="crew", help="Write, check and show crews.", no_args_is_help=True)
app.add_typer(_crew)

_WORKER: Final = "chargehand_worker"


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Folder to create, and name of the crew: my-crew.")],
) -> None:
    """Create a project: a crew, a tool, a test with a scripted model, and files to deploy it."""
    try:
        project = import_module(f"{_WORKER}.project")
    except ModuleNotFoundError as error:
        if error.name != _WORKER:
            raise
        raise MissingExtra("The worker, which has the templates,", "worker") from None
    try:
        files: list[Path] = project.create(Path(name))
    except FileExistsError:
        raise BadRequest(f"{name} exists already; choose another name.") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"{name} cannot be made: {problem}") from error
    for file in files:
        put(str(file))
    say(f"Next: {Path(name) / 'README.md'}")


@_crew.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the crew, in lower case.")],
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where to write NAME.toml.")] = Path(),
) -> None:
    """Write a crew file to start from."""
    from chargehand.contracts.base import NAME

    if not re.fullmatch(NAME, name):
        raise BadRequest(f"'{one_safe_line(name, 60)}' is not a crew name: use a-z, 0-9, '_' and '-', 40 at most.")
    file = folder / f"{name}.toml"
    template = resources.files(__package__ or "").joinpath("crew.toml").read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(template.replace('"NAME"', f'"{name}"'))
    except FileExistsError:
        raise BadRequest(f"{file} exists already; choose another name.") from None
    except OSError as error:
        raise BadRequest(f"{file} cannot be written: {error.strerror}") from error
    put(f"{file}")
    say(f"Change it, then run `chargehand crew check {file}`.")


@verb(_crew, "check", location=LOCAL)
async def check_file(
    connection: Connection,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A crew file.")],
    *,
    as_json: AsJson = False,
) -> Exit:
    """Check a crew file against the tools of this installation. Exits with 1 if it cannot be used."""
    if not await asyncio.to_thread(file.is_file):
        raise BadRequest(f"{file} is not a file.")
    results = await _results(connection, await asyncio.to_thread(file.resolve), show=None if as_json else _put_check)
    return Exit.FAILED if any(each["problem"] for each in results) else Exit.DONE


@verb(_crew, location=LOCAL)
async def show(
    connection: Connection,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A crew; all of them if absent.")] = "",
    *,
    as_json: AsJson = False,
) -> Exit:
    """Show the crews of this installation, or one of them with its agents."""
    results = await _results(connection, Path(), show=lambda _: None)
    crews = {each["crew"]["name"]: each["crew"] for each in results if each["crew"]}
    for broken in (each for each in results if each["problem"]):
        say(f"✘ {one_safe_line(broken['file'], 300)}: {one_safe_line(broken['problem'], 600)}")
    if name and name not in crews:
        raise BadRequest(f"There is no crew '{one_safe_line(name, 60)}'; there are {', '.join(sorted(crews))}.")
    if as_json:
        put_json(json.dumps(crews[name] if name else [*crews.values()], indent=1))
    elif name:
        _put_crew(crews[name])
    else:
        for crew, facts in sorted(crews.items()):
            put(f"{crew:<24} {len(facts['agents'])} agent(s)  {one_safe_line(facts['description'], 200)}")
    return Exit.DONE


async def _results(connection: Connection, file: Path, show: Callable[[Checked], None] | None) -> list[Checked]:
    worker = connection.location.require_worker("check crews with")
    return await check(worker, "--crews", file, {}, show=show)


def _put_check(result: Checked) -> None:
    put_check(one_safe_line(result["file"], 300), result["problem"])
    for warning in result["warnings"]:
        put(f"  warning: {one_safe_line(warning, 600)}")


def _put_crew(crew: Checked) -> None:
    example = f" “{crew['example']}”" if crew["example"] else ""
    put(f"{crew['name']}: {one_safe_line(crew['description'] + example, 1_000)}")
    for agent in crew["agents"]:
        tools = ", ".join(agent["tools"]) or "no tools"
        fallback = f", fallback {agent['fallback']}" if agent["fallback"] else ""
        facts = f"{agent['tier']} tier, {tools}{fallback}"
        put(f"  {agent['name']:<16} {one_safe_line(facts, 200)}")
        put(f"  {'':<16} {one_safe_line(agent['description'], 500)}")
