"""The tool `run_code`: a computation in a sandbox."""

import hashlib
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from activities.code.protocol import CodeResult, CodeRunner
from activities.models.protocol import ToolSpec
from activities.tools import ToolAnswer, ToolContext, failed
from chargehand.contracts import Source

_CODE_CHARACTERS: Final = 50_000
_PRINTED_CHARACTERS: Final = 5_000
_STDERR_CHARACTERS: Final = 1_000
_ERROR_CHARACTERS: Final = 1_500
_ARTEFACTS: Final = 10


class RunCode:
    """Runs code in one sandbox, and names it."""

    def __init__(self, runner: CodeRunner) -> None:
        self._runner = runner
        self.spec = ToolSpec(
            name="run_code",
            description=(
                "Run Python code to compute something. It starts clean each time, sees no documents and keeps nothing: "
                "write the data it needs into it. Print what you want to see; the value of the last expression is "
                f"given too. {runner.language}"
            ),
            parameters={
                "type": "object",
                "properties": {"code": {"type": "string", "description": "The whole program"}},
                "required": ["code"],
                "additionalProperties": False,
            },
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        code = arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            return failed("run_code needs `code`: the whole program, as text.")
        if len(code) > _CODE_CHARACTERS:
            return failed(f"The program is longer than {_CODE_CHARACTERS} characters; run a shorter one.")
        code = code.encode("utf-8", "replace").decode()
        return _answer(self._runner.name, code, await self._runner.run(code, context.idempotency_key))


def _answer(runner: str, code: str, result: CodeResult) -> ToolAnswer:
    output: dict[str, JsonValue] = {"sandbox": runner}
    if result.stderr:
        output["stderr"] = _cut(result.stderr, _STDERR_CHARACTERS)
    if result.artefacts:
        output["not_kept"] = [f"{made.name} ({made.media_type})" for made in result.artefacts[:_ARTEFACTS]]
    printed = _cut("\n".join(part for part in (result.stdout.rstrip("\n"), result.value) if part), _PRINTED_CHARACTERS)
    if result.error:
        # What a failing program printed is shown for mending it; it is no evidence.
        return ToolAnswer(ok=False, output={**output, "error": _end(result.error), "printed": printed})
    if not printed:
        return ToolAnswer(output={**output, "note": "The program printed nothing and has no value."})
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    return ToolAnswer(output=output, sources=(Source(ref=f"code:{digest}", title="Computed", quote=printed),))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters more]"


def _end(text: str) -> str:
    """Keep the end: a traceback says last what went wrong."""
    return text[-_ERROR_CHARACTERS:]
