"""What models support, by name: reasoning effort, temperature, and maximum output per turn.

The price list does not contain this. The first pattern that matches the whole name counts, with or without the prefix
that a gateway adds (`openai/gpt-6-sol`); nothing is assumed about an unknown model.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Abilities:
    takes_effort: bool = False
    takes_temperature: bool | None = None
    """Whether it accepts a sampling temperature in a turn without an effort; None if unknown."""
    max_output_tokens: int | None = None
    """Maximum tokens that it can write in one turn; None if unknown."""


_CLOUD: Final = re.compile(r"^(?:\w+\.)*(?:anthropic|openai)\.")
"""Prefix of model names at Bedrock."""
_SEEING: Final = re.compile(
    r"claude-(?!instant|2).*|(chat)?gpt-(4\.1|4-turbo|4o(?!-mini)|[5-9]).*|o[1-4](?!-mini|-preview).*|gemini-.*"
)
_BOUND_WITH_TOOLS: Final = re.compile(r"(chat)?gpt-(4\.1|4o|[5-9]).*|o[1-4](?!-mini|-preview).*")
_CAPS_COMPLETION: Final = re.compile(r"(chat)?gpt-([5-9]|\d\d).*|o[1-4](-.*)?")
_REASONS_WITHOUT_TOOLS: Final = re.compile(r"gpt-(5\.[2-9]|[6-9]|\d\d)(?!.*chat-latest).*")
_BY_NAME: Final = tuple(
    (re.compile(pattern), Abilities(takes_effort, takes_temperature, most))
    for pattern, takes_effort, takes_temperature, most in (
        # Adaptive thinking; older models need an explicit thinking budget.
        (r"claude-(opus|sonnet)-4-6.*", True, True, 64_000),
        (r"claude-(opus-4-[78]|(fable|mythos|opus|sonnet|haiku)-[5-9]|mythos-preview).*", True, False, 128_000),
        (r"claude-(3-|3\.|instant|2).*", False, True, 4_096),
        (r"claude-opus-4-([01](-.*)?|2025.*)", False, True, 32_000),
        (r"claude-.*", False, True, 64_000),
        (r"gpt-.*chat-latest|gpt-5-pro.*|o1-(mini|preview).*", False, False, 16_384),
        (r"gpt-oss[-:].*", True, True, None),
        (r"gpt-[5-9].*", True, False, 128_000),
        (r"o[1-4](-.*)?", True, False, 100_000),
        (r"gpt-4\.1.*", False, True, 32_768),
        (r"(chat)?gpt-4o.*", False, True, 16_384),
        (r"gpt-(4|3\.5).*", False, True, 4_096),
        (r"gemini-(2\.5|[3-9]).*", True, True, 65_536),
        (r"gemini-.*", False, True, 8_192),
    )
)


def abilities_of(model: str) -> Abilities:
    name = _bare(model)
    return next((abilities for pattern, abilities in _BY_NAME if pattern.fullmatch(name)), Abilities())


def can_see(model: str) -> bool:
    """Whether a model accepts pictures at no more than `PICTURE_TOKENS` each."""
    return bool(_SEEING.fullmatch(_bare(model)))


def is_bound_with_tools(model: str) -> bool:
    """Whether chat servers enforce a schema while a model has tools: OpenAI's do; Gemini's and Groq's refuse."""
    return bool(_BOUND_WITH_TOOLS.fullmatch(_bare(model)))


def caps_completion(model: str) -> bool:
    """Whether a model's output is capped by `max_completion_tokens`; OpenAI refuses `max_tokens` for it."""
    return bool(_CAPS_COMPLETION.fullmatch(_bare(model)))


def reasons_without_tools(model: str) -> bool:
    """Whether OpenAI's chat API refuses tools for a model unless its effort is `none`; gateways work around that."""
    return bool(_REASONS_WITHOUT_TOOLS.fullmatch(model))


def _bare(model: str) -> str:
    return _CLOUD.sub("", model.rpartition("/")[2]).replace("@", "-")
