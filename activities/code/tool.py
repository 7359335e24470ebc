"""The tool `run_code`: a computation in a sandbox, with the documents that it names."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from activities.code.protocol import ARTIFACTS, DOCUMENTS, CodeResult, CodeRunner, GivenFile
from activities.documents.artifacts import ArtifactError
from activities.documents.locations import DocumentSources, Found
from activities.tool_outputs import FileStore, store_outputs
from activities.tools import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext, ToolSpec, failed
from chargehand.contracts import Artifact, Capability, Source

_CODE_CHARACTERS: Final = 50_000
_PRINTED_CHARACTERS: Final = 4_500
_STDERR_CHARACTERS: Final = 800
_ERROR_CHARACTERS: Final = 1_500
_LEFT_OUT_CHARACTERS: Final = 400
_MOST_DOCUMENTS: Final = 20
_MOST_DOCUMENT_BYTES: Final = 20 * 1024 * 1024
_MOST_NAMES: Final = 30


class DocumentsNotGivenError(Exception):
    """The documents cannot be given to the code; the message says why, for the agent."""


class RunCode:
    """Runs code in one sandbox, and names it."""

    def __init__(self, runner: CodeRunner, store: FileStore, sources: DocumentSources | None = None) -> None:
        """Take the sandbox, the store for its files, and the source of its documents."""
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
                f"too. {self._file_rules()} {runner.language}"
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
        artifacts, left_out = await store_outputs(self._store, result.files)
        return _answer(self._runner.name, code, result, artifacts, (*result.left_out, *left_out))

    def _file_rules(self) -> str:
        if not self._runner.handles_files:
            return "It sees no documents and can save no files."
        rules = f"Pictures that it shows, and files that it saves in the folder `{ARTIFACTS}`, are kept for the user."
        if self._sources is None:
            return f"It sees no documents. {rules}"
        return f"Documents that you name are in the folder `{DOCUMENTS}`; it sees no others. {rules}"


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


@asynccontextmanager
async def given_files(
    sources: DocumentSources, documents: tuple[str, ...], names: Sequence[str]
) -> AsyncGenerator[tuple[GivenFile, ...]]:
    """Copy the named documents to this host until the block ends. Raises `DocumentsNotGivenError`."""
    if not names:
        yield ()
        return
    listing = await sources.find(documents)
    chosen = _chosen({file.name: file for file in listing.files}, names)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="chargehand-code-"))
    try:
        yield await asyncio.to_thread(_fetched, sources, chosen, folder)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _chosen(known: dict[str, Found], names: Sequence[str]) -> list[Found]:
    if unknown := [name for name in names if name not in known]:
        there = ", ".join(list(known)[:_MOST_NAMES]) or "none"
        raise DocumentsNotGivenError(f"There is no document '{unknown[0]}'. There are: {there}.")
    chosen = [known[name] for name in dict.fromkeys(names)]
    for file in chosen:
        if file.problem:
            raise DocumentsNotGivenError(f"{file.name} cannot be given to the code. {file.problem}")
    if sum(file.bytes for file in chosen) > _MOST_DOCUMENT_BYTES:
        raise DocumentsNotGivenError(
            f"Documents for one program may have {_MOST_DOCUMENT_BYTES // 2**20} MB together: give it fewer."
        )
    return chosen


def _fetched(sources: DocumentSources, chosen: Sequence[Found], folder: Path) -> tuple[GivenFile, ...]:
    given: list[GivenFile] = []
    for number, file in enumerate(chosen):
        try:
            given.append(GivenFile(file.name, sources.fetch(file, folder / str(number))))
        except (ArtifactError, OSError) as error:
            raise DocumentsNotGivenError(f"{file.name} can no longer be read.") from error
    return tuple(given)


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
        # What a failing program printed helps to fix it, but is not evidence.
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
    """Keep the end, where a traceback states the error."""
    return text[-_ERROR_CHARACTERS:]
