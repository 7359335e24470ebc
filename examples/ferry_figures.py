"""The figures of Carrow Harbour Ferries in 2025: what happened, and all that follows from it by arithmetic.

Every number that the example tables hold is derived here from `INCIDENTS` by integer arithmetic, so the tables agree
with each other, with the rules in the operations handbook, and with themselves on every machine.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class Vessel:
    """A vessel as the register has it."""

    name: str
    call_sign: str
    built: int
    length_m: str
    passengers_max: int
    engines: str
    home_route: str
    next_dry_dock: str


@dataclass(frozen=True)
class Route:
    """A route as the handbook has it."""

    name: str
    headway_minutes: int
    single_fare_eur: Decimal


@dataclass(frozen=True)
class Outage:
    """One row of the outage table."""

    day: date
    route: str
    vessel: str
    cause: str
    minutes_lost: int
    sailings_cancelled: int
    passengers_affected: int


VESSELS = (
    Vessel("Kittiwake", "EICK7", 2011, "28.4", 180, "2 x Halvorsen D9", "Island", "2026-11-09"),
    Vessel("Guillemot", "EIGL2", 2017, "32.0", 220, "2 x Halvorsen D9", "Island", "2026-03-02"),
    Vessel("Turnstone", "EITS4", 2008, "24.6", 140, "2 x Halvorsen D9", "Estuary", "2026-01-12"),
    Vessel("Sandpiper", "EISP9", 2014, "19.8", 96, "2 x Halvorsen D6", "North Shore", "2026-10-05"),
    Vessel("Dunlin", "EIDN3", 2014, "19.8", 96, "2 x Halvorsen D6", "North Shore", "2026-10-19"),
    Vessel("Oystercatcher", "EIOC6", 1999, "22.1", 110, "2 x Halvorsen D9", "Cross Bay", "2027-02-08"),
)

ROUTES = (
    Route("North Shore", 20, Decimal("3.20")),
    Route("Island", 75, Decimal("9.50")),
    Route("Estuary", 40, Decimal("4.80")),
    Route("Cross Bay", 60, Decimal("5.60")),
)

LOAD_PERCENT_BY_MONTH = (28, 28, 28, 40, 40, 52, 66, 66, 52, 40, 28, 28)
WEEKEND_EXTRA_PERCENT = 8
ROUGH_WEATHER_LOAD_PERCENT = 60
"""Share of the usual passengers who turn up at all when the forecast is bad."""

CLAIMS_PERCENT = 60
"""Share of the passengers on cancelled sailings who claim their fare."""

EUR_PER_ENGINE_MINUTE = 14
"""Parts and labour of an engine call-out, for each minute of service that the fault cost."""

INCIDENTS = """
2025-01-04 | Guillemot     | crew shortage     |  75
2025-01-07 | Guillemot     | weather           | 450
2025-01-07 | Kittiwake     | weather           | 375
2025-01-07 | Turnstone     | weather           | 160
2025-01-08 | Sandpiper     | propeller debris  | 105
2025-01-11 | Dunlin        | fog               |  50
2025-01-11 | Sandpiper     | fog               |  55
2025-01-15 | Kittiwake     | engine fault      |  60
2025-01-22 | Oystercatcher | engine fault      | 100 | Estuary
2025-01-24 | Dunlin        | weather           | 320
2025-01-24 | Guillemot     | weather           | 780
2025-01-24 | Kittiwake     | weather           | 780
2025-01-24 | Sandpiper     | weather           | 340
2025-01-24 | Turnstone     | weather           | 560
2025-01-29 | Kittiwake     | engine fault      |  45
2025-02-03 | Dunlin        | crew shortage     |  25
2025-02-04 | Guillemot     | engine fault      |  80
2025-02-11 | Turnstone     | engine fault      |  95
2025-02-12 | Guillemot     | propeller debris  |  85
2025-02-15 | Guillemot     | weather           | 300
2025-02-15 | Kittiwake     | weather           | 225
2025-02-20 | Kittiwake     | engine fault      |  75
2025-03-02 | Turnstone     | fog               |  80
2025-03-03 | Dunlin        | electrical fault  |  80
2025-03-05 | Kittiwake     | engine fault      |  50
2025-03-09 | Guillemot     | weather           | 225
2025-03-13 | Sandpiper     | crew shortage     | 130
2025-03-14 | Turnstone     | engine fault      | 480
2025-03-15 | Turnstone     | engine fault      | 510
2025-03-16 | Turnstone     | engine fault      | 300
2025-03-21 | Sandpiper     | engine fault      |  45
2025-03-27 | Kittiwake     | engine fault      |  90
2025-03-27 | Turnstone     | crew shortage     |  40
2025-04-02 | Guillemot     | crew shortage     |  50
2025-04-04 | Oystercatcher | berth conflict    |  40
2025-04-05 | Turnstone     | crew shortage     |  55
2025-04-18 | Oystercatcher | engine fault      |  85
2025-04-22 | Kittiwake     | engine fault      |  55
2025-04-25 | Guillemot     | weather           | 310
2025-04-25 | Kittiwake     | weather           | 240
2025-04-29 | Guillemot     | engine fault      | 120
2025-04-30 | Guillemot     | electrical fault  |  35
2025-05-06 | Kittiwake     | berth conflict    |  35
2025-05-08 | Dunlin        | engine fault      |  35
2025-05-13 | Kittiwake     | engine fault      |  70
2025-05-20 | Sandpiper     | propeller debris  | 120
2025-05-21 | Guillemot     | weather           | 150
2025-05-27 | Oystercatcher | engine fault      | 130
2025-05-29 | Dunlin        | medical emergency |  20
2025-05-29 | Guillemot     | propeller debris  |  60
2025-06-03 | Turnstone     | engine fault      | 140
2025-06-04 | Dunlin        | berth conflict    |  30
2025-06-04 | Guillemot     | berth conflict    |  40
2025-06-17 | Kittiwake     | engine fault      | 110
2025-06-25 | Guillemot     | engine fault      |  75
2025-06-25 | Oystercatcher | berth conflict    |  25
2025-06-26 | Oystercatcher | medical emergency |  45
2025-06-30 | Kittiwake     | engine fault      |  65
2025-07-04 | Oystercatcher | weather           | 120
2025-07-08 | Kittiwake     | engine fault      |  85
2025-07-11 | Kittiwake     | berth conflict    |  30
2025-07-14 | Oystercatcher | engine fault      |  60
2025-07-22 | Turnstone     | engine fault      | 210
2025-07-24 | Sandpiper     | electrical fault  |  90
2025-07-26 | Dunlin        | crew shortage     |  55
2025-07-29 | Sandpiper     | engine fault      |  60
2025-08-02 | Guillemot     | engine fault      | 145
2025-08-02 | Turnstone     | medical emergency |  40
2025-08-08 | Turnstone     | medical emergency |  45
2025-08-09 | Turnstone     | engine fault      | 165
2025-08-18 | Turnstone     | electrical fault  |  75
2025-08-19 | Kittiwake     | engine fault      |  95
2025-08-23 | Kittiwake     | medical emergency |  20
2025-08-23 | Oystercatcher | engine fault      | 150
2025-08-26 | Turnstone     | electrical fault  |  45
2025-08-28 | Guillemot     | weather           | 240
2025-08-28 | Kittiwake     | weather           | 165
2025-09-09 | Sandpiper     | crew shortage     |  25
2025-09-11 | Kittiwake     | crew shortage     |  45
2025-09-11 | Oystercatcher | engine fault      |  90
2025-09-13 | Oystercatcher | electrical fault  |  95
2025-09-16 | Guillemot     | weather           | 390
2025-09-16 | Kittiwake     | weather           | 315
2025-09-16 | Oystercatcher | weather           | 180
2025-09-24 | Kittiwake     | engine fault      |  60
2025-09-30 | Guillemot     | fog               |  95
2025-09-30 | Sandpiper     | fog               |  40
2025-10-03 | Dunlin        | weather           | 100
2025-10-03 | Guillemot     | weather           | 540
2025-10-03 | Kittiwake     | weather           | 465
2025-10-03 | Oystercatcher | weather           | 300
2025-10-03 | Turnstone     | weather           | 240
2025-10-07 | Kittiwake     | engine fault      |  80
2025-10-10 | Turnstone     | berth conflict    |  35
2025-10-14 | Dunlin        | propeller debris  |  70
2025-10-15 | Guillemot     | engine fault      |  60
2025-10-22 | Dunlin        | engine fault      |  50
2025-10-24 | Guillemot     | weather           | 315
2025-10-24 | Oystercatcher | weather           | 120
2025-10-28 | Sandpiper     | medical emergency |  40
2025-10-30 | Turnstone     | engine fault      |  55
2025-11-02 | Sandpiper     | steering fault    | 115
2025-11-06 | Sandpiper     | engine fault      |  40
2025-11-14 | Guillemot     | weather           | 600
2025-11-14 | Sandpiper     | weather           | 140
2025-11-14 | Turnstone     | weather           | 320
2025-11-18 | Turnstone     | engine fault      |  40
2025-11-25 | Dunlin        | fog               |  60
2025-11-25 | Turnstone     | fog               | 110
2025-12-02 | Guillemot     | engine fault      |  70
2025-12-05 | Guillemot     | weather           | 465
2025-12-05 | Kittiwake     | weather           | 390
2025-12-08 | Kittiwake     | steering fault    |  45
2025-12-10 | Kittiwake     | steering fault    | 135
2025-12-10 | Turnstone     | steering fault    |  40
2025-12-11 | Kittiwake     | engine fault      |  75
2025-12-17 | Oystercatcher | engine fault      |  45 | North Shore
2025-12-20 | Guillemot     | weather           | 255
2025-12-20 | Kittiwake     | weather           | 180
2025-12-27 | Turnstone     | propeller debris  | 110
"""
"""Date, vessel, cause, minutes of service lost, and the route where it was not the vessel's home route."""

SERVICING_EUR = {
    "Kittiwake": 3150,
    "Guillemot": 3480,
    "Turnstone": 2890,
    "Sandpiper": 1640,
    "Dunlin": 1610,
    "Oystercatcher": 2240,
}
"""Planned servicing in a month of average use; summer months run more hours."""

LARGE_REPAIRS = (
    (1, "Guillemot", 9860, "Port stabiliser fin seal"),
    (2, "Oystercatcher", 148600, "Dry dock: hull plating and shaft bearings"),
    (3, "Turnstone", 23750, "Raw-water pump, impeller and heat exchanger clean"),
    (4, "Guillemot", 6120, "Bow door hydraulics"),
    (5, "Sandpiper", 5480, "Propeller repair after debris strike"),
    (6, "Turnstone", 11900, "Exhaust riser replacement"),
    (8, "Oystercatcher", 8300, "Starboard injector set"),
    (8, "Turnstone", 4650, "Coolant pump and thermostat"),
    (10, "Dunlin", 3970, "Propeller repair after debris strike"),
    (11, "Kittiwake", 61200, "Dry dock: survey and hull coating"),
    (12, "Kittiwake", 7340, "Steering gear overhaul"),
)
"""Month, vessel, euros, what was done; all beyond servicing and engine call-outs."""


def outages() -> tuple[Outage, ...]:
    """Work out every row of the outage table from the incidents."""
    return tuple(_outage(line) for line in INCIDENTS.strip().splitlines())


def repairs() -> Iterator[tuple[str, str, int, int, str]]:
    """Yield month, vessel, invoices, euros and largest item, for every month and vessel."""
    engine_minutes: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for outage in outages():
        if outage.cause == "engine fault":
            engine_minutes[outage.day.month, outage.vessel].append(outage.minutes_lost)
    large = {(month, vessel): (euros, item) for month, vessel, euros, item in LARGE_REPAIRS}
    for month in range(1, 13):
        for vessel in VESSELS:
            faults = engine_minutes[month, vessel.name]
            servicing = SERVICING_EUR[vessel.name] * (80 + LOAD_PERCENT_BY_MONTH[month - 1]) // 120
            call_outs = sum(faults) * EUR_PER_ENGINE_MINUTE
            euros, item = large.get((month, vessel.name), (0, ""))
            largest = item or ("Engine call-out" if call_outs > servicing else "Planned servicing")
            yield f"2025-{month:02}", vessel.name, 1 + len(faults) + bool(item), servicing + call_outs + euros, largest


def refunds() -> Iterator[tuple[str, str, int, Decimal]]:
    """Yield month, route, claims and euros, for every month and route with the fares of the handbook."""
    claims: defaultdict[tuple[int, str], int] = defaultdict(int)
    for outage in outages():
        on_cancelled = outage.passengers_affected * outage.sailings_cancelled // (outage.sailings_cancelled + 1)
        claims[outage.day.month, outage.route] += on_cancelled * CLAIMS_PERCENT // 100
    for month in range(1, 13):
        for route in ROUTES:
            number = claims[month, route.name]
            yield f"2025-{month:02}", route.name, number, number * route.single_fare_eur


def _outage(line: str) -> Outage:
    day_text, vessel_name, cause, minutes_text, *elsewhere = (part.strip() for part in line.split("|"))
    day, minutes = date.fromisoformat(day_text), int(minutes_text)
    vessel = next(vessel for vessel in VESSELS if vessel.name == vessel_name)
    route_name = elsewhere[0] if elsewhere else vessel.home_route
    route = next(route for route in ROUTES if route.name == route_name)
    load = LOAD_PERCENT_BY_MONTH[day.month - 1] + (WEEKEND_EXTRA_PERCENT if day.weekday() >= 5 else 0)
    aboard = vessel.passengers_max * load // 100
    if cause == "weather":
        aboard = aboard * ROUGH_WEATHER_LOAD_PERCENT // 100
    cancelled = minutes // route.headway_minutes
    return Outage(day, route.name, vessel.name, cause, minutes, cancelled, aboard * (cancelled + 1))
