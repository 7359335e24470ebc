"""Sessions' accounts compared with the provider's: they match every charge, and contain no others."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from chargehand.contracts import Report
from tests.scripted_provider import Exchange, ScriptedRequest

PRICES: Final = (Decimal(1), Decimal(5))
"""Dollars per million input and output tokens, the same for every model."""
CALL_USD: Final = (1_000 * PRICES[0] + 100 * PRICES[1]) / 1_000_000
"""Cost of one scripted call."""


def charges(exchanges: Iterable[Exchange]) -> dict[str, Counter[str]]:
    """Count charges by session and step, which the calls' idempotency keys contain."""
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for exchange in exchanges:
        if exchange.reply is not None and exchange.reply.charged:
            workflow_id, _, step = exchange.request.headers["idempotency-key"].split(":")
            counted[session_of(exchange.request)][f"{workflow_id}:{step}"] += 1
    return counted


def session_of(request: ScriptedRequest) -> str:
    """Return the session that a model call belongs to."""
    return request.headers["idempotency-key"].partition(":")[0].partition("/")[0]


def extra_calls(charged: dict[str, Counter[str]]) -> int:
    """Count charges for steps that had already been charged."""
    return sum(count - 1 for steps in charged.values() for count in steps.values())


def repeated(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """List the charged calls whose step was charged again later."""
    latest: dict[str, Exchange] = {}
    lost: list[Exchange] = []
    for exchange in exchanges:
        if exchange.reply is not None and exchange.reply.charged:
            step = exchange.request.headers["idempotency-key"]
            if step in latest:
                lost.append(latest[step])
            latest[step] = exchange
    return lost


def differences(reports: Sequence[Report], charged: dict[str, Counter[str]]) -> tuple[str, ...]:
    """Return the differences between sessions' accounts and the provider's.

    The certain costs of a session must equal its charged steps, to the cent; the uncertain ones must be named and must
    cover any additional charges.
    """
    found: list[str] = []
    for report in reports:
        steps = charged.get(report.session, Counter[str]())
        in_doubt = report.usage.possibly_billed_twice_usd
        known, due = report.usage.cost_usd - in_doubt, len(steps) * CALL_USD
        twice = (steps.total() - len(steps)) * CALL_USD
        if known != due:
            found.append(f"{report.session} knows of ${known}, the provider charged ${due} for its steps")
        if in_doubt < twice:
            found.append(f"{report.session} names ${in_doubt} as in doubt, ${twice} were charged twice")
        if report.usage.turns != len(steps):
            found.append(f"{report.session} counts {report.usage.turns} turns, the provider {len(steps)}")
        if report.reserved_usd:
            found.append(f"{report.session} has ${report.reserved_usd} still set aside")
    return tuple(found)
