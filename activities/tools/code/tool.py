"""The tool `run_code`: a computation in a sandbox, with the rows of a query and the documents that it names."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from activities.contracts.tool import READS_DOCUMENTS, READS_THE_WEB, ToolAnswer, ToolContext, ToolSpec, object_schema
from activities.documents.artifacts import ArtifactError, Artifacts
from activities.documents.library import DocumentLibrary
from activities.documents.locations import DocumentFile, DocumentSources
from activities.documents.names import UnknownDocumentError, document_named
from activities.tools.code.protocol import ARTIFACTS, DOCUMENTS, ROWS, CodeResult, CodeRunner, GivenFile, Language, Rows
from activities.tools.data.query import rows_for_program
from activities.tools.outputs import store_outputs
from chargehand.contracts import Artifact, Capability, Source
from chargehand.tools import failed

_CODE_CHARACTERS: Final = 50_000
_PRINTED_CHARACTERS: Final = 4_500
_STDERR_CHARACTERS: Final = 800
_ERROR_CHARACTERS: Final = 1_500
_LEFT_OUT_CHARACTERS: Final = 400
_MOST_DOCUMENTS: Final = 20
_MOST_DOCUMENT_BYTES: Final = 20 * 1024 * 1024


class DocumentsNotGivenError(Exception):
    """The documents cannot be given to the code; the message says why, for the agent."""


class RunCode:
    """Runs code in one sandbox."""

    def __init__(self, runner: CodeRunner, store: Artifacts, library: DocumentLibrary | None = None) -> None:
        """Take the sandbox, the store for its files, and the session's documents and tables."""
        self._runner = runner
        self._store = store
        self._library = library
        self._sources = library.sources if library and runner.handles_files else None
        reads = READS_DOCUMENTS if library else frozenset[Capability]()
        self.capabilities: frozenset[Capability] = reads | (READS_THE_WEB if runner.reaches_out else frozenset())
        bare = self._describe(has_documents=False)
        self.spec = self._describe(has_documents=True).replace(without_documents=bare)

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        if problem := _problem(arguments):
            return failed(problem)
        wanted = arguments.get("language", "python")
        chosen: list[Language] = [each for each in self._runner.languages if each == wanted]
        if not chosen:
            return failed(f"`language` must be one of {', '.join(self._runner.languages)}.")
        code = str(arguments["code"]).encode("utf-8", "replace").decode()
        sql = str(arguments.get("sql") or "")
        rows = await self._rows(sql, context)
        if isinstance(rows, str):
            return failed(f"`sql`: {rows}")
        names = _names(arguments.get("documents")) or []
        try:
            async with given_files(self._sources, context.documents, names) as files:
                result = await self._runner.run(code, context.idempotency_key, files, rows, chosen[0])
        except DocumentsNotGivenError as error:
            return failed(str(error))
        artifacts, left_out = await store_outputs(self._store, result.files)
        digest = hashlib.sha256(
            "\0".join(filter(None, (code, sql, "" if wanted == "python" else chosen[0]))).encode()
        ).hexdigest()[:12]
        return _answer(f"code:{digest}", result, artifacts, (*result.left_out, *left_out))

    async def _rows(self, sql: str, context: ToolContext) -> Rows | str | None:
        """Return the rows for the program, None without a query, or what is wrong with the query."""
        if not sql.strip() or self._library is None:
            return None
        return await rows_for_program(await self._library.open(context.documents), sql)

    def _describe(self, *, has_documents: bool) -> ToolSpec:
        languages, sources = self._runner.languages, self._sources if has_documents else None
        has_tables = has_documents and self._library is not None
        return ToolSpec(
            name="run_code",
            own_step=True,
            description=(
                f"Run {_NAMES[languages]}; each run starts clean. You see what it prints, and its last "
                f"expression. {_row_rules(has_tables=has_tables)}"
                f"{self._file_rules(sees_documents=sources is not None)}{self._runner.language}"
            ),
            parameters=object_schema(
                code={"type": "string"},
                **({"language": {"type": "string", "enum": list[JsonValue](languages)}} if len(languages) > 1 else {}),
                **({"sql": _SQL_PARAMETER} if has_tables else {}),
                **({"documents": _DOCUMENTS_PARAMETER} if sources else {}),
            ),
        )

    def _file_rules(self, *, sees_documents: bool) -> str:
        if not self._runner.handles_files:
            return ""
        rules = f"Pictures that it shows, and files that it saves in the folder `{ARTIFACTS}`, are kept for the user. "
        if not sees_documents:
            return f"It sees no documents. {rules}"
        return f"Documents that you name are in the folder `{DOCUMENTS}`; it sees no others. {rules}"


def _row_rules(*, has_tables: bool) -> str:
    if not has_tables:
        return ""
    return (
        f"`{ROWS}` holds the rows of `sql` over the user's tables, dicts with dates as ISO text: copy no data into the "
        "code. "
    )


_NAMES: Final[dict[tuple[Language, ...], str]] = {
    ("python",): "Python",
    ("python", "javascript"): "Python or JavaScript",
}
_SQL_PARAMETER: Final[dict[str, JsonValue]] = {"type": "string", "description": "One SELECT (DuckDB), or empty."}
_DOCUMENTS_PARAMETER: Final[dict[str, JsonValue]] = {
    "type": "array",
    "items": {"type": "string"},
    "description": f"Names of the documents that the program reads, as `{DOCUMENTS}/NAME`.",
}


def _problem(arguments: Mapping[str, JsonValue]) -> str:
    """Describe which argument is wrong; empty if none is."""
    code = arguments.get("code")
    if not isinstance(code, str) or not code.strip():
        return "`code` must be the whole program, as text."
    if len(code) > _CODE_CHARACTERS:
        return f"`code` is longer than {_CODE_CHARACTERS:,} characters: run a shorter program."
    if not isinstance(arguments.get("sql") or "", str):
        return "`sql` must be one SELECT statement, or an empty string."
    if _names(arguments.get("documents")) is None:
        return f"`documents` must be a list of at most {_MOST_DOCUMENTS} names of documents."
    return ""


def _names(documents: JsonValue) -> list[str] | None:
    if documents is None:
        return []
    if not isinstance(documents, list) or len(documents) > _MOST_DOCUMENTS:
        return None
    names = [name for name in documents if isinstance(name, str)]
    return names if len(names) == len(documents) else None


@asynccontextmanager
async def given_files(
    sources: DocumentSources | None, documents: tuple[str, ...], names: Sequence[str]
) -> AsyncGenerator[tuple[GivenFile, ...]]:
    """Copy the named documents to this host until the block ends. Raises `DocumentsNotGivenError`."""
    if not names or sources is None:
        yield ()
        return
    listing = await sources.find(documents)
    chosen = _choose({file.name: file for file in listing.files}, names)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="chargehand-code-"))
    try:
        yield await asyncio.to_thread(_fetch, sources, chosen, folder)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _choose(known: dict[str, DocumentFile], names: Sequence[str]) -> list[DocumentFile]:
    try:
        chosen = [known[name] for name in dict.fromkeys(document_named(name, list(known)) for name in names)]
    except UnknownDocumentError as error:
        raise DocumentsNotGivenError(f"`documents`: {error}.") from error
    for file in chosen:
        if file.problem:
            raise DocumentsNotGivenError(f"{file.name} cannot be given to the code. {file.problem}")
    if sum(file.bytes for file in chosen) > _MOST_DOCUMENT_BYTES:
        raise DocumentsNotGivenError(
            f"Documents for one program may have {_MOST_DOCUMENT_BYTES // 2**20} MB together: give it fewer."
        )
    return chosen


def _fetch(sources: DocumentSources, chosen: Sequence[DocumentFile], folder: Path) -> tuple[GivenFile, ...]:
    files: list[GivenFile] = []
    for number, file in enumerate(chosen):
        try:
            files.append(GivenFile(file.name, sources.fetch(file, folder / str(number))))
        except (ArtifactError, OSError) as error:
            raise DocumentsNotGivenError(f"{file.name} can no longer be read.") from error
    return tuple(files)


def _answer(ref: str, result: CodeResult, artifacts: tuple[Artifact, ...], left_out: tuple[str, ...]) -> ToolAnswer:
    output: dict[str, JsonValue] = {}
    if result.stderr:
        output["stderr"] = _cut(result.stderr, _STDERR_CHARACTERS)
    if artifacts:
        output["kept_for_the_user"] = [f"{artifact.name} ({artifact.media_type})" for artifact in artifacts]
    if left_out:
        output["not_kept"] = _cut("; ".join(left_out), _LEFT_OUT_CHARACTERS)
    printed = _cut("\n".join(part for part in (result.stdout.rstrip("\n"), result.value) if part), _PRINTED_CHARACTERS)
    if result.error:
        # What a failing program printed helps to fix it, but is not evidence.
        output["error"] = result.error[-_ERROR_CHARACTERS:]  # a traceback ends with the error
        if printed:
            output["printed"] = printed
        return ToolAnswer(ok=False, output=output, artifacts=artifacts)
    if not printed:
        note = "The program printed nothing and its last line has no value: print what you need."
        return ToolAnswer(output={**output, "note": note}, artifacts=artifacts)
    source = Source(ref=ref, title="Computed", quote=printed)
    return ToolAnswer(output=output, sources=(source,), artifacts=artifacts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters more]"
