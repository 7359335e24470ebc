"""A check for Schemathesis: input that fits its schema is refused only by rules that no schema can express."""

from typing import Any, Final

import schemathesis
from schemathesis import Case, CheckContext, Response

RULES: Final = (
    "is above this installation's ceiling",
    "must be less than or equal to",  # a duration given as text
    "must be greater than 0 seconds",
    "and allowed with no other",
    "give at least one of max_turns, budget_usd and deadline",  # all of them null
    "is not a cursor",
    "must be printable",  # as defined by Unicode
    "The query is invalid",  # an unknown field
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
