"""The closed vocabulary of figures: words that ask for one, and words that change nothing."""

import re
from collections.abc import Sequence
from enum import Enum
from functools import cache, lru_cache
from typing import Final

from activities.models.extractive.wording import Token

LANGUAGES: Final = ("en", "de")


class Mark(Enum):
    """What words ask for: their forms, without accents, in each of the languages."""

    COUNT = ("how many|number of", "wie viele|wieviele|anzahl")
    AMOUNT = ("how much", "wie viel|wieviel")
    WHAT = ("what|how high|how large", "was|wie hoch|wie gross")
    WHICH = ("which|what", "welche[rsnm]?")
    WHEN = ("when", "wann")
    SUM = ("total|in total|in all|altogether|overall|sum of|sum", "insgesamt|gesamte?[nr]?|summe")
    MEAN = ("average|on average|mean", "durchschnittlich(e[nrs]?)?|im durchschnitt|mittlere[nr]?")
    MAX = ("highest|largest|biggest|greatest|maximum", "(hochste|grosste|maximale)[nrs]?")
    MIN = ("lowest|smallest|minimum", "(niedrigste|kleinste|geringste|minimale)[nrs]?")
    MOST = ("most", "meisten?|am meisten")
    PER = ("per|by|for each|for every", "je|pro")
    FROM = ("from", "von|vom")
    BETWEEN = ("between", "zwischen")
    TO = ("to|through", "bis|bis zum")
    AND = ("and", "und")


OPENERS: Final = (Mark.COUNT, Mark.AMOUNT, Mark.WHAT, Mark.WHICH, Mark.WHEN)
AGGREGATES: Final = (Mark.SUM, Mark.MEAN, Mark.MAX, Mark.MIN, Mark.MOST)

_EMPTY: Final = {
    "en": """
        a an the of in on at for is was were are be been do does did has have had there with during please give me tell
        show calculate compute we our us i my
    """,
    "de": """
        der die das dem den des ein eine einen einem einer eines im in am auf bei fur mit ist sind war waren
        wurde wurden hat hatte hatten haben gab es gibt betrug betragt betrugen bitte berechne nenne zeige mir wir unser
        unsere unseren unserer wahrend
    """,
}
"""Words without which a question means the same. What excludes, compares or limits is never among them."""
_UNITS: Final = "eur euro euros €|usd dollar dollars $|gbp pound pounds £|chf franken|% percent|kg|g|t|km|m|l|h|kwh"
_NOT_ADDED: Final = re.compile(
    r"(price|rate|score|percent|share|ratio|average|mean|temperature|age|year|number|no|id|code|capacity|stock"
    r"|inventory|balance|employee|staff|member|subscriber|population|inhabitant|resident|headcount|level|height|width"
    r"|depth|speed|index|fee|fare|rent|tariff|limit|max|maximum|min|minimum|seat|berth|size|cumulative|running|built"
    r"|reading|rating|target|budget|plan|planned|forecast|room|bed|animal|tree|vehicle|pupil|student|household|customer|user"
    r"|account|capacities|unit|per|each|daily|weekly|monthly|yearly|annual|hourly|salary|je|pro|%|\w*(preis|gebuhr"
    r"|tarif|miete|kurs|quote|anteil|prozent|temperatur|alter|jahr|nummer|nr|platz|platze|kapazitat|bestand|saldo"
    r"|mitarbeiter|beschaftigte|mitglied|mitglieder|einwohner|abonnent|abonnenten|stand|hohe|breite|tiefe"
    r"|note|bewertung|geschwindigkeit|grosse|grenze|kumuliert|durchschnitt|mittelwert|ziel|plan|zimmer|betten|tiere|baume|fahrzeuge"
    r"|schuler|haushalte|kunden|nutzer|konten))s?"
)
"""Words of measures whose values over several rows make no sum: prices, states, shares, plans and names in figures."""
_FLOW: Final = re.compile(
    r"\w{3,}ed|used|lost|sold|paid|spent|made|sent|bought|minutes|hours|nights|visit(or)?s|guests|loans|sales|passengers"
    r"|income|revenue|costs?|(ver|ge)\w+t|minuten|stunden|nachte|besuch\w*|gaste|ausleihen|fahrgaste|umsatz\w*|kosten"
)
TOTALS: Final = ("total", "totals", "sum", "subtotal", "grand total", "all", "overall", "summe", "gesamt", "insgesamt")
"""What the row of a table is called that adds up the others."""


def marks_at(tokens: Sequence[Token], at: int, language: str) -> list[tuple[Mark, int]]:
    """List what the words at a token may ask for, and where they end; the longest only."""
    for end in (at + 2, at + 1):
        phrase = " ".join(token.word for token in tokens[at:end])
        found = [mark for mark in Mark if re.fullmatch(mark.value[LANGUAGES.index(language)], phrase)]
        if found and end <= len(tokens):
            return [(mark, end) for mark in found]
    return []


@cache
def empty_words(language: str) -> frozenset[str]:
    return frozenset(_EMPTY[language].split())


@lru_cache(maxsize=10_000)
def unit_forms(word: str) -> frozenset[str]:
    """List the ways to write a unit; nothing for what is none."""
    return frozenset(form for group in _UNITS.split("|") if word in group.split() for form in group.split())


def is_flow(words: Sequence[str]) -> bool:
    """Whether amounts of this name can only have come about bit by bit: money, or what was lost, sold or booked."""
    return any(_FLOW.fullmatch(word) or len(unit_forms(word)) > 1 for word in words)


def is_added(words: Sequence[str]) -> bool:
    return not any(_NOT_ADDED.fullmatch(word) for word in words)
