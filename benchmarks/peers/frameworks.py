"""The compared frameworks: their packages, their programs, and the processes that run them."""

import asyncio
import json
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import processes

_PROGRAMS: Final = Path(__file__).resolve().parent / "programs"
_QUIET: Final = {
    "OPENAI_API_KEY": "scripted",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "LANGSMITH_TRACING": "false",
}
"""Prevents connections to anything other than the scripted provider."""
_LONGEST_SECONDS: Final = 120


@dataclass(frozen=True)
class Framework:
    """A framework and the versions installed for it."""

    name: str
    program: str
    packages: Sequence[str] = ()
    """Empty for Chargehand, which runs in the environment of the benchmark."""
    uses_server: bool = False
    """Whether the program is both a worker and a client of the Temporal server."""

    @property
    def lines(self) -> int:
        """Number of lines of the program, without blank lines."""
        return sum(bool(line.strip()) for line in (_PROGRAMS / f"{self.program}.py").read_text().splitlines())


CHARGEHAND: Final = Framework("Chargehand", "chargehand_job", uses_server=True)
FRAMEWORKS: Final = (
    CHARGEHAND,
    Framework(
        "LangGraph",
        "langgraph_job",
        ("langgraph==1.2.22", "langchain==1.4.7", "langchain-openai==1.7.3", "langgraph-checkpoint-sqlite==3.1.2"),
    ),
    Framework(
        "LangGraph on Temporal",
        "langgraph_temporal_job",
        ("temporalio-langgraph==0.1.0", "temporalio==1.35.0", "langgraph==1.2.22", "langchain-openai==1.7.3"),
        uses_server=True,
    ),
    Framework("OpenAI Agents SDK", "openai_agents_job", ("openai-agents==0.24.0",)),
    Framework(
        "OpenAI Agents SDK on Temporal",
        "openai_agents_temporal_job",
        ("temporalio-openai-agents==1.1.0", "temporalio==1.35.0", "openai-agents==0.22.3"),
        uses_server=True,
    ),
    Framework("Pydantic AI", "pydantic_ai_job", ("pydantic-ai-slim[openai]==2.68.0",)),
    Framework(
        "Pydantic AI on Temporal",
        "pydantic_ai_temporal_job",
        ("pydantic-ai-slim[openai,temporal]==2.68.0", "temporalio==1.35.0"),
        uses_server=True,
    ),
    Framework("CrewAI", "crewai_job", ("crewai==1.15.30",)),
    Framework(
        "deepagents",
        "deepagents_job",
        ("deepagents==0.7.32", "langchain-openai==1.7.3", "langgraph-checkpoint-sqlite==3.1.2"),
    ),
)


def install(framework: Framework, folder: Path) -> Path:
    """Create an environment for a framework; return its Python."""
    if not framework.packages:
        return Path(sys.executable)
    # The project's overrides exclude packages that the frameworks need.
    uv = [str(Path(sys.executable).parent / "uv"), "--no-config", "--quiet", "--directory", str(folder)]
    environment = folder / f"environment-{framework.program}"
    subprocess.run([*uv, "venv", "--python", sys.executable, str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "--python", str(python), *framework.packages], check=True)
    return python


class Program:
    """A framework's process, which runs one job after another."""

    def __init__(self, framework: Framework, python: Path, folder: Path, **settings: str) -> None:
        self.framework = framework
        self._python = python
        self._folder = folder / framework.program
        self._folder.mkdir()
        self._settings = _QUIET | settings
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    async def start(self) -> float:
        """Start the process; return the seconds until it accepts jobs."""
        started_at = time.perf_counter()
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._python,
                "-m",
                f"benchmarks.peers.programs.{self.framework.program}",
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=self._folder,
                env=processes.environment(PYTHONPATH=str(processes.ROOT), **self._settings),
            )
        await self._told()
        return time.perf_counter() - started_at

    async def run(self, job: str, cap: int | None = None) -> dict[str, str]:
        """Run a job; return its answer or its error."""
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"id": job, "cap": cap}).encode() + b"\n")
        return await self._told()

    async def kill(self) -> None:
        assert self._process
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _told(self) -> dict[str, str]:
        assert self._process
        assert self._process.stdout
        async with asyncio.timeout(_LONGEST_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            log = (self._folder / "log").read_text()[-2_000:]
            raise RuntimeError(f"The program of {self.framework.name} ended: {log}")
        return json.loads(line)
