"""The documentation on the command line."""

import os
import re
from pathlib import Path

import pytest

from chargehand_plugins.manual.verbs import pages, search
from tests.acceptance.commands import run_command

_DOCS = Path(__file__).parents[5] / "docs"


def test_every_docs_page_has_a_name_and_a_title() -> None:
    """Each page begins with a heading, and no page replaces another of the same name."""
    found = pages()
    folders = [_DOCS / folder for folder in ("", "tutorial", "how-to", "reference")]
    files = [file for folder in folders for file in folder.glob("*.md") if file.stem != "index"]

    assert sorted(name for name in found if not name.startswith("plugin-")) == sorted(file.stem for file in files)
    assert {"limits", "first-project", "conversations", "own-tools", "plugin-tenants"} <= found.keys()
    assert [name for name, text in found.items() if not text.startswith("# ")] == []


def test_links_in_terminal_pages_are_commands_or_paths() -> None:
    """A link is the command that prints its page or a path of the checkout; no relative link is left."""
    found = pages()
    named = {name for text in found.values() for name in re.findall(r"\(`chargehand docs ([^`]+)`\)", text)}

    assert named <= found.keys()
    assert {"deploying", "plugin-tenants", "installing", "documents"} <= named
    assert [link for text in found.values() for link in re.findall(r"\]\((?!https?://|#)[^)\s]*\)", text)] == []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("refund approve", "approving-tool-calls"),
        ("how do I approve a tool call", "approving-tool-calls"),
        ("human in the loop", "approving-tool-calls"),
        ("SKILL.md", "skills"),
        ("quarantined", "recovery"),
        ("CHARGEHAND_CEILINGS", "deploying"),
        ("custom tool", "own-tools"),
        ("structured output", "output-schema"),
        ("streaming", "following-a-session"),
        ("cost limit", "limits"),
        ("unit test", "plugin-testing"),
        ("multi-tenant", "plugin-tenants"),
        ("delete data", "retention"),
        ("OCR", "documents"),
        ("license", "installing"),
        ("upgrade", "stability"),
        ("langgraph migration", "comparison"),
    ],
)
def test_search_finds_the_page_that_answers_a_query(words: str, page: str) -> None:
    """The page is among the first five for what an engineer types."""
    assert page in search(pages(), words.split())[:5]


def test_a_piped_page_is_printed_as_markdown() -> None:
    """An unknown name exits with 2 and says how to list the pages."""
    printed, unknown = (run_command(["docs", name], {**os.environ}) for name in ("limits", "nothing-of-that-kind"))

    assert printed.out.strip() == pages()["limits"].strip()
    assert (unknown.code, "`chargehand docs` lists the pages" in " ".join(unknown.said.split())) == (2, True)
