"""What a run would cost by model, before it is paid for: turns from kept results, tokens from played sessions."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from statistics import mean
from typing import Final, cast

from activities.models.prices import Tokens, cost
from activities.models.tiers import DEFAULT_MODELS
from benchmarks.evaluation.desks.oracle import turns_of
from benchmarks.evaluation.desks.runs import LIMITS, DeskJob
from benchmarks.evaluation.results import Evaluated, read_results
from benchmarks.evaluation.sessions import Job
from benchmarks.tables import Row

_RESULTS: Final = Path(__file__).resolve().parents[1] / "results"
_USUAL_TURNS: Final = 6


def estimate(
    jobs: Sequence[Job], desks: Sequence[DeskJob] = (), kept: Path = _RESULTS / "evaluation.jsonl"
) -> list[Row]:
    """Estimate each dataset for each usual model and each model in the settings."""
    before = read_results(kept) if kept.exists() else []
    turns = {job.dataset.name: _turns(job, before) for job in jobs}
    turns |= {job.desk.name: sum(turns_of(task, job.desk) for task, _ in job.runs) for job in desks}
    most = sum((job.limits(case).budget_usd for job in jobs for case, _ in job.runs), Decimal(0))
    most += LIMITS.budget_usd * sum(len(job.runs) for job in desks)
    tokens = tokens_per_turn()
    return [_row(provider, model, turns, float(most), tokens) for provider, model in _models()]


def tokens_per_turn(file: Path = _RESULTS / "tokens.json") -> Tokens:
    """Average the tokens of a turn in the sessions of `python -m benchmarks tokens`, which use the real prompts."""
    rows = cast("list[Mapping[str, int]]", json.loads(file.read_text())["rows"])
    turns = sum(row["turns"] for row in rows)
    names = ("input tokens", "of them cached", "output tokens")
    used, cached, written = (sum(row.get(name) or 0 for row in rows) // turns for name in names)
    return Tokens(input=used, cached=cached, cache_written=0, output=written)


def _row(provider: str, model: str, turns: Mapping[str, float], most: float, tokens: Tokens) -> Row:
    a_turn = cost(provider, model, tokens) or Decimal(0)
    dollars = {name: float(a_turn * Decimal(count)) for name, count in turns.items()}
    total = {"all, $": sum(dollars.values())} if len(dollars) > 1 else {}
    return {
        "": f"{provider}:{model}",
        **{f"{name}, $": usd for name, usd in dollars.items()},
        **total,
        "never above, $": most,
    }


def _turns(job: Job, before: Sequence[Evaluated]) -> float:
    """Count the turns of all cases: those of earlier runs, or those of the gold plan."""
    known = [each for each in before if each.dataset == job.dataset.name]
    kept = known[0].measured("turns") if known else {}
    usual = mean(kept.values()) if kept else _USUAL_TURNS
    turns = (kept.get(case.id) or (2 * len(case.plan) + 2 if case.plan else usual) for case, _ in job.runs)
    return sum(min(each, job.limits(case).max_turns) for each, (case, _) in zip(turns, job.runs, strict=True))


def _models() -> Iterator[tuple[str, str]]:
    """List the models of every provider with a price list, and those in the settings."""
    named = cast("Mapping[str, str]", json.loads(os.environ.get("CHARGEHAND_MODELS") or "{}"))
    for provider, tiers in DEFAULT_MODELS.items():
        own = named.values() if os.environ.get("CHARGEHAND_PROVIDER", "") == provider else ()
        yield from ((provider, model) for model in dict.fromkeys((*tiers.values(), *own)))
