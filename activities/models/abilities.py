"""What models can do, by their names: whether they take a reasoning effort, and how much they can write in one turn.

The price list does not say. The first pattern that matches the whole name counts, with or without the prefix that a
gateway puts before it (`openai/gpt-6-sol`); of a model that none matches nothing is assumed.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Abilities:
    """What a model can do."""

    takes_effort: bool = False
    max_output_tokens: int | None = None
    """The most that it can write in one turn; None if that is unknown."""


_BY_NAME: Final = tuple(
    (re.compile(pattern), Abilities(takes_effort, most))
    for pattern, takes_effort, most in (
        # Adaptive thinking; older models think only by a budget of tokens, and only if asked.
        (r"claude-(opus|sonnet)-4-6.*", True, 64_000),
        (r"claude-(opus-4-[78]|(fable|mythos|opus|sonnet|haiku)-[5-9]|mythos-preview).*", True, 128_000),
        (r"claude-(3-|3\.|instant|2).*", False, 4_096),
        (r"claude-opus-4-([01](-.*)?|2025.*)", False, 32_000),
        (r"claude-.*", False, 64_000),
        (r"gpt-.*chat-latest|gpt-5-pro.*|o1-(mini|preview).*", False, 16_384),
        (r"gpt-oss[-:].*", True, None),
        (r"gpt-[5-9].*", True, 128_000),
        (r"o[1-4](-.*)?", True, 100_000),
        (r"gpt-4\.1.*", False, 32_768),
        (r"(chat)?gpt-4o.*", False, 16_384),
        (r"gpt-(4|3\.5).*", False, 4_096),
        (r"gemini-(2\.5|[3-9]).*", True, 65_536),
        (r"gemini-.*", False, 8_192),
    )
)


def abilities_of(model: str) -> Abilities:
    """Look a model up by its name."""
    name = model.rpartition("/")[2]
    return next((found for pattern, found in _BY_NAME if pattern.fullmatch(name)), Abilities())
