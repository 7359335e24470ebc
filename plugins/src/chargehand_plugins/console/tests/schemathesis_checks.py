"""Loaded by Schemathesis: what fits its schema is refused by a rule that no schema can state, and by nothing else."""

from typing import Any, Final

import schemathesis
from schemathesis import Case, CheckContext, Response

RULES: Final = (
    "is above this installation's ceiling",
    "must be less than or equal to",  # a duration that is typed as text
    "must be greater than 0 seconds",
    "and allowed with no other",
    "give at least one of max_turns, budget_usd and deadline",  # all of them null
    "is not a cursor",
    "must be printable",  # as Unicode has it
    "The query is invalid",  # a field that it does not have
    "is a conversation, which has a transcript and no report",
    "there is no crew",
    "there is no agent",
    "there is no session",
    "cannot be used",  # a document
    "is valid under each of several",  # an output schema
    "exists and differs in",
)


@schemathesis.check
def refused_by_rules_only(_: CheckContext, response: Response, case: Case[Any]) -> None:
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if is_valid and response.status_code in (400, 405, 415, 422):
        detail = response.json()["detail"]
        assert any(rule in detail for rule in RULES), f"Refused, though it fits its schema: {detail}"
