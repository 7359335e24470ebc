"""Replies from before a reset, which are not paid again."""

from datetime import date

from activities.turn.contracts import TurnRequest
from activities.turn.discarded_runs import DiscardedTurn
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Tier

_BEFORE = TurnRequest(
    session="s",
    step="turn-1",
    crew="research",
    agent="researcher",
    tier=Tier.SMALL,
    task=WorkTask(goal="g", instruction="i"),
    today=date(2026, 1, 1),
    max_input_tokens=1_000,
    max_output_tokens=1_000,
)


def test_a_reply_answers_the_whole_request() -> None:
    """What differs in any field, but for how much the model may write, is another request (S36)."""
    for field in TurnRequest.model_fields:
        same = _BEFORE.model_copy(update={"after_reset": True})
        other = same.model_copy(update={field: "something else"})
        assert DiscardedTurn(_BEFORE).matches(same)
        assert DiscardedTurn(_BEFORE).matches(other) is (field == "max_output_tokens")
