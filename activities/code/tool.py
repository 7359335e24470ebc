"""The tool `run_code`: a computation in a sandbox."""

import hashlib
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from activities.code.input_files import DocumentsNotGivenError, given_files
from activities.code.protocol import ARTIFACTS, DOCUMENTS, CodeResult, CodeRunner
from activities.documents.locations import DocumentSources
from activities.models.protocol import ToolSpec
from activities.tool_outputs import FileStore, keep
from activities.tools import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext, failed
from chargehand.contracts import Artifact, Capability, Source

_CODE_CHARACTERS: Final = 50_000
_PRINTED_CHARACTERS: Final = 4_500
_STDERR_CHARACTERS: Final = 800
_ERROR_CHARACTERS: Final = 1_500
_LEFT_OUT_CHARACTERS: Final = 400
_MOST_DOCUMENTS: Final = 20


class RunCode:
    """Runs code in one sandbox, and names it."""

    def __init__(self, runner: CodeRunner, store: FileStore, sources: DocumentSources | None = None) -> None:
        """Take the sandbox, where the files that it makes are kept, and where documents for it come from."""
        self._runner = runner
        self._store = store
        self._sources = sources if runner.handles_files else None
        reads = READS_DOCUMENTS if self._sources else frozenset[Capability]()
        self.capabilities: frozenset[Capability] = reads | (READS_THE_WEB if runner.reaches_out else frozenset())
        self.spec = ToolSpec(
            name="run_code",
            description=(
                "Run Python code to compute something, be it one line of arithmetic. It starts clean each time: write "
                "the data it needs into it. Print what you want to see; the value of the last expression is given "
                f"too. {self._told_of_files()} {runner.language}"
            ),
            parameters={
                "type": "object",
                "properties": {
                    "code": {"type": "string", "description": "The whole program"},
                    **(_DOCUMENTS_PARAMETER if self._sources else {}),
                },
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
        names = _names(arguments.get("documents"))
        if names is None:
            return failed(f"`documents` is a list of at most {_MOST_DOCUMENTS} names of documents.")
        if self._sources is None:
            result = await self._runner.run(code, context.idempotency_key)
        else:
            try:
                async with given_files(self._sources, context.documents, names) as files:
                    result = await self._runner.run(code, context.idempotency_key, files)
            except DocumentsNotGivenError as error:
                return failed(str(error))
        artifacts, left_out = await keep(self._store, result.files)
        return _answer(self._runner.name, code, result, artifacts, (*result.left_out, *left_out))

    def _told_of_files(self) -> str:
        if not self._runner.handles_files:
            return "It sees no documents and can save no files."
        told = f"Pictures that it shows, and files that it saves in the folder `{ARTIFACTS}`, are kept for the user."
        if self._sources is None:
            return f"It sees no documents. {told}"
        return f"Documents that you name are in the folder `{DOCUMENTS}`; it sees no others. {told}"


_DOCUMENTS_PARAMETER: Final[dict[str, JsonValue]] = {
    "documents": {
        "type": "array",
        "items": {"type": "string"},
        "description": f"Names of the documents that the program reads, as `{DOCUMENTS}/NAME`; none by default",
    }
}


def _names(documents: JsonValue) -> list[str] | None:
    if documents is None:
        return []
    if not isinstance(documents, list) or len(documents) > _MOST_DOCUMENTS:
        return None
    names = [name for name in documents if isinstance(name, str)]
    return names if len(names) == len(documents) else None


def _answer(
    runner: str, code: str, result: CodeResult, artifacts: tuple[Artifact, ...], left_out: tuple[str, ...]
) -> ToolAnswer:
    output: dict[str, JsonValue] = {"sandbox": runner}
    if result.stderr:
        output["stderr"] = _cut(result.stderr, _STDERR_CHARACTERS)
    if artifacts:
        output["kept_for_the_user"] = [f"{made.name} ({made.media_type})" for made in artifacts]
    if left_out:
        output["not_kept"] = _cut("; ".join(left_out), _LEFT_OUT_CHARACTERS)
    printed = _cut("\n".join(part for part in (result.stdout.rstrip("\n"), result.value) if part), _PRINTED_CHARACTERS)
    if result.error:
        # What a failing program printed is shown for mending it; it is no evidence.
        output |= {"error": _end(result.error), "printed": printed}
        return ToolAnswer(ok=False, output=output, artifacts=artifacts)
    if not printed:
        note = "The program printed nothing and has no value."
        return ToolAnswer(output={**output, "note": note}, artifacts=artifacts)
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    source = Source(ref=f"code:{digest}", title="Computed", quote=printed)
    return ToolAnswer(output=output, sources=(source,), artifacts=artifacts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters more]"


def _end(text: str) -> str:
    """Keep the end: a traceback says last what went wrong."""
    return text[-_ERROR_CHARACTERS:]
