"""The catalogue of the console's words."""

import re
from pathlib import Path
from typing import Final

from chargehand_plugins.console.words import catalogue, words

CONSOLE: Final = Path(__file__).parents[1]
_TAGS: Final = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<[^>]*>", re.DOTALL)


def test_every_word_is_used_and_every_use_is_there() -> None:
    """By templates and by modules; a translation has these names and no others."""
    templates = "".join(each.read_text(encoding="utf-8") for each in (CONSOLE / "templates").iterdir())
    modules = "".join(each.read_text(encoding="utf-8") for each in CONSOLE.glob("*.py"))

    used = {*re.findall(r"\bt\.(\w+)\.(\w+)", templates), *re.findall(r'\bwords\("(\w+)", "(\w+)"', modules)}

    assert used == {(page, name) for page, named in catalogue().items() for name in named}


def test_templates_have_no_words_of_their_own() -> None:
    """What is left of a template without its tags is punctuation, and the name of the product."""
    for template in (CONSOLE / "templates").iterdir():
        left = _TAGS.sub(" ", template.read_text(encoding="utf-8")).replace("Chargehand", "")

        assert re.findall(r"[A-Za-z]{2,}", left) == [], template.name


def test_values_are_filled_in() -> None:
    """Words with a place for a value take it; a percent sign elsewhere stays."""
    assert words("sessions", "waits_for", waiting_for="a plan") == "waits for a plan"
    assert words("ask", "title") == "Ask"
