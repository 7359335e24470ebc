"""Short refs, such as `p3`, that models read and write instead of the full refs used everywhere else.

They are numbered in the order in which a task mentions sources. A conversation only grows, so numbers are stable.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel

from activities.contracts.rounds import ToolCall

_Answer = TypeVar("_Answer", bound=BaseModel)
_NAME: Final = "p[1-9][0-9]{0,3}"
_SHORT: Final = re.compile(_NAME)
_ONE: Final = re.compile(rf"\[({_NAME})\]")
_CITED: Final = re.compile(rf"`[^`\n]*`|\[({_NAME}(?:[,;] ?{_NAME})*)\]")
"""Short refs in brackets; also matches code, which is left unchanged."""
_VERBATIM: Final = "quote"
_OF_SOURCE: Final = re.compile(r"(?:^|_)(?:ref|source|url|uri|link|document)s?(?:_|$)", re.IGNORECASE)
"""Names of fields and arguments whose value may be a plain ref."""

_COMPUTED: Final = ("sql:", "code:")
"""Prefixes of refs without meaning for a model: digests of queries and programs."""


class ShortRefs:
    """The short refs of one task."""

    def __init__(self, refs: Iterable[str] = ()) -> None:
        """Number refs in order, each once. A ref that is no longer than its number stays unchanged."""
        names = {ref: f"p{number}" for number, ref in enumerate(dict.fromkeys(refs), start=1)}
        self._short = {ref: name for ref, name in names.items() if len(ref) > len(name) or _SHORT.fullmatch(ref)}
        self._whole = {name: ref for ref, name in self._short.items()}
        known = "|".join(re.escape(ref) for ref in sorted(self._short, key=len, reverse=True))
        self._known = re.compile(rf"\[({known or '(?!)'})\]")

    def name(self, ref: str) -> str:
        """Return a source's name for models."""
        return self._short.get(ref, ref)

    def shorten(self, text: str) -> str:
        """Shorten each `[ref]` in a text for a model."""
        return self._known.sub(lambda cited: f"[{self._short[cited[1]]}]", text) if self._short else text

    def legend(self, text: str, titles: Mapping[str, str]) -> str:
        """List the sources cited by a shortened text, one per line."""
        refs = [self._whole[name] for name in dict.fromkeys(_ONE.findall(text)) if name in self._whole]
        return "\n".join(self.entry(ref, titles.get(ref, "")) for ref in refs)

    def explain(self, text: str, titles: Mapping[str, str]) -> str:
        """Shorten the refs of a text, and append a list of its sources."""
        shortened = self.shorten(text)
        legend = self.legend(shortened, titles)
        return f"{shortened}\nSources:\n{legend}" if legend else shortened

    def introduced(self, text: str) -> set[str]:
        """List the sources introduced by a text."""
        return {ref for ref, name in self._short.items() if f"[{name}] {ref}" in text}

    def entry(self, ref: str, title: str, *, is_known: bool = False) -> str:
        """Introduce a source by both names, or only the short one if the full one is already known."""
        short = self.name(ref)
        whole = "" if is_known or short == ref or ref.startswith(_COMPUTED) else ref
        return " ".join(filter(None, (f"[{short}]", whole, "" if title in ref else title)))

    def expand(self, text: str) -> str:
        """Expand each `[p3]` in a model's text; full and unknown refs stay unchanged."""

        def whole(cited: re.Match[str]) -> str:
            names = _SHORT.findall(cited[1] or "")
            if self._whole.keys().isdisjoint(names):
                return cited[0]
            return "".join(f"[{self._whole.get(name, name)}]" for name in names)

        return _CITED.sub(whole, text) if self._whole else text

    def expand_answer(self, answer: _Answer) -> _Answer:
        """Expand the refs in a model's answer, except in quotations."""
        return type(answer).model_validate(self._expand_all(answer.model_dump(), "")) if self._whole else answer

    def expand_call(self, call: ToolCall) -> ToolCall:
        """Expand refs in a tool's arguments that may contain one."""
        arguments = {name: self._expand_ref(each, name) for name, each in call.arguments.items()}
        return call.replace(arguments=arguments)

    def _expand_all(self, value: Any, field: str) -> Any:
        match value:
            case dict():
                fields = cast("dict[str, Any]", value)
                return {name: self._expand_all(each, name) for name, each in fields.items()}
            case list() | tuple():
                return [self._expand_all(each, field) for each in cast("list[Any]", value)]
            case str() if field != _VERBATIM:
                return self.expand(self._expand_ref(value, field))
            case _:
                return value

    def _expand_ref(self, value: Any, field: str) -> Any:
        if isinstance(value, list):
            return [self._expand_ref(each, field) for each in cast("list[Any]", value)]
        if not isinstance(value, str) or not _OF_SOURCE.search(field):
            return value
        return self._whole.get(value.strip().strip("[]"), value)


WHOLE: Final = ShortRefs()
"""Leaves all refs unchanged."""
