"""The words for states and stop reasons."""

from typing import get_args

import pytest

from chargehand.contracts import Escalation, FailureReason, SessionState, StopReason, SubtaskState, Verification
from chargehand.listing import STATES
from chargehand.state_words import (
    NO_REPORT,
    REASONS,
    SESSION_STATES,
    STOP_REASONS,
    STOP_REMEDIES,
    SUBTASK_MARKS,
    EndReason,
    reason_words,
    standing,
)

_ASKED_FOR = ("completed", "partial", "unanswered", "finish_now", "closed", "idle")
"""Ends that neither a limit nor a failure caused, or whose gaps say more."""


def test_every_state_and_stop_reason_has_a_label() -> None:
    """A value added to a contract must be added here too; only a completed session is green."""
    assert {*get_args(SessionState)} <= {*SESSION_STATES}
    assert {*NO_REPORT} == {*get_args(SessionState)}
    assert {*STOP_REASONS} == {*get_args(StopReason), *get_args(EndReason)}
    assert {*STOP_REASONS} - {*STOP_REMEDIES} == {*_ASKED_FOR}
    assert {*SUBTASK_MARKS} == {*get_args(SubtaskState)}
    reasons = {*get_args(FailureReason), *get_args(Escalation.model_fields["reason"].annotation)}
    assert {*REASONS} <= reasons
    assert [each for each in reasons if "_" in reason_words(each)] == []
    assert [each for each in STATES if "_" in standing(each).words] == []
    assert [each for each in STATES if standing(each).tone == "success"] == []
    assert [each for each in STOP_REASONS if standing("finished", each).tone == "success"] == ["completed"]


@pytest.mark.parametrize("stop_reason", get_args(StopReason))
@pytest.mark.parametrize("verification", [None, *get_args(Verification)])
def test_only_a_complete_and_verified_answer_is_green(
    stop_reason: StopReason, verification: Verification | None
) -> None:
    ending = standing("finished", stop_reason, verification)

    is_green = stop_reason == "completed" and verification in {None, "computed", "supported"}
    assert (ending.tone == "success") == is_green
    assert (ending.words == "answered") == is_green


def test_states_from_a_newer_worker_are_readable() -> None:
    assert standing("canceled") == standing("cancelled")
    assert standing("awaiting_tide") == ("awaiting tide", "waiting")
    assert standing("finished", "out_of_coal") == ("out of coal", "partial")
