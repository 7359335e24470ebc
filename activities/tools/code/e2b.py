"""Code execution in E2B: full Python in a remote virtual machine. The SDK is imported at the first run."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from activities.tools.code.e2b_limits import E2BLimits
from activities.tools.code.protocol import CodeResult, GivenFile, Language, Rows

if TYPE_CHECKING:
    from e2b.connection_config import ApiParams


_DEFAULT_LIMITS: Final = E2BLimits()


class E2BRunner:
    """Runs each piece of code in a separate sandbox, which is always ended afterwards.

    A sandbox is labelled with the call's name, which lets the next attempt end the sandbox of a crashed worker. Raises
    `ApplicationError` of type `RateLimited` or `ToolUnavailable`.
    """

    name = "e2b"
    languages: tuple[Language, ...] = ("python", "javascript")
    handles_files = True

    def __init__(
        self,
        api_key: str,
        *,
        domain: str | None = None,
        api_url: str | None = None,
        sandbox_url: str | None = None,
        internet: bool = False,
        limits: E2BLimits = _DEFAULT_LIMITS,
    ) -> None:
        """Take the key, and for a self-hosted service its domain or the URLs of its two halves."""
        if not api_key.strip():
            raise ValueError("an E2B sandbox needs an API key")
        self._limits = limits
        self._internet = internet
        self.reaches_out = internet
        self.language = (
            "It is full Python 3 with numpy, pandas, scipy, scikit-learn, sympy and matplotlib, "
            f"{'with' if internet else 'without'} internet, for at most {limits.execution.total_seconds():g} seconds. "
            "JavaScript runs in Deno, within the same limits."
        )
        self._options: ApiParams = {
            "api_key": api_key.strip(),
            "domain": domain,
            "api_url": api_url,
            "sandbox_url": sandbox_url,
            "request_timeout": limits.request.total_seconds(),
            "retries": 0,  # Temporal retries
            "debug": False,  # would leave sandboxes running
        }

    async def run(
        self,
        code: str,
        name: str,
        files: Sequence[GivenFile] = (),
        rows: Rows | None = None,
        language: Language = "python",
    ) -> CodeResult:
        await asyncio.to_thread(import_module, f"{__package__}.e2b_sandbox")  # takes 1.4 s, so not on the event loop
        from activities.tools.code.e2b_sandbox import SandboxRun

        run = SandboxRun(self._options, self._limits, name, self._internet)
        return await run.run(code, files, rows, language)
