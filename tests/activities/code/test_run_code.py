"""The tool `run_code`, over the real embedded sandbox."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue

from activities.contracts.setting import Setting
from activities.contracts.tool import OUTPUT_CAP_CHARACTERS, ToolAnswer, ToolContext
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.code.monty import MontyRunner
from activities.tools.code.protocol import CodeResult, CodeRunner, GivenFile, Language, Rows
from activities.tools.code.tool import RunCode
from activities.tools.outputs import ToolOutput
from chargehand.contracts import Artifact, Source
from tests.activities.documents.loopback_downloads import LoopbackDownloads
from tests.activities.pages.page_server import answer as page
from tests.activities.pages.page_server import serve_pages

CONTEXT = ToolContext(session="s", agent="analyst", idempotency_key="s/1")


class Scripted:
    """A sandbox with preset results."""

    name = "scripted"
    languages: tuple[Language, ...] = ("python",)
    language = "Nothing at all."
    handles_files = True
    reaches_out = False

    def __init__(self, result: CodeResult) -> None:
        self._result = result
        self.ran: list[tuple[str, str]] = []
        self.given: dict[str, bytes] = {}
        self.rows: Rows | None = None
        self.written_in: list[Language] = []

    async def run(
        self,
        code: str,
        name: str,
        files: Sequence[GivenFile] = (),
        rows: Rows | None = None,
        language: Language = "python",
    ) -> CodeResult:
        self.written_in.append(language)
        self.ran.append((code, name))
        self.rows = rows
        self.given = {file.name: file.path.read_bytes() for file in files}
        return self._result


class Harness:
    """The tool with its own store and a folder of documents."""

    def __init__(self, folder: Path) -> None:
        self.store = ArtifactStore(folder / "artifacts")
        self.documents = folder / "documents"
        self.documents.mkdir()
        self._library = DocumentLibrary(self.store, folder / "index", (self.documents,))

    def tool(self, runner: CodeRunner) -> RunCode:
        return RunCode(runner, self.store, self._library)

    @property
    def context(self) -> ToolContext:
        return CONTEXT.model_copy(update={"documents": (f"file:{self.documents}",)})


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


async def test_the_language_argument_exists_only_if_there_is_a_choice(harness: Harness) -> None:
    """Sandboxes that run only Python have no such argument; an unsupported language is refused."""
    one, two = Scripted(CodeResult(value="2")), Scripted(CodeResult(value="2"))
    two.languages = ("python", "javascript")
    code: dict[str, JsonValue] = {"code": "1 + 1", "sql": "", "documents": []}

    answers = [
        await harness.tool(two).use({**code, "language": language}, harness.context)
        for language in ("python", "javascript", "ruby")
    ]
    refused = await harness.tool(one).use({**code, "language": "javascript"}, harness.context)

    assert "language" not in cast("dict[str, JsonValue]", harness.tool(one).spec.parameters["properties"])
    properties = cast("dict[str, JsonValue]", harness.tool(two).spec.parameters["properties"])
    assert properties["language"] == {"type": "string", "enum": ["python", "javascript"]}
    assert harness.tool(two).spec.description.startswith("Run Python or JavaScript")
    assert two.written_in == ["python", "javascript"]
    assert answers[2].output == {"error": "`language` must be one of python, javascript."}
    assert refused.output == {"error": "`language` must be one of python."}
    assert answers[0].sources[0].ref != answers[1].sources[0].ref


async def test_program_output_is_a_citable_source(harness: Harness) -> None:
    """Its name is the digest of the code and its quote the output; a program without output has no source."""
    code = "print(6 * 7)\n'done'"

    answer = await harness.tool(MontyRunner()).use({"code": code}, CONTEXT)

    silent = await harness.tool(Scripted(CodeResult())).use({"code": "x = 1"}, CONTEXT)
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    assert answer == ToolAnswer(sources=(Source(ref=f"code:{digest}", title="Computed", quote="42\n'done'"),))
    note = "The program printed nothing and its last line has no value: print what you need."
    assert silent == ToolAnswer(output={"note": note})


async def test_a_failing_program_returns_an_error_and_no_source(harness: Harness) -> None:
    """The agent gets the error and what was printed, and can cite none of it."""
    answer = await harness.tool(MontyRunner()).use({"code": "print('begun')\n1 / 0"}, CONTEXT)

    assert not answer.ok
    assert answer.sources == ()
    assert str(answer.output["error"]).endswith("ZeroDivisionError: division by zero")
    assert answer.output["printed"] == "begun"


async def test_files_of_a_program_are_stored_for_the_user(harness: Harness) -> None:
    """The user gets the content under its digest; the model gets only the file's name and type."""
    png = b"\x89PNG\r\n\x1a\nsmall"
    plot = ToolOutput(name="../plot.png", content=png)
    result = CodeResult(stdout="1", files=(plot,), left_out=("big.bin: too large",))

    answer = await harness.tool(Scripted(result)).use({"code": "plot()"}, harness.context)

    digest = hashlib.sha256(png).hexdigest()
    made = Artifact(uri=f"artifact:{digest}/plot.png", name="plot.png", media_type="image/png", bytes=len(png))
    assert answer.artifacts == (made,)
    assert answer.output == {"kept_for_the_user": ["plot.png (image/png)"], "not_kept": "big.bin: too large"}
    assert harness.store.read(digest) == png


async def test_a_program_gets_only_the_documents_it_names(harness: Harness) -> None:
    """Documents have the names that the agent knows, and the run has the name of its call."""
    (harness.documents / "sales.csv").write_bytes(b"a,b")
    (harness.documents / "secret.txt").write_bytes(b"canary")
    sandbox = Scripted(CodeResult(stdout="1"))

    await harness.tool(sandbox).use({"code": "read()", "documents": ["sales.csv"]}, harness.context)

    assert sandbox.given == {"sales.csv": b"a,b"}
    assert sandbox.ran == [("read()", "s/1")]


async def test_a_program_is_given_documents_from_the_web(harness: Harness, tmp_path: Path) -> None:
    """A document named by its URL is passed to the program like an uploaded one."""
    async with serve_pages() as server:
        server.pages["/sales.csv"] = page(b"a,b", content_type="text/csv")
        downloads = LoopbackDownloads(harness.store, tmp_path / "downloads", server.host)
        sandbox = Scripted(CodeResult(stdout="1"))
        tool = RunCode(sandbox, harness.store, DocumentLibrary(harness.store, tmp_path / "index", (), downloads))
        context = CONTEXT.model_copy(update={"documents": ("https://w.example/sales.csv",)})

        await tool.use({"code": "read()", "documents": ["sales.csv"]}, context)

    assert sandbox.given == {"sales.csv": b"a,b"}


async def test_wrong_arguments_are_answered_without_running_anything(harness: Harness) -> None:
    """The code must not be empty, and documents must belong to the session and have at most 20 MB together."""
    (harness.documents / "sales.csv").write_bytes(b"a,b")
    sandbox = Scripted(CodeResult(stdout="1"))
    no_list = "`documents` must be a list of at most 20 names of documents."
    wrong: list[tuple[dict[str, JsonValue], str]] = [
        *(({"code": code}, "`code` must be the whole program, as text.") for code in ("", "  ", 7, None)),
        *(
            ({"documents": [name]}, f"`documents`: there is no document '{name}'; there are: sales.csv.")
            for name in ("nothing.csv", "../artifacts", "/etc/passwd")
        ),
        ({"documents": "sales.csv"}, no_list),
        ({"documents": [1]}, no_list),
        ({"documents": list("a" * 21)}, no_list),
    ]
    for arguments, says in wrong:
        answer = await harness.tool(sandbox).use({"code": "read()"} | arguments, harness.context)
        assert answer == ToolAnswer(ok=False, output={"error": says})
    os.truncate(harness.documents / "sales.csv", 20 * 1024 * 1024 + 1)
    large = await harness.tool(sandbox).use({"code": "read()", "documents": ["sales.csv"]}, harness.context)
    assert large.output == {"error": "Documents for one program may have 20 MB together: give it fewer."}

    assert sandbox.ran == []


_SALES = b"region,units\nNorth,3\nSouth,4\n"


async def test_a_program_is_given_the_rows_of_a_query(harness: Harness) -> None:
    """Rows are keyed by column name, and the source's name depends on both code and SQL."""
    (harness.documents / "sales.csv").write_bytes(_SALES)
    tool = harness.tool(MontyRunner())
    code = "sum(row['units'] for row in rows if row['region'] != 'East')"

    answers = [
        await tool.use({"code": code, "sql": f"SELECT * FROM sales LIMIT {limit}", "documents": []}, harness.context)
        for limit in (1, 2)
    ]

    assert [answer.sources[0].quote for answer in answers] == ["3", "7"]
    assert answers[0].sources[0].ref != answers[1].sources[0].ref


async def test_a_program_never_runs_on_a_part_of_its_rows(harness: Harness) -> None:
    """A query with too many rows, or without any, is answered instead."""
    (harness.documents / "sales.csv").write_bytes(_SALES)
    sandbox = Scripted(CodeResult(stdout="1"))
    refusals: dict[JsonValue, str] = {
        "SELECT * FROM range(10001)": "`sql`: The query gives more than 10,000 rows for the program",
        "SELECT 1 AS a, 2 AS a": "`sql`: The query gives two columns 'a'",
        "SELECT repeat('x', 90000) AS a FROM range(60)": "`sql`: The rows are larger than 4 MB",
        "SELECT * FROM sales WHERE region = 'NORTH'": "Did you mean region 'North' instead of 'NORTH'?",
        "SELECT unit FROM sales": "The tables are: sales(region VARCHAR, units BIGINT)",
        7: "`sql` must be one SELECT statement, or an empty string.",
    }
    for sql, says in refusals.items():
        answer = await harness.tool(sandbox).use({"code": "1", "sql": sql}, harness.context)
        assert (answer.ok, says in str(answer.output["error"]), sandbox.ran) == (False, True, []), sql


async def test_an_answer_stays_under_the_cap(harness: Harness) -> None:
    """However much a program prints, the model gets no more than the cap of a tool call."""
    for error in ("", "e" * 100_000):
        flood = CodeResult(stdout="o" * 100_000, stderr="w" * 100_000, value="v" * 100_000, error=error)
        answer = await harness.tool(Scripted(flood)).use({"code": "flood()"}, CONTEXT)
        assert len(answer.model_dump_json()) <= OUTPUT_CAP_CHARACTERS


async def test_document_arguments_are_hidden_without_documents(harness: Harness) -> None:
    """If nothing can be queried or opened, neither the arguments nor their rules are in the prompt."""
    spec = harness.tool(Scripted(CodeResult(value="2"))).spec
    settings = {has: Setting(has_web=True, has_documents=has, profile="standard") for has in (True, False)}

    with_documents, without = (settings[has].fit_tool(spec) for has in (True, False))

    assert with_documents == spec
    assert without.parameters["required"] == ["code"]
    assert "rows" not in without.description
    assert "Documents that you name" not in without.description
