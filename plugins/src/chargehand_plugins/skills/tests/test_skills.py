"""Skills: what an agent reads of them, in which version, and what is refused."""

import codecs
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from activities.backends import SettingsError
from activities.documents.artifacts import ArtifactStore
from chargehand import SessionRequest
from chargehand.tool_signature import ToolContext
from chargehand_plugins.skills.files import Skill, read_skill
from chargehand_plugins.skills.tool import ReadSkill
from chargehand_plugins.testing import Script, answer, run_session, subtask, use
from tests.crew_files import crew_folder

_FRONT = "---\nname: tides\ndescription: >\n  How tide tables\n  are read.\n---\n"
_CONTEXT = ToolContext(session="s", agent="pilot", idempotency_key="k")


def _folder(root: Path, text: str = _FRONT + "Read the *datum* first.", name: str = "tides") -> Path:
    folder = root / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


async def test_an_agent_reads_a_skill_when_it_needs_it(tmp_path: Path) -> None:
    """The tool's description says what the skill is for; its text is in no prompt before it is read."""
    crews = crew_folder(tmp_path, "harbour", pilot='tools = ["skill_tides"]')
    skill = read_skill(_folder(crews))
    arguments = {"file": "SKILL.md", "page": 1, "version": skill.digest}
    script = Script().plan(subtask("T1", "pilot", "Read the tide table of March."))
    script = script.work("tide", use("skill_tides", **arguments), answer("High water is at 04:12."))

    run = await run_session(SessionRequest(goal="When is high water?", crew="harbour"), script, crews=crews)

    _, first, second, *_ = [turn.prompt for turn in run.turns]
    assert "How tide tables are read." in ReadSkill(skill, ArtifactStore(tmp_path / "artifacts")).spec.description
    assert "Read the *datum* first." not in first
    assert "Read the *datum* first." in second


async def test_a_session_keeps_the_skill_version_it_began_with(tmp_path: Path) -> None:
    """A worker with a newer version reads the older from the store, and no artifact that is not this skill."""
    store = ArtifactStore(tmp_path / "artifacts")
    older, newer = (Skill("tides", "d", {"SKILL.md": text}) for text in ("old", "new"))
    tool = ReadSkill(newer, store)
    store.put(older.content())
    others = [store.put(b"{}"), store.put(Skill("winds", "d", {"SKILL.md": "wind"}).content()), "0" * 64]

    async def text(version: str) -> object:
        return (await tool.use({"file": "SKILL.md", "page": 1, "version": version}, _CONTEXT)).output.get("text")

    assert [await text(each) for each in (newer.digest, older.digest, *others)] == ["new", "old", None, None, None]


async def test_long_skill_files_are_read_by_page(tmp_path: Path) -> None:
    """No character is lost or read twice, and the error for a wrong page gives the valid range."""
    folder = _folder(tmp_path)
    long = "".join(f"{number:05}" for number in range(3_000))
    (folder / "scripts").mkdir()
    (folder / "scripts" / "table.py").write_text(long)
    skill = read_skill(folder)
    tool = ReadSkill(skill, ArtifactStore(tmp_path / "artifacts"))

    pages = [
        (await tool.use({"file": "scripts/table.py", "page": page, "version": skill.digest}, _CONTEXT)).output
        for page in range(5)
    ]

    assert [*skill.files] == ["SKILL.md", "scripts/table.py"]
    assert "".join(str(page.get("text", "")) for page in pages) == long
    wrong = "The file has pages 1 to 3."
    assert [page.get("error") for page in pages] == [wrong, None, None, None, wrong]


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("", "begin it with lines"),
        ("name: tides", "description: is required"),
        ("name: [", "are not YAML"),
        ("- name", "object"),
        ("name: other\ndescription: d", "must be that of its folder"),
        ("name: Tides\ndescription: d", "name: "),
        (f"name: tides\ndescription: {'d' * 1_025}", "description: "),
        ("name: tides\ndescription: 2024-99-99", ""),
        ("name: tides\ndescription: " + "9" * 5_000, ""),
        ("x: " + "[" * 9_000, ""),
        ("{a: " * 2_000, ""),
        ("".join(f"k{number}: 1\n" for number in range(40_000)), "10,000 characters at most"),
        ("name: tides\na: &a [*a]\ndescription: *a", ""),
        ("name: tides\ndescription: !!python/object/apply:os.system [id]", ""),
    ],
)
def test_an_invalid_skill_error_names_its_file_and_field(tmp_path: Path, front: str, problem: str) -> None:
    """The worker does not start, whatever YAML makes of the first lines."""
    folder = _folder(tmp_path, f"---\n{front}\n---\nRead." if front else "No front matter.")

    with pytest.raises(SettingsError, match=r"tides/SKILL\.md: .*" + problem):
        read_skill(folder)


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"  \n"])
def test_a_skill_file_is_read_however_an_editor_saves_it(tmp_path: Path, mark: bytes, end: bytes) -> None:
    """A byte order mark, either line ending, trailing blanks and an empty body are accepted."""
    folder = _folder(tmp_path)
    (folder / "SKILL.md").write_bytes(mark + end.join([b"---", b"name: tides", b"description: Tides.", b"---"]))

    assert read_skill(folder).description == "Tides."


@pytest.mark.parametrize("content", [b"---\nname: tides\n---\n\xff", "---\nname: tides\n---\n".encode("utf-16")])
def test_a_skill_file_that_is_not_utf8_is_named(tmp_path: Path, content: bytes) -> None:
    """The error is about the encoding, not about its front matter, which may be correct."""
    folder = _folder(tmp_path)
    (folder / "SKILL.md").write_bytes(content)

    with pytest.raises(SettingsError, match="text in UTF-8: save it as that"):
        read_skill(folder)


_NOT_READ: Mapping[str, Callable[[Path], object]] = {
    "link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "link to a folder": lambda path: path.symlink_to("/etc"),
    "hidden": lambda path: path.with_name(".env").write_text("TOKEN=1"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("make", _NOT_READ.values(), ids=_NOT_READ)
def test_only_the_skill_folders_own_text_is_read(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """The target of a link is not read."""
    folder = _folder(tmp_path)
    make(folder / "a")

    assert [*read_skill(folder).files] == ["SKILL.md"]


@pytest.mark.parametrize(("files", "size"), [(101, 1), (2, 600_000)])
def test_a_skill_has_a_size_limit(tmp_path: Path, files: int, size: int) -> None:
    """A folder that is not a skill, such as a checkout, is not read in full."""
    folder = _folder(tmp_path)
    for number in range(files):
        (folder / f"{number}.txt").write_text("x" * size)

    with pytest.raises(SettingsError, match="100 files and 1,000,000 bytes"):
        read_skill(folder)
