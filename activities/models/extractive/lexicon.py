"""The closed vocabulary of figures: words that ask for one, and words that change nothing."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Final

from activities.models.extractive.wording import Token


class Mark(Enum):
    """What a word of the grammar asks for."""

    COUNT = "how many"
    AMOUNT = "how much"
    WHAT = "what"
    WHICH = "which"
    WHEN = "when"
    SUM = "total"
    MEAN = "average"
    MAX = "highest"
    MIN = "lowest"
    MOST = "most"
    LEAST = "least"
    PER = "per"
    FROM = "from"
    BETWEEN = "between"
    TO = "to"
    AND = "and"


OPENERS: Final = frozenset({Mark.COUNT, Mark.AMOUNT, Mark.WHAT, Mark.WHICH, Mark.WHEN})
AGGREGATES: Final = frozenset({Mark.SUM, Mark.MEAN, Mark.MAX, Mark.MIN, Mark.MOST, Mark.LEAST})

_MARKS: Final[Mapping[str, Mapping[Mark, tuple[str, ...]]]] = {
    "en": {
        Mark.COUNT: ("how many", "number of"),
        Mark.AMOUNT: ("how much",),
        Mark.WHAT: ("what", "how high", "how large"),
        Mark.WHICH: ("which", "what"),
        Mark.WHEN: ("when",),
        Mark.SUM: ("total", "in total", "in all", "altogether", "overall", "sum of", "sum"),
        Mark.MEAN: ("average", "on average", "mean"),
        Mark.MAX: ("highest", "largest", "biggest", "greatest", "maximum"),
        Mark.MIN: ("lowest", "smallest", "minimum"),
        Mark.MOST: ("most",),
        Mark.LEAST: ("least", "fewest"),
        Mark.PER: ("per", "by", "for each", "for every"),
        Mark.FROM: ("from",),
        Mark.BETWEEN: ("between",),
        Mark.TO: ("to", "through"),
        Mark.AND: ("and",),
    },
    "de": {
        Mark.COUNT: ("wie viele", "wieviele", "anzahl"),
        Mark.AMOUNT: ("wie viel", "wieviel"),
        Mark.WHAT: ("was", "wie hoch", "wie gross"),
        Mark.WHICH: ("welche[rsnm]?",),
        Mark.WHEN: ("wann",),
        Mark.SUM: ("insgesamt", "gesamt", "gesamte[nr]?", "summe"),
        Mark.MEAN: ("durchschnittlich(?:e[nrs]?)?", "(?:im )?durchschnitt", "mittlere[nr]?"),
        Mark.MAX: ("hochste[nrs]?", "grosste[nrs]?", "maximale[nrs]?"),
        Mark.MIN: ("niedrigste[nrs]?", "kleinste[nrs]?", "geringste[nrs]?", "minimale[nrs]?"),
        Mark.MOST: ("meisten?", "am meisten"),
        Mark.LEAST: ("wenigsten?", "am wenigsten"),
        Mark.PER: ("je", "pro"),
        Mark.FROM: ("von", "vom"),
        Mark.BETWEEN: ("zwischen",),
        Mark.TO: ("bis", "bis zum"),
        Mark.AND: ("und",),
    },
}
_LONGEST: Final = 2
_EMPTY: Final[Mapping[str, frozenset[str]]] = {
    "en": frozenset(
        """
        a an the of in on at for is was were are be been do does did has have had there with during please give me tell
        show calculate compute we our us i my
        """.split()  # noqa: SIM905 - a list of words reads best as text
    ),
    "de": frozenset(
        """
        der die das dem den des ein eine einen einem einer eines im in am auf bei fur mit ist sind war waren wurde wurden
        hat hatte hatten haben gab es gibt betrug betragt betrugen bitte berechne nenne zeige mir wir unser unsere
        unseren unserer wahrend
        """.split()  # noqa: SIM905 - a list of words reads best as text
    ),
}
"""Words without which a question means the same. What excludes, compares or limits is never among them."""
_UNITS: Final = tuple(
    frozenset(group.split())
    for group in ("eur euro euros €", "usd dollar dollars $", "gbp pound pounds £", "chf franken", "% percent prozent")
) + tuple(frozenset({unit}) for unit in "kg g t km m cm mm l h min s kwh mwh".split())  # noqa: SIM905
_NOT_ADDED: Final = re.compile(
    r"(?:price|rate|rating|score|percent|share|ratio|average|mean|temperature|age|year|number|no|id|code|capacity|stock"
    r"|inventory|balance|employee|staff|member|subscriber|population|inhabitant|resident|headcount|level|height|width"
    r"|depth|speed|index|fee|fare|rent|tariff|limit|max|maximum|min|minimum|seat|berth|size|cumulative|running|built"
    r"|preis|gebuhr|tarif|miete|kurs|quote|anteil|prozent|temperatur|alter|jahr|baujahr|nummer|nr|platz|platze|kapazitat"
    r"|bestand|saldo|mitarbeiter|beschaftigte|mitglied|mitglieder|einwohner|abonnent|abonnenten|stand|hohe|breite|tiefe"
    r"|geschwindigkeit|note|bewertung|grosse|grenze|kumuliert|durchschnitt|mittelwert|%)s?"
)
"""Words of measures whose values over several rows make no sum: prices, states, shares and names in figures."""
TOTALS: Final = ("total", "totals", "sum", "subtotal", "grand total", "all", "overall", "summe", "gesamt", "insgesamt")
"""What the row of a table is called that adds up the others."""


def is_known(language: str) -> bool:
    """Whether figures can be asked for in a language."""
    return language in _MARKS


def marks_at(tokens: Sequence[Token], at: int, language: str) -> tuple[tuple[Mark, int], ...]:
    """List what the words at a token may ask for, and where they end; the longest only."""
    for length in range(_LONGEST, 0, -1):
        phrase = " ".join(token.word for token in tokens[at : at + length])
        found = [mark for mark, pattern in _patterns(language).items() if pattern.fullmatch(phrase)]
        if found and at + length <= len(tokens):
            return tuple((mark, at + length) for mark in found)
    return ()


@cache
def _patterns(language: str) -> dict[Mark, re.Pattern[str]]:
    return {mark: re.compile("|".join(f"(?:{form})" for form in forms)) for mark, forms in _MARKS[language].items()}


def is_empty(word: str, language: str) -> bool:
    """Whether a question means the same without a word."""
    return word in _EMPTY[language]


def unit_group(word: str) -> frozenset[str]:
    """List the ways to write a unit; nothing for what is none."""
    return next((group for group in _UNITS if word in group), frozenset())


def is_added(words: Sequence[str]) -> bool:
    """Whether the values of a measure of this name add up."""
    return not any(_NOT_ADDED.fullmatch(word) for word in words)

