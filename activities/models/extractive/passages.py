"""The passages that searches found, each place once."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from activities.contracts import ToolResult
from activities.models.extractive.terms import weigh
from activities.models.extractive.windows import Passage
from activities.models.extractive.wording import content_stems, stems, telling_stems
from chargehand.contracts import Source

_PARTS: Final = re.compile(r"\n\s*(?:\[…\]|…|\[\.\.\.\])\s*\n")


def passages_of(searches: Iterable[tuple[str, ToolResult]], question: str) -> tuple[Passage, ...]:
    """Collect what searches found, each place once, with the best coverage that was stated for it.

    A search is its query with its result; a query of fewer words than the question covers that much less of it, save
    for words that stand in the name of the document.
    """
    found: dict[tuple[str, str], Passage] = {}
    wanted = telling_stems(question)
    for query, result in searches:
        looked_for = frozenset(content_stems(query))
        stated = result.output.get("coverage")
        coverages: Mapping[str, JsonValue] = stated if isinstance(stated, dict) else {}
        terms = weigh(question, [_said(source) for source in result.sources])
        for source in result.sources:
            said = coverages.get(source.ref)
            name = frozenset(stems(source.ref.split("#", 1)[0]))
            kept = len(wanted & (looked_for | name)) / len(wanted) if wanted else 1.0
            own = frozenset(stems(_said(source)))
            coverage = float(said) * kept if isinstance(said, int | float) else terms.share(own)
            for text in _PARTS.split(source.quote):
                known = found.get((source.ref, text))
                if text.strip() and (known is None or known.coverage < coverage):
                    found[source.ref, text] = Passage(source, text, coverage, known.rank if known else len(found))
    return tuple(found.values())


def _said(source: Source) -> str:
    return f"{source.title} {source.ref.split('#', 1)[0]} {source.quote}"
