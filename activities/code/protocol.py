"""The boundary to a sandbox for code: what is run and what comes back, whoever runs it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from activities.tool_outputs import MadeFile
from chargehand.contracts import Contract

DOCUMENTS: Final = "documents"
"""The folder beside the program that holds the documents it was given."""
ARTIFACTS: Final = "artifacts"
"""The folder beside the program whose files are kept for the user."""


class GivenFile(NamedTuple):
    """A document that the code may read."""

    name: str
    """Relative path below `documents/`."""
    path: Path
    """Where its content lies on this host."""


class CodeResult(Contract):
    """What running a piece of code came to."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""
    """The value of the last expression as text; empty if there is none."""
    error: str = ""
    """Why the code did not run to its end, for whoever wrote it; what it printed until then is kept."""
    files: tuple[MadeFile, ...] = ()
    """Figures, and what it saved in `artifacts/`."""
    left_out: tuple[str, ...] = ()
    """`name: reason` for files that were not brought back."""


class CodeRunner(Protocol):
    """A sandbox. Faults of the code are results; `ApplicationError` is raised only for faults of the sandbox."""

    name: str
    """Names the sandbox to agents and in reports."""
    language: str
    """What the code may be, in a sentence or two, for agents."""
    handles_files: bool
    """Whether it can be given documents and brings files back."""
    reaches_out: bool
    """Whether code in it can talk to the outside."""

    async def run(self, code: str, name: str, files: Sequence[GivenFile] = ()) -> CodeResult:
        """Run a piece of Python from a clean start; `name` tells it apart across attempts, for clean-up."""
        ...
