"""The documentation on the command line."""

import os
import re

import pytest

from chargehand_plugins.manual.verbs import pages, search
from tests.acceptance.commands import run_command


def test_every_page_has_a_name_and_a_title() -> None:
    """No page hides another of the same name, and each begins with what it is about."""
    found = pages()

    assert {"limits", "first-project", "conversations", "own-tools", "plugin-tenants"} <= found.keys()
    assert [name for name, text in found.items() if not text.startswith("# ")] == []


def test_a_page_leads_on_in_the_terminal() -> None:
    """A link is the command that prints its page, or a path of the checkout; no address of a file is left."""
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
def test_words_lead_to_pages(words: str, page: str) -> None:
    """What an engineer types finds the page that answers it among the first five."""
    assert page in search(pages(), words.split())[:5]


def test_a_page_is_printed_as_it_is() -> None:
    """In a pipe it is Markdown; a name that there is not is told, with how to go on."""
    printed, unknown = (run_command(["docs", name], {**os.environ}) for name in ("limits", "nothing-of-that-kind"))

    assert printed.out.strip() == pages()["limits"].strip()
    assert (unknown.code, "`chargehand docs` lists the pages" in " ".join(unknown.said.split())) == (2, True)
