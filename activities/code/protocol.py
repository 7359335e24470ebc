"""The boundary to a sandbox for code: what is run and what comes back, whoever runs it."""

from typing import Protocol

from chargehand.contracts import Contract


class Artefact(Contract):
    """Something other than text that the code made, such as a picture. Named, not kept."""

    name: str
    media_type: str


class CodeResult(Contract):
    """What running a piece of code came to."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""
    """The value of the last expression as text; empty if there is none."""
    error: str = ""
    """Why the code did not run to its end, for whoever wrote it; what it printed until then is kept."""
    artefacts: tuple[Artefact, ...] = ()


class CodeRunner(Protocol):
    """A sandbox. Faults of the code are results; `ApplicationError` is raised only for faults of the sandbox."""

    name: str
    """Names the sandbox to agents and in reports."""
    language: str
    """What the code may be, in a sentence or two, for agents."""

    async def run(self, code: str, name: str) -> CodeResult:
        """Run a piece of Python from a clean start; `name` tells it apart across attempts, for clean-up."""
        ...
