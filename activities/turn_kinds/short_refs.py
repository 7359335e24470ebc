"""Short refs, such as `p3`: what a model reads and writes for the whole refs of sources that everything else keeps.

They are numbered in the order in which a task names its sources. A conversation only grows, so each keeps its number.
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
"""Short refs in brackets; what is code is left alone."""
_VERBATIM: Final = "quote"
_OF_SOURCE: Final = re.compile(r"(?:^|_)(?:ref|source|url|uri|link|document)s?(?:_|$)", re.IGNORECASE)
"""Names of fields and arguments that may be a ref and nothing else."""

_COMPUTED: Final = ("sql:", "code:")
"""How a ref begins that tells a model nothing, the digest of a query or a program."""


class ShortRefs:
    """The short refs of one task."""

    def __init__(self, refs: Iterable[str] = ()) -> None:
        """Number refs in their order, each once. One that is no longer than its number stays as it is."""
        names = {ref: f"p{number}" for number, ref in enumerate(dict.fromkeys(refs), start=1)}
        self._short = {ref: name for ref, name in names.items() if len(ref) > len(name) or _SHORT.fullmatch(ref)}
        self._whole = {name: ref for ref, name in self._short.items()}
        known = "|".join(re.escape(ref) for ref in sorted(self._short, key=len, reverse=True))
        self._known = re.compile(rf"\[({known or '(?!)'})\]")

    def name(self, ref: str) -> str:
        """Return what a model calls a source."""
        return self._short.get(ref, ref)

    def shorten(self, text: str) -> str:
        """Replace each `[ref]` in a text that a model reads."""
        return self._known.sub(lambda cited: f"[{self._short[cited[1]]}]", text) if self._short else text

    def legend(self, text: str, titles: Mapping[str, str]) -> str:
        """List the sources that a shortened text cites, one a line."""
        refs = [self._whole[name] for name in dict.fromkeys(_ONE.findall(text)) if name in self._whole]
        return "\n".join(self.entry(ref, titles.get(ref, "")) for ref in refs)

    def explain(self, text: str, titles: Mapping[str, str]) -> str:
        """Shorten the refs of a text, and list below it the sources that it cites."""
        shortened = self.shorten(text)
        legend = self.legend(shortened, titles)
        return f"{shortened}\nSources:\n{legend}" if legend else shortened

    def introduced(self, text: str) -> set[str]:
        """Name the sources that a text introduces."""
        return {ref for ref, name in self._short.items() if f"[{name}] {ref}" in text}

    def entry(self, ref: str, title: str, *, is_known: bool = False) -> str:
        """Introduce a source by its names; by the short one only if the other is known."""
        short = self.name(ref)
        whole = "" if is_known or short == ref or ref.startswith(_COMPUTED) else ref
        return " ".join(filter(None, (f"[{short}]", whole, "" if title in ref else title)))

    def expand(self, text: str) -> str:
        """Replace each `[p3]` in a text that a model wrote; whole refs stay, and so do names of nothing."""

        def whole(cited: re.Match[str]) -> str:
            names = _SHORT.findall(cited[1] or "")
            if self._whole.keys().isdisjoint(names):
                return cited[0]
            return "".join(f"[{self._whole.get(name, name)}]" for name in names)

        return _CITED.sub(whole, text) if self._whole else text

    def expand_answer(self, answer: _Answer) -> _Answer:
        """Write whole refs into all that a model answers, quotations excepted."""
        return type(answer).model_validate(self._expand_all(answer.model_dump(), "")) if self._whole else answer

    def expand_call(self, call: ToolCall) -> ToolCall:
        """Write whole refs into the arguments of a tool that may be one."""
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
        if not isinstance(value, str) or not _OF_SOURCE.search(field):
            return value
        return self._whole.get(value.strip().strip("[]"), value)


WHOLE: Final = ShortRefs()
"""Leaves every ref as it is."""
