"""Documents: indexing and querying over 10,000 passages compared with bare SQLite, and the cost of a hostile file."""

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from activities.documents.artifacts import ArtifactStore
from activities.documents.index_build import INDEX_FILE
from activities.documents.library import DocumentLibrary, OpenLibrary
from benchmarks.tables import Row
from tests.activities.documents.hostile_documents import figures, flate_pdf, lying_zip, nested_zip, slow_pages_pdf

_FILES: Final = 110
_PARAGRAPHS: Final = 100
_QUERIES: Final = 100
_SEED: Final = 4_711
_SELF: Final = Path("/proc/self")


def _words() -> list[str]:
    """Return 6,000 words of which the first are the most frequent, as in natural language."""
    letters = random.Random(_SEED)
    return ["".join(letters.choices("etaoinshrdlu", k=letters.randint(3, 9))) for _ in range(6_000)]


def _write_documents(folder: Path) -> None:
    folder.mkdir()
    rand, words = random.Random(_SEED), _words()
    weights = [1 / (rank + 3) for rank in range(len(words))]
    for number in range(_FILES):
        paragraphs = [
            f"## {' '.join(rand.choices(words, k=3))}\n\n{' '.join(rand.choices(words, weights, k=80)).capitalize()}."
            for _ in range(_PARAGRAPHS)
        ]
        (folder / f"file-{number}.md").write_text(f"# File {number}\n\n" + "\n\n".join(paragraphs))


def _queries() -> list[str]:
    rand, words = random.Random(_SEED + 1), _words()
    return [" ".join(rand.choices(words, k=4)) for _ in range(_QUERIES)]


def _passages(index: Path) -> list[str]:
    with closing(sqlite3.connect(index)) as connection:
        return [str(text) for (text,) in connection.execute("SELECT text FROM passages ORDER BY id")]


def _build_bare(path: Path, passages: Sequence[str]) -> float:
    began = time.perf_counter()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (body, tokenize='porter unicode61')")
        connection.executemany("INSERT INTO words VALUES (?)", ((text,) for text in passages))
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.commit()
    return time.perf_counter() - began


def _ask_bare(path: Path, query: str) -> None:
    expression = " OR ".join(f'"{word}"' for word in query.split())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "SELECT body, bm25(words) AS rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT 6", (expression,)
        ).fetchall()


async def _ask(opened: OpenLibrary, query: str) -> float:
    began = time.perf_counter()
    await opened.search(query)
    return time.perf_counter() - began


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


async def _index(folder: Path) -> tuple[Row, Row]:
    documents = folder / "documents"
    _write_documents(documents)
    library = DocumentLibrary(ArtifactStore(folder / "artifacts"), folder / "indexes", (documents,))
    began = time.perf_counter()
    opened = await library.open((f"file:{documents}/",))
    built = time.perf_counter() - began
    [index] = (folder / "indexes").glob(f"*/{INDEX_FILE}")
    passages = _passages(index)
    bare = folder / "bare.sqlite"
    built_bare = _build_bare(bare, passages)
    queries = _queries()
    asked = statistics.median([await _ask(opened, query) for query in queries])
    asked_bare = statistics.median(_timed(lambda query=query: _ask_bare(bare, query)) for query in queries)
    build, search = f"build over {len(passages):,} passages, s", "median search, ms"
    return (
        {"what": build, "ours": built, "bare": built_bare, "ratio": built / built_bare},
        {"what": search, "ours": asked * 1e3, "bare": asked_bare * 1e3, "ratio": asked / asked_bare},
    )


def _status_mb(process: Path, field: str) -> float:
    return int((process / "status").read_text().partition(f"{field}:")[2].split()[0]) / 1_024


def _parsers_mb() -> float:
    """Return the peak memory of the running parser in MB; 0 if none is running."""
    most = 0.0
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            process = Path("/proc") / child
            with suppress(OSError, IndexError):  # it may have just ended
                if "parser_process" in (process / "cmdline").read_text():
                    most = max(most, _status_mb(process, "VmHWM"))
    return most


async def _watched(building: "asyncio.Future[OpenLibrary]") -> tuple[float, float]:
    """Return the peak memory of the parser and the growth of this process, in MB, until the build ends."""
    before = await asyncio.to_thread(_status_mb, _SELF, "VmRSS")
    child = grown = 0.0
    while not building.done():
        child = max(child, await asyncio.to_thread(_parsers_mb))
        grown = max(grown, await asyncio.to_thread(_status_mb, _SELF, "VmRSS") - before)
        await asyncio.sleep(0.005)
    return child, grown


async def _file_cost(folder: Path, name: str, content: bytes) -> Row:
    documents = folder / f"hostile-{len(content)}"
    documents.mkdir()
    (documents / name).write_bytes(content)
    library = DocumentLibrary(ArtifactStore(folder / "artifacts"), folder / "hostile", (documents,))
    began = time.perf_counter()
    building = asyncio.ensure_future(library.open((f"file:{documents}/",)))
    child, grown = await _watched(building)
    opened = await building
    return {
        "what": f"{name}, {len(content) / 1_024:,.0f} KB",
        "seconds": time.perf_counter() - began,
        "child_mb": child,
        "worker_grew_mb": grown,
        "answer": (opened.catalog.documents[0].problem or "read")[:48],
    }


async def documents() -> tuple[list[Row], list[str]]:
    """Measure both."""
    files = {
        "nested-flate.pdf": flate_pdf(400),
        "slow-pages.pdf": slow_pages_pdf(0, 100, 10),
        "nested.docx": nested_zip(),
        "lying.xlsx": lying_zip(),
        "50000-rows.xlsx": figures(50_000, 10),
    }
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        rows: list[Row] = [*await _index(folder)]
        rows += [await _file_cost(folder, name, content) for name, content in files.items()]
    return rows, [
        "bare: the same passages in one FTS5 table, written in one transaction; asked for the best six by BM25.",
        "Ours also parses the files in a child, keeps titles and whole texts, ranks again and leaves out repeats.",
    ]
