"""The interface of a sandbox for code: what it runs and what it returns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pydantic import JsonValue

from activities.tools.outputs import ToolOutput
from chargehand.contracts import Contract

DOCUMENTS: Final = "documents"
"""The folder beside the program that holds the documents it was given."""
ARTIFACTS: Final = "artifacts"
"""The folder beside the program whose files are kept for the user."""

ROWS: Final = "rows"
"""The variable that holds the rows of the query that a program was given."""
Language: TypeAlias = Literal["python", "javascript"]
Rows: TypeAlias = Sequence[Mapping[str, JsonValue]]
"""Rows of a query, each a mapping from column names."""


class GivenFile(NamedTuple):
    """A document that the code may read."""

    name: str
    """Relative path below `documents/`."""
    path: Path
    """The path of the file's content on this host."""


class CodeResult(Contract):
    """The result of running a piece of code."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""
    """The value of the last expression as text; empty if there is none."""
    error: str = ""
    """Why the code did not finish, for the agent that wrote it; its output up to that point is kept."""
    files: tuple[ToolOutput, ...] = ()
    """Figures, and what it saved in `artifacts/`."""
    left_out: tuple[str, ...] = ()
    """`name: reason` for files that were not returned."""


@runtime_checkable
class CodeRunner(Protocol):
    """A sandbox. Faults of the code are results; only faults of the sandbox raise `ApplicationError`."""

    name: str
    """Shown to agents and in reports."""
    languages: tuple[Language, ...]
    """What the code may be written in, Python first."""
    language: str
    """What the code may use, in a few sentences, for agents."""
    handles_files: bool
    """Whether it accepts documents and returns files."""
    reaches_out: bool
    """Whether code in it has network access."""

    async def run(
        self,
        code: str,
        name: str,
        files: Sequence[GivenFile] = (),
        rows: Rows | None = None,
        language: Language = "python",
    ) -> CodeResult:
        """Run a piece of code in a fresh environment; `rows`, if given, is a variable of that name.

        `name` identifies the call across attempts, for clean-up.
        """
        ...
