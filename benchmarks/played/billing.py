"""What a provider would bill for a reply: plausible token counts, a prompt cache, and thinking, which is billed too."""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.scripted_provider import ScriptedReply, ScriptedRequest, Tokens, truncated
from tests.scripted_provider.wires import arguments_of

_LEAST_CACHED: Final = 1_024
_STEP: Final = 512
"""Characters of the 128 tokens in which a cache without breakpoints grows."""
_THINKING: Final = {"none": 0, "minimal": 0, "low": 400, "medium": 1_200, "high": 3_000, "xhigh": 6_000, "max": 8_000}
"""Maximum thinking tokens, by effort."""
_SIGNATURE_BYTES: Final = 4
"""Bytes of the signature per thinking token."""
_UNASKED: Final = 1_200
"""Thinking tokens if no effort is named."""


def tokens_of(text: str) -> int:
    """Count a text's tokens: one per four ASCII characters, and one per other character."""
    plain = sum(map(str.isascii, text))
    return -(-plain // 4) + len(text) - plain


def thinking_tokens(body: dict[str, Any], answer: str) -> int:
    """Return how long the model thinks: it depends on the requested effort, and is less before tool use."""
    named: dict[str, Any] = {**(body.get("output_config") or {}), **(body.get("reasoning") or {})}
    effort: str | None = named.get("effort")
    most = _THINKING[effort] if effort else _UNASKED
    return most if answer in {"PlanAnswer", "SynthesisAnswer"} else most // 3


@dataclass
class Meter:
    """Bills replies; a prompt prefix up to an earlier breakpoint is read from the cache once that is answered."""

    cached: set[str] = field(default_factory=set[str])
    """Beginnings of prompts."""

    def bill(self, request: ScriptedRequest, reply: ScriptedReply) -> ScriptedReply:
        """Return what a reply used; one longer than its cap is cut off."""
        body = request.body
        output = tokens_of(reply.text) + sum(tokens_of(arguments_of(use)) + 30 for use in reply.tools)
        thought = thinking_tokens(body, request.answer)
        if body.get("thinking"):
            reply = reply.thinking(f"{request.sequence}-".ljust(_SIGNATURE_BYTES * thought, "s"))
        output += thought
        most: int = body.get("max_tokens") or body.get("max_output_tokens") or body.get("max_completion_tokens") or 0
        if output > most:
            reply, output = truncated(), most
        blocks = _blocks(body)
        beginnings = ["".join(blocks[:end]) for end in range(1, len(blocks) + 1)]
        reply = reply.using(self._tokens(beginnings, output))
        return replace(reply, on_first_token=lambda: self.cached.update(beginnings))

    def _tokens(self, beginnings: list[str], output: int) -> Tokens:
        known = max((len(text) for text in beginnings if text in self.cached), default=0)
        whole = beginnings[-1]
        cached = tokens_of(whole[:known])
        rest = tokens_of(whole[known:])
        if cached + rest < _LEAST_CACHED:
            return Tokens(input=cached + rest, output=output)
        return Tokens(input=0, cached=cached, cache_write=rest, output=output)


def prompt_tokens(request: ScriptedRequest) -> int:
    """Count a prompt's tokens, as the provider does when asked before the call."""
    return tokens_of("".join(_blocks(request.body)))


def _blocks(body: dict[str, Any]) -> list[str]:
    """Split a prompt into the pieces at which a cache can end."""
    tools = json.dumps(body.get("tools") or [], ensure_ascii=False)
    form = json.dumps(body.get("output_config") or body.get("text") or {}, ensure_ascii=False)
    system = body.get("system") or body.get("instructions") or ""
    fixed = tools + form + (system if isinstance(system, str) else "".join(part["text"] for part in system))
    messages: list[Any] = body.get("messages") or body.get("input") or []
    return [fixed, *(piece for message in messages for piece in _pieces(message))]


def _pieces(message: Any) -> list[str]:
    content = message.get("content", message)
    if isinstance(content, str):
        return [content[start : start + _STEP] for start in range(0, len(content), _STEP)]
    if isinstance(content, dict):
        return [json.dumps(content, ensure_ascii=False)]
    pieces = [""]
    for block in content:
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        pieces[-1] += json.dumps(plain, ensure_ascii=False)
        pieces += [""] if "cache_control" in block else []
    return list(filter(None, pieces))
