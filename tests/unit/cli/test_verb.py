"""Verbs: their options as typer sees them, and the list of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Annotated

import pytest
import typer

from chargehand.plugins import Registry
from chargehand_cli.connection import Connection
from chargehand_cli.main import execute
from chargehand_cli.terminal import Exit
from chargehand_cli.verb import LOCAL, verb
from chargehand_cli.verbs import GROUPS


@dataclass(frozen=True)
class _Group:
    near: Annotated[str | None, typer.Option(help="A place.")] = None
    name: Annotated[str | None, typer.Argument()] = None
    kept: str = "as it was"


def test_a_verb_is_declared_as_one_function() -> None:
    """Fields of an annotated group become options, location options go to the connection; it returns the exit code."""
    given: list[tuple[_Group, bool, object]] = []
    app = typer.Typer()

    @verb(app, location=LOCAL)
    async def look(
        connection: Connection, group: _Group, *, loud: Annotated[bool, typer.Option("--loud")] = False
    ) -> Exit:
        given.append((group, loud, connection._options))  # pyright: ignore[reportPrivateUsage]  # what the verb was given
        return Exit.PARTIAL if loud else Exit.DONE

    codes = [app(arguments, standalone_mode=False) for arguments in (["here", "--near", "you", "--loud"], [])]
    with pytest.raises(SystemExit) as refused:
        app(["--address", "t:7233"])

    assert codes == [Exit.PARTIAL, None]
    assert [each[:2] for each in given] == [(_Group("you", "here"), True), (_Group(), False)]
    assert refused.value.code == 2


def test_help_lists_each_verb_once_under_its_heading(
    capsys: pytest.CaptureFixture[str], install: Callable[..., None]
) -> None:
    install()
    execute(["--help"])

    verbs, headings = _listed(capsys)
    registered = [
        registration.name
        for family in chain.from_iterable(GROUPS.values())
        for registration in (*family.registered_commands, *family.registered_groups)
    ]
    assert headings == [*GROUPS]
    assert verbs == [name for name in registered if name]
    assert len(set(verbs)) == len(verbs)


def test_plugin_verbs_are_listed_below_core_verbs(
    capsys: pytest.CaptureFixture[str], install: Callable[..., None]
) -> None:
    install(shop=f"{__name__}:register_shop", ruin=f"{__name__}:register_ruin")
    shown = execute(["--help"])

    said = capsys.readouterr()
    assert shown == Exit.DONE
    assert re.search(r"^Operate:\n(?:  .*\n)*  sell +Sell\.$", said.out, re.MULTILINE), said.out
    assert "The plug-in 'ruin': no_such_module:app cannot be imported" in said.err
    assert execute(["sell"]) == Exit.DONE


def test_a_missing_plugin_verb_or_format_names_the_extra_to_install(
    capsys: pytest.CaptureFixture[str], install: Callable[..., None]
) -> None:
    """This is checked when it is used, before connecting; an unknown format lists the available ones."""
    install()
    calls = (["console"], *(["report", "any", "--to", f"launch.{ending}"] for ending in ("docx", "odt")))
    codes = [execute(call) for call in (*calls, ["trace", "any", "--format", "otlp"])]

    said = " ".join(capsys.readouterr().err.split())
    assert codes == [Exit.BAD_INPUT] * 4
    assert "`chargehand console` is not installed: pip install 'chargehand[console]'." in said
    assert "The format otlp is not installed: pip install 'chargehand[cli]'." in said
    assert "The format docx is not installed: pip install 'chargehand[docx]'." in said
    assert "'odt' is not a format of this verb: add --format html|md|json." in said


def _listed(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    listed = capsys.readouterr().out.partition("\n\nRun:\n")[2]
    headings = ["Run", *re.findall(r"^(\S.*):$", listed, re.MULTILINE)]
    return re.findall(r"^  (\S+)", listed, re.MULTILINE), headings


def register_shop(registry: Registry) -> None:
    registry.verbs("Operate", f"{__name__}:shop")


def register_ruin(registry: Registry) -> None:
    registry.verbs("Operate", "no_such_module:app")


shop = typer.Typer()


@shop.command()
def sell() -> None:
    """Sell."""
