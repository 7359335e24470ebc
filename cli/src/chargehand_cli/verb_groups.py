"""The list of verbs in `chargehand --help`, under a heading for each use."""

from typing import TYPE_CHECKING

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context
    from typer._click.formatting import HelpFormatter


class VerbGroups(TyperGroup):
    """Lists its commands by their `rich_help_panel`, as plain text: rich takes half a second to load."""

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002  # typer's own signature
        """Write a section for each heading, in the order of the first command under it."""
        sections: dict[str, list[tuple[str, str]]] = {}
        width = formatter.width - 6 - max(map(len, self.commands))
        for name, command in self.commands.items():
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None) or "Commands"
                sections.setdefault(heading, []).append((name, command.get_short_help_str(width)))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
