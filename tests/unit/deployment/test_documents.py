"""The project's documents agree with its files, and with its tests."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pages
from benchmarks.load import page as load
from chaos import page as durability
from tests.security.__main__ import CLASSES, page

ROOT = Path(__file__).parents[3]
DECISIONS = ROOT / "docs" / "decisions"
PROJECTS = ("pyproject.toml", *(f"{folder}/pyproject.toml" for folder in ("client", "cli", "deploy/worker", "plugins")))


def project_file(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def test_every_dependency_has_its_licence_and_reason() -> None:
    asked: list[str] = []
    for name in PROJECTS:
        file = project_file(name)
        groups = (
            *file["project"].get("optional-dependencies", {}).values(),
            *file.get("dependency-groups", {}).values(),
        )
        asked += [*file["project"]["dependencies"], *(each for group in groups for each in group)]
    page = (DECISIONS / "0005-dependencies.md").read_text(encoding="utf-8")

    listed = re.findall(r"^\| ([a-z0-9-]+) \| \S.* \| \S.* \|$", page, re.MULTILINE)
    assert set(listed) - {"package"} == {re.split(r"[\[<>=]", requirement)[0] for requirement in asked}


def test_all_packages_have_the_same_version() -> None:
    files = [project_file(name) for name in PROJECTS]
    extras = [
        each for file in files for group in file["project"].get("optional-dependencies", {}).values() for each in group
    ]
    asked = [*extras, *(each for file in files for each in file["project"]["dependencies"])]
    pinned = {found[1] for each in asked if (found := re.fullmatch(r"chargehand[\w\[\],-]*==(.+)", each))}

    assert {file["project"]["version"] for file in files} == pinned | {files[0]["project"]["version"]}
    assert len(pinned) == 1


def test_the_list_of_decisions_is_complete() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in DECISIONS.glob("0*.md")}
    listed = re.findall(r"^(\d+)\. \[(.+)\]\((.+)\)$", (DECISIONS / "README.md").read_text(encoding="utf-8"), re.M)

    assert {name: f"# {number}. {title}" for number, title, name in listed} == {
        name: text.splitlines()[0] for name, text in texts.items()
    }
    parts = {tuple(re.findall(r"^\*\*(.+?)\.?\*\*", text, re.MULTILINE)) for text in texts.values()}
    assert parts == {("Context", "Choice", "Cost", "What would change our mind")}


_PATH = re.compile(r"`((?:[\w-][\w.-]*/)+[\w.-]*|[\w-]+\.py|\.ci/run)`|\]\(([^)#:]+)(?:#[^)]*)?\)")
_TEMPLATE = "deploy/worker/src/chargehand_worker/template"
_BASES = (
    "", "client/src", "client/src/chargehand", "workflows", "activities", "worker",
    "plugins/src/chargehand_plugins", _TEMPLATE,
)  # fmt: skip
_GENERATED = {ROOT / line for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
_CODE = (
    "activities", "benchmarks", "chaos", "cli", "client", "deploy", "examples", "plugins", "tests", "worker",
    "workflows",
)  # fmt: skip


def documents() -> list[Path]:
    """List the pages of `docs/` and of plug-ins, without those that are generated from the code."""
    pages = {*(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").rglob("README.md")}
    return sorted(page for page in pages if not {page, *page.parents} & _GENERATED)


def _exists(path: str, page: Path) -> bool:
    if (page.parent / path).exists():
        return True
    if "/" in path or path == "worker_main.py":
        return any((ROOT / base / path).exists() for base in _BASES)
    return any(next((ROOT / folder).rglob(path), None) for folder in _CODE)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *documents()], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_path_that_a_document_names_exists(page: Path) -> None:
    found = _PATH.findall(page.read_text(encoding="utf-8"))
    missing = [named for named, _ in found if named and not _exists(named, page)]
    broken = [linked for _, linked in found if linked and not (page.parent / linked).exists()]

    assert (missing, broken) == ([], [])


def test_every_page_begins_with_a_sentence() -> None:
    """Before any table, block or heading, a page says what it lets its reader do."""
    pages = [page for page in documents() if page.parent.name not in {"prompts", "decisions"}]
    begins = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8").partition("\n\n")[2] for page in pages}
    del begins["docs/how-to/deploying.md"]  # includes deploy/README.md

    assert [name for name, text in begins.items() if not re.match(r"[A-Z*][a-z]+[,*]* [^\n]", text)] == []


def test_every_risk_has_a_control_and_a_test() -> None:
    """The page has both OWASP lists whole, and each risk and each attack names tests, all of which exist."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    tables = [each for each in re.split(r"^## ", text, flags=re.MULTILINE) if "| control | test |" in each]
    rows = re.findall(r"^\| (\S.*?) \| \S.* \| (.+) \|$", "\n".join(tables), re.MULTILINE)
    tested = {
        risk: re.findall(r"`((?:plugins/src/[^`]+/)?tests/[^`]+)`", tests)
        for risk, tests in rows
        if tests not in {"test", "---"}
    }

    assert [risk[:5] for risk in tested if re.match(r"(LLM|ASI)\d", risk)] == [
        f"{name}{number:02}" for name in ("LLM", "ASI") for number in range(1, 11)
    ]
    assert [risk for risk, tests in tested.items() if not tests] == []
    assert [test for tests in tested.values() for test in tests if not (ROOT / test).exists()] == []


def test_every_test_of_an_attack_class_exists() -> None:
    """Renaming a file must not silently drop a test from its class."""
    for name in CLASSES:
        assert [path for path in CLASSES[name].tests if not (ROOT / path).exists()] == []


def test_generated_pages_match_their_figures() -> None:
    """The pages of `make bench`, `make load`, `make chaos` and `make nightly` are never edited by hand."""
    results = ROOT / "benchmarks" / "results"
    kept = {name: json.loads((results / f"{name}.json").read_text("utf-8")) for name in (*pages.WRITTEN, "load")}
    written = {name: pages.page(name, kept[name]) for name in pages.WRITTEN}
    written |= {"load": load.page(kept["load"]), "durability": durability.page(), "security-tests": page()}

    assert {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in written} == written


def test_no_page_contains_a_path_of_the_machine_that_generated_it() -> None:
    """Generated pages quote output of other programs, which may include paths."""
    of_a_machine = re.compile(r"/(root|work|Users|tmp/pytest)/")
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *documents()]

    assert [str(page) for page in pages if of_a_machine.search(page.read_text(encoding="utf-8"))] == []
