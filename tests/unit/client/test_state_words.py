"""The words for states and stop reasons."""

from typing import get_args

from chargehand.contracts import SessionState, StopReason, SubtaskState
from chargehand.listing import STATES, WAITING_STATES
from chargehand.state_words import (
    NEEDS,
    NO_REPORT,
    SESSION_STATES,
    STOP_REASONS,
    SUBTASK_MARKS,
    state_words,
    stop_words,
)


def test_every_state_and_stop_reason_has_words() -> None:
    """One that is added to a contract is added here, and a list shows none of them as it is spelt there."""
    assert {*get_args(SessionState)} <= {*SESSION_STATES}
    assert {*NO_REPORT} == {*get_args(SessionState)}
    assert {*NEEDS} == {*WAITING_STATES}
    assert {*STOP_REASONS} == {*get_args(StopReason)}
    assert {*SUBTASK_MARKS} == {*get_args(SubtaskState)}
    assert [each for each in STATES if "_" in state_words(each)] == []


def test_what_a_newer_worker_says_is_readable() -> None:
    """A state and a stop reason that this version does not know; Temporal's spelling is not shown beside ours."""
    assert state_words("canceled") == state_words("cancelled") == "cancelled"
    assert (state_words("awaiting_tide"), stop_words("out_of_coal")) == ("awaiting tide", "out of coal")
