"""The results of tools as a model reads them: each text, title and address once in a conversation."""

import re
from typing import Final

from pydantic_core import to_json

from activities.contracts.rounds import PASSAGE_GAP, ToolCall, ToolResult
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import Source

_TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ABOVE: Final = "(the text is above, under [{}])"


class ShownText:
    """What the results of a conversation have shown so far.

    Rendering depends on earlier results only, so what is rendered of a round never changes.
    """

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = {}
        """By document or page: the texts shown of it, by `ref`."""
        self._titles: set[tuple[str, str]] = set()

    def render(self, result: ToolResult, call: ToolCall | None = None) -> str:
        """Render a result: the tool's name, its output as JSON, then each source with its text."""
        parts = [to_json(result.output, inf_nan_mode="null").decode()] if result.output else []
        said = set(map(str, call.arguments.values())) if call else set[str]()
        parts += [self._source(source, said) for source in result.sources]
        # Never echo an unknown tool name: the model wrote it.
        name = result.tool if _TOOL_NAME.fullmatch(result.tool) else "that tool"
        return f"From {name}:\n" + data_block("\n\n".join(parts))

    def _source(self, source: Source, said: set[str]) -> str:
        title = "" if source.title in said or source.title in source.ref else source.title
        if (source.ref, title) in self._titles:
            title = ""
        self._titles.add((source.ref, title))
        return f"[{source.ref}] {title}".rstrip() + f"\n{self._text(source)}"

    def _text(self, source: Source) -> str:
        texts = self._texts.setdefault(source.ref.partition("#")[0], {})
        passages = [self._passage(passage, texts) for passage in source.quote.split(PASSAGE_GAP)]
        texts[source.ref] = PASSAGE_GAP.join(filter(None, (texts.get(source.ref), source.quote)))
        return PASSAGE_GAP.join(dict.fromkeys(passages))

    def _passage(self, passage: str, texts: dict[str, str]) -> str:
        above = next((_ABOVE.format(ref) for ref, text in texts.items() if passage in text), passage)
        # Never longer than the text itself, by which the cost of a turn is bounded.
        return min(above, passage, key=len)
