"""The ten tasks: what the user asks, what the web and the documents say. Never imported by the model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from benchmarks.played.web import WebPage
from chargehand.contracts import Limits, SessionRequest

Provider = Literal["anthropic", "openai"]


@dataclass(frozen=True)
class Task:
    """A request, and the pages that are about it."""

    goal: str
    pages: tuple[WebPage, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict[str, str])
    """The user's documents by name."""
    provider: Provider = "anthropic"
    limits: Limits = field(default_factory=Limits)

    def request(self, documents: tuple[str, ...]) -> SessionRequest:
        return SessionRequest(goal=self.goal, documents=documents, limits=self.limits)


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")


BIKES: Final = {
    "Aldra": ("4,290", "five", "180"),
    "Bronte": ("3,990", "two", "160"),
    "Corvo": ("5,450", "ten", "200"),
    "Dunlin": ("2,890", "three", "140"),
    "Eskar": ("6,100", "seven", "225"),
}
"""List price in euros, years of warranty, payload in kilograms."""


def _bikes() -> Iterator[WebPage]:
    for name, (price, years, payload) in BIKES.items():
        maker = {0.02: f"The list price of the {name} is {price} euros.", 0.3: f"The {name} is built in one size."}
        dealer = {0.1: f"The maker gives a warranty of {years} years on the {name}, frame and motor included."}
        test = {0.25: f"We weighed it: the payload of the {name} is {payload} kilograms."}
        yield WebPage(f"www.{_slug(name)}.example/bike", f"{name} cargo bike: list price and sizes", maker)
        yield WebPage(f"dealer.example/{_slug(name)}", f"{name} cargo bike at the dealer: warranty and service", dealer)
        yield WebPage(f"magazine.example/{_slug(name)}", f"{name} cargo bike tested: payload on the hill", test)


COMPARISON: Final = Task(
    "Compare the cargo bikes Aldra, Bronte, Corvo, Dunlin and Eskar by list price, warranty and payload.",
    tuple(_bikes()),
)

MAYORS: Final = {
    "Asker": "Ida Holm",
    "Brenna": "Jon Falk",
    "Cairn": "Mette Dahl",
    "Dovre": "Pål Vik",
    "Enge": "Siri Moe",
}


def _islands() -> Iterator[WebPage]:
    names = ", ".join(list(MAYORS)[:4]) + " and " + list(MAYORS)[4]
    listed = f"By area, the five largest islands of Velmar are {names}."
    yield WebPage("geo.example/velmar", "Velmar archipelago: islands by area", {0.6: listed})
    for name, mayor in MAYORS.items():
        says = {0.4: f"Since the election of 2023 the mayor of {name} is {mayor}."}
        yield WebPage(f"{_slug(name)}.example/council", f"{name} municipality: the mayor and the council", says)


LIST_THEN_DETAIL: Final = Task(
    "Which are the five largest islands of the Velmar archipelago, and who is the mayor of each?", tuple(_islands())
)

_LEASE: Final = """# Lease of the boathouse at Quay Street

## 1. Term
The lease begins on 1 March 2021 and runs until one of the parties gives notice.

## 2. Rent
The rent is 1,850 euros a month, due on the third working day.

### 2.1 Late payment
The penalty for late payment is 2 percent of the month's rent for each week begun.

## 3. Repairs
The landlord pays for structural repairs to the roof, the walls and the slipway. The tenant pays for everything
else up to 400 euros a year.

## 4. Notice
The notice period is three months to the end of a quarter, in writing.
"""
_AMENDMENT: Final = """# Second amendment to the lease of the boathouse

Signed on 14 June 2024.

## 1. Notice
Section 4 of the lease is replaced: the notice period is six months to the end of a year, in writing.

## 2. Everything else
All other sections of the lease stay as they are.
"""
CONTRACT: Final = Task(
    "From the lease and its amendment: what is the notice period, who pays for structural repairs, and what is the "
    "penalty for late payment?",
    documents={"lease.md": _LEASE, "amendment-2.md": _AMENDMENT},
)

_ROUTES: Final = ("Island", "Estuary", "North Shore", "Cross Bay")
_SAILINGS: Final = [
    (f"2025-{month:02}-{day:02}", _ROUTES[(month * day) % 4], (month * 7 + day) % 5)
    for month in range(1, 13)
    for day in (3, 11, 19, 27)
]
CANCELLED: Final = {route: sum(cancelled for _, name, cancelled in _SAILINGS if name == route) for route in _ROUTES}
FIGURES_AND_WORDS: Final = Task(
    "How many sailings were cancelled on each route in 2025, and what does the handbook say about spare parts?",
    documents={
        "sailings.csv": "\n".join(
            ["date,route,sailings_cancelled", *(f"{date},{route},{count}" for date, route, count in _SAILINGS)]
        ),
        "handbook.md": "# Handbook\n\n## 1. Stores\nThe stores are open from six.\n\n"
        "## 2. Orders\nOrders for spare parts above 500 euros are signed by the operations manager.\n",
    },
    provider="openai",
)

_HEAT: Final = {
    "Fernwärme": ("Ende 2024 hing ein Drittel", "48 Millionen Euro", "70 Prozent bis 2035"),
    "Wärmepumpen": ("2024 heizten 1.900 Häuser", "9 Millionen Euro", "6.000 Geräte bis 2032"),
    "Sanierung": ("2024 waren 410 Häuser fertig", "22 Millionen Euro", "300 Häuser im Jahr"),
}


def _heat() -> Iterator[WebPage]:
    for number, (name, (state, costs, goal)) in enumerate(_HEAT.items()):
        office = {0.05: f"Zum Stand der {name} in Lindau: {state}, wie das Amt im Januar zählte."}
        paper = {0.2: f"Die Kosten der {name} betragen für die Stadt {costs}."}
        council = {0.3: f"Das Ziel des Rates für {name} lautet {goal}."}
        yield WebPage(f"amt{number}.example/stand", f"{name} Lindau: Stand der Dinge", office, "de")
        yield WebPage(f"zeitung.example/{number}", f"{name} Lindau: was die Kosten treibt", paper, "de")
        yield WebPage(f"rat.example/{number}", f"{name} Lindau: Ziel des Rates", council, "de")


LONG_REPORT: Final = Task(
    "Schreibe einen Bericht von mindestens 3.000 Wörtern über die Wärmewende in Lindau: Fernwärme, Wärmepumpen und "
    "Sanierung, jeweils mit Stand, Kosten und Ziel.",
    tuple(_heat()),
)

NO_ANSWER: Final = Task(
    "How many passengers used Lindholm airport in 1987?",
    (
        WebPage(
            "lindholm.example/history",
            "Lindholm airport: history",
            {0.1: "Lindholm airport opened in 1961.", 0.5: "In 1995 Lindholm counted 212,000 passengers."},
        ),
        WebPage(
            "aviation.example/lindholm",
            "Lindholm airport in figures: passengers since 1990",
            {0.2: "In 1990 Lindholm counted 180,000 passengers; earlier figures were lost in a fire."},
        ),
        WebPage(
            "town.example/lindholm", "Lindholm town guide", {0.2: "The airport of Lindholm lies north of the town."}
        ),
    ),
)

CONTRADICTION: Final = Task(
    "When did the Halden tunnel open, according to the operator and according to the national archive?",
    (
        WebPage(
            "operator.example/halden",
            "Halden tunnel: the operator on its tunnel",
            {0.15: "The Halden tunnel was opened to traffic on 14 May 1968."},
        ),
        WebPage(
            "archive.example/halden",
            "Halden tunnel: file in the national archive",
            {0.25: "The Halden tunnel was opened to traffic on 2 September 1971."},
        ),
    ),
    provider="openai",
)

PDF: Final = Task(
    "What does the Orrin water report say about leakage?",
    (
        WebPage(
            "orrin.example/report-2024.pdf",
            "Orrin water report 2024",
            {0.7: "In 2024 leakage in the Orrin network fell to 11.4 percent of the water fed in."},
        ),
    ),
)

CHINESE: Final = Task(
    "青岚湖大桥的主跨长度和通车日期是什么？",
    (
        WebPage("bridge.example/qinglan", "青岚湖大桥简介", {0.1: "青岚湖大桥的主跨长度为六百二十米。"}, "zh"),
        WebPage("news.example/qinglan", "青岚湖大桥正式通车", {0.2: "青岚湖大桥的通车日期是2019年9月28日。"}, "zh"),
    ),
    provider="openai",
)

LINES: Final = (
    *("Abeline", "Borvik", "Castel", "Drakon", "Elgin", "Farrow", "Gannet", "Hesper"),
    *("Ilmar", "Jorvik", "Kestrel", "Lomond", "Marlin", "Nordal", "Osprey"),
)


def _lines() -> Iterator[WebPage]:
    for number, name in enumerate(LINES):
        own = {0.2: f"Today the fleet of {name} has {12 + number} ships."}
        history = {0.8: f"The company {name} was founded in {1880 + 3 * number} by two captains."}
        yield WebPage(f"{_slug(name)}.example/fleet", f"{name} ferry line: the fleet", own)
        yield WebPage(f"history.example/{_slug(name)}", f"{name} ferry line: when it was founded", history)


SURVEY: Final = Task(
    f"Survey the ferry lines {', '.join(LINES[:-1])} and {LINES[-1]} by fleet and founded.",
    tuple(_lines()),
    limits=Limits(max_turns=80, budget_usd=Decimal(10)),
)

TASKS: Final[Mapping[str, Task]] = {
    "comparison": COMPARISON,
    "list-then-detail": LIST_THEN_DETAIL,
    "contract": CONTRACT,
    "figures-and-words": FIGURES_AND_WORDS,
    "long-report": LONG_REPORT,
    "no-answer": NO_ANSWER,
    "contradiction": CONTRADICTION,
    "pdf": PDF,
    "chinese": CHINESE,
    "survey": SURVEY,
}
