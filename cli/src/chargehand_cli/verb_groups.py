"""The list of verbs in `chargehand --help`, under a heading for each use, with those of plug-ins."""

from typing import TYPE_CHECKING, Final

import typer.main
from typer.core import TyperGroup

from chargehand.errors import MissingExtra
from chargehand.plugins import PluginError, installed
from chargehand_cli.terminal import say

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

_EXTRAS: Final = {
    **dict.fromkeys(("advise", "clean", "crew", "doctor", "replay", "setup", "tape"), "cli"),
    **dict.fromkeys(("codec-server", "console"), "console"),
    "mcp": "mcp",
}
"""The extra that brings a verb of a plug-in that comes with Chargehand."""


class VerbGroups(TyperGroup):
    """Lists its commands by their `rich_help_panel`, as plain text: rich takes half a second to load.

    Plug-ins are asked when all verbs are listed, or for one that the core does not have.
    """

    has_plugins = False

    def list_commands(self, ctx: "Context") -> list[str]:
        """List the verbs of the core, and those of plug-ins."""
        self.add_plugin_verbs()
        return super().list_commands(ctx)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Find a verb; one that a missing plug-in would have is named with its extra."""
        if cmd_name not in self.commands:
            self.add_plugin_verbs()
        if cmd_name not in self.commands and cmd_name in _EXTRAS:
            raise MissingExtra(f"`chargehand {cmd_name}`", _EXTRAS[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write a section for each heading, in the order of the first command under it."""
        sections: dict[str, list[tuple[str, str]]] = {}
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        for name in names:
            command = self.commands[name]
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None) or "Commands"
                sections.setdefault(heading, []).append((name, command.get_short_help_str(width)))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def add_plugin_verbs(self) -> None:
        """Add the verbs of plug-ins, once; one that cannot be used is named on standard error."""
        if self.has_plugins:
            return
        self.has_plugins = True
        plugins = installed()
        for problem in plugins.problems:
            say(f"Warning: {problem}")
        for extension in plugins.verbs:
            try:
                family = extension.load(typer.Typer)
            except PluginError as error:
                say(f"Warning: {error}")
                continue
            for name, command in typer.main.get_group(family).commands.items():
                command.rich_help_panel = extension.name  # pyright: ignore[reportAttributeAccessIssue]  # of Typer's own
                self.commands.setdefault(name, command)
