"""Groups of options, as typer sees them."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from chargehand_cli.main import carry_out
from chargehand_cli.options import spread


@dataclass(frozen=True)
class _Plain:
    kept: str = "as it was"
    near: str | None = None


@dataclass(frozen=True)
class _Group(_Plain):
    near: Annotated[str | None, typer.Option(help="A place.")] = None
    name: Annotated[str | None, typer.Argument()] = None


def test_a_group_is_a_parameter_whose_options_are_the_commands_own() -> None:
    """What is declared as an option is read from the command line, and what is not keeps its value."""
    given: list[tuple[_Group, bool]] = []

    @spread
    def command(group: _Group, *, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
        given.append((group, loud))

    app = typer.Typer()
    app.command()(command)

    app(["here", "--near", "you", "--loud"], standalone_mode=False)
    app([], standalone_mode=False)

    assert given == [(_Group(near="you", name="here"), True), (_Group(), False)]


def test_every_theme_has_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """What users type stays what it is: help lists each command once, in the order of a session's life."""
    carry_out(["--help"])

    listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed if line.startswith("  ") and not line.startswith("   ")] == [
        *("run", "start", "status", "watch", "result", "cancel", "finish", "raise", "answer", "plan", "trace"),
        *("artifacts", "verify", "list", "replay", "doctor", "up", "codec-server", "clean"),
    ]
