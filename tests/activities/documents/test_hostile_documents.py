"""The effect of hostile files: an answer in words within seconds, a small child, an unaffected worker."""

import json
import resource
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
from bombs import BOMBS, SAMPLE
from hostile_documents import figures, letter, outsider, slow_pages_pdf, workbook
from hypothesis import settings
from made_documents import HANDBOOK, folder, library

from activities.documents import parsing
from activities.processes import limits
from tests.parameters import first_fast

_TOO_MUCH = "needs more memory or time than a document may"
MOST_CHILD_KB: Final = 512 << 10
MOST_GROWTH_KB: Final = 64 << 10
_XML = {"xlsx": workbook, "docx": letter}


@dataclass
class Watch:
    """The peak memory of a child of this process, and the worker's own growth."""

    child_kb: int = 0
    growth_kb: int = 0


@contextmanager
def watched() -> Generator[Watch]:
    """Watch the children's peak memory on Linux, which records it."""
    watch, over = Watch(), threading.Event()
    here = Path("/proc/self")
    before = _kb(here, "VmRSS")

    def look() -> None:
        while not over.wait(0.01):
            watch.growth_kb = max(watch.growth_kb, _kb(here, "VmRSS") - before)
            for children in Path("/proc/self/task").glob("*/children"):
                for child in _read(children).split():
                    watch.child_kb = max(watch.child_kb, _high_water_kb(Path("/proc") / child))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _high_water_kb(process: Path) -> int:
    # Until its program is loaded, a child shares the memory of its parent.
    if "parser_process" not in _read(process / "cmdline"):
        return 0
    return _kb(process, "VmHWM")


def _kb(process: Path, field: str) -> int:
    lines = dict(line.split(":", 1) for line in _read(process / "status").splitlines() if ":" in line)
    return int(lines.get(field, "0 kB").split()[0])


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.nightly
async def test_a_large_document_gets_parsing_time_only_for_what_it_yields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size alone grants no more time, and easy pages earn none for a slow one."""
    monkeypatch.setattr(parsing, "_FIRST_SECONDS", 0.2)
    one_after_the_other, one_at_the_end = slow_pages_pdf(0, 60, 5), slow_pages_pdf(20, 1, 120)
    uri = folder(tmp_path / "docs", a__pdf=one_after_the_other, b__pdf=one_at_the_end, z__md=HANDBOOK)
    before = children_seconds()

    opened = await library(tmp_path, tmp_path).open((uri,))

    assert children_seconds() - before < 4
    assert [_TOO_MUCH in entry.problem for entry in opened.catalog.documents] == [True, True, False]
    assert (await opened.search("hotels")).passages[0].ref == "z.md#L12"


def test_parsing_time_grows_with_each_piece_up_to_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """No grant exceeds the initial allowance, and the total never exceeds the maximum."""
    clock = iter([100.0, 100.0, 106.0, 107.0, 108.0, 109.0, 128.0])
    allowed: list[float] = []
    monkeypatch.setattr(limits, "_used_seconds", lambda: next(clock))
    monkeypatch.setattr(limits, "allow_processor_seconds", allowed.append)
    allowance = limits.Allowance(7, 30)

    allowance.note(20)
    allowance.note(400)
    list(allowance.over(range(200), piece=100))
    allowance.note(1_000)

    # After 6 s, 20 pieces raise the total to 8 s. After 7 s, 420 would raise it to 28. After 28 s, the maximum is 30.
    assert allowed == pytest.approx([7, 2, 7, 7, 7, 2])


async def test_xml_entities_never_read_local_files(tmp_path: Path) -> None:
    """XML may ask for it; nobody answers."""
    secret = tmp_path / "secret.txt"
    secret.write_text("CANARY-7351")
    hostile = {f"a__{kind}": make(outsider(str(secret)), "before &x; after") for kind, make in _XML.items()}
    uri = folder(tmp_path / "docs", **hostile)

    opened = await library(tmp_path, tmp_path).open((uri,))

    assert "CANARY" not in opened.catalog.model_dump_json()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert b"CANARY" not in stored


async def test_a_sparse_one_terabyte_file_is_refused_by_its_size(tmp_path: Path) -> None:
    """Before a byte of it is read."""
    uri = folder(tmp_path / "docs", a__csv="a,b\n")
    with (tmp_path / "docs" / "a.csv").open("r+b") as file:
        file.truncate(1 << 40)

    opened = await library(tmp_path, tmp_path).open((uri,))

    assert opened.catalog.documents[0].problem.startswith("It is too large")


@pytest.mark.nightly
async def test_ordinary_large_documents_are_still_read(tmp_path: Path) -> None:
    """A workbook of 20,000 rows, a table of 50,000 lines and a book of 500 pages in 20 MB are accepted."""
    lines = "n,word\n" + "".join(f"{number},word {number % 97}\n" for number in range(50_000))
    book = slow_pages_pdf(500, 0, 0, ballast=20 << 20)
    uri = folder(tmp_path / "docs", a__xlsx=figures(20_000, 10), b__csv=lines, c__pdf=book)

    opened = await library(tmp_path, tmp_path).open((uri,))

    read = [(entry.name, entry.units, entry.problem) for entry in opened.catalog.documents]
    assert read == [("a.xlsx", 19_999, ""), ("b.csv", 50_000, ""), ("c.pdf", 500, "")]


_AT_NIGHT = 60
_MEAN_SECONDS = 3


_CHOSEN = BOMBS if settings.get_current_profile_name() == "nightly" else SAMPLE


@pytest.mark.parametrize(
    "suffix", first_fast(dict.fromkeys(suffix for _, suffix, _ in _CHOSEN), 3, pytest.mark.nightly)
)
async def test_document_bombs_do_no_harm(
    tmp_path: Path, suffix: str, record_property: Callable[[str, object], None]
) -> None:
    """Every file is read or reported, stays within time and memory limits, and writes nothing outside."""
    chosen = [bomb for bomb in _CHOSEN if bomb[1] == suffix]
    for number, group in groupby(enumerate(chosen), lambda pair: pair[0] // _AT_NIGHT):
        place = tmp_path / f"docs{number}"
        place.mkdir()
        names = {f"{at:03}{suffix}": (bomb, make) for at, (bomb, _, make) in group}
        for name, (_, make) in names.items():
            (place / name).write_bytes(make())
        (place / "z.md").write_text(HANDBOOK)
        before = children_seconds()

        with watched() as watch:
            opened = await library(tmp_path, tmp_path).open((f"file:{place}/",))

        # In processor time, since other programs may be running on this machine.
        assert children_seconds() - before < 10 + _MEAN_SECONDS * len(names)
        assert watch.child_kb <= MOST_CHILD_KB
        assert watch.growth_kb <= MOST_GROWTH_KB
        told = {entry.name: entry.units or entry.problem or entry.headings for entry in opened.catalog.documents}
        silent = [bomb for name, (bomb, _) in names.items() if name in told and not told[name]]
        lost = [bomb for name, (bomb, _) in names.items() if name not in json.dumps(opened.catalog.model_dump())]
        assert (silent, lost) == ([], [])
        assert (await opened.search("hotels")).passages[0].ref == "z.md#L12"
        assert not (tmp_path / "out").exists()
    record_property("cases", len(chosen))
