"""Tool calls that a policy or a person must allow: what is counted, and that the same call is made once."""

from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from activities.models.replies import LONGEST_ARGUMENTS
from chargehand.contracts import CallDecision, Obligation, ToolRule
from chargehand.converter import PayloadConverter
from workflows.calls import CallRefused, Calls, Pending
from workflows.contracts import CallRequest, CallsState
from workflows.rules.policy import acting_hash

_UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
_ONCE = Obligation(
    key="desk/clerk/0",
    tool="refund",
    rule=ToolRule.model_validate(
        {"tool": "refund", "at_most_calls": 1, "at_most_sum": {"argument": "amount", "total": 1_234_567}}
    ),
)


def _request(number: int = 1, *, amount: JsonValue = 100, **fields: object) -> CallRequest:
    return CallRequest.model_validate(
        {
            "child": "s/1/clerk/2",
            "number": number,
            "token": f"t{number}",
            "subtask": "T1",
            "agent": "clerk",
            "tool": "refund",
            "arguments": {"amount": amount},
            "acts": True,
            **fields,
        }
    )


def _decided(pending: Pending, decision: str, **fields: object) -> CallDecision:
    return CallDecision.model_validate(
        {"call": pending.shown.id, "hash": pending.shown.hash, "decision": decision, **fields}
    )


def _doubtful(calls: Calls) -> Pending:
    """Have a call allowed whose outcome then is unknown."""
    assert calls.judge(_request(policy=(_ONCE,))) is not None
    doubtful = _request(2, policy=(_ONCE,), is_doubtful=True)
    assert calls.judge(doubtful) is None
    return calls.open(doubtful, _UNTIL)


def test_a_call_that_is_made_again_counts_once() -> None:
    """The person who has it made again knows that it was not applied: a limit of one call does not forbid that."""
    calls = Calls()
    calls.decide(_decided(_doubtful(calls), "approve"))

    assert calls.policy.state().calls == {_ONCE.key: 1}
    assert calls.policy.state().sums == {_ONCE.key: 100}


def test_a_call_that_is_made_again_with_other_arguments_counts_with_those() -> None:
    """What it comes to now is within the sum, and is what later calls are measured against."""
    calls = Calls()
    pending = _doubtful(calls)
    with pytest.raises(CallRefused, match="the sum of amount is at most 1234567 in a session; 0 is used"):
        calls.check(_decided(pending, "edit", arguments={"amount": 1_234_568}))
    calls.decide(_decided(pending, "edit", arguments={"amount": 300}))

    assert calls.policy.state().calls == {_ONCE.key: 1}
    assert calls.policy.state().sums == {_ONCE.key: 300}


def test_a_call_whose_subtask_has_ended_was_not_made() -> None:
    """A reply that reached nobody counts for nothing: the next attempt may make the call."""
    calls = Calls()
    gone = _request(policy=(_ONCE,))
    reply = calls.judge(gone)
    assert reply is not None
    calls.withdraw(gone, reply)

    again = calls.judge(_request(2, policy=(_ONCE,)))

    assert again is not None
    assert again.verdict == "allowed"


def test_of_two_pending_calls_that_are_the_same_one_is_made() -> None:
    """A call that waits from an attempt that has ended is not made beside that of the next attempt."""
    calls = Calls()
    first, second = (calls.open(_request(number, needs_approval=True), _UNTIL) for number in (1, 2))
    calls.decide(_decided(second, "approve"))

    with pytest.raises(CallRefused, match=r"was made before, for this subtask.*Reject it"):
        calls.decide(_decided(first, "approve"))
    calls.decide(_decided(first, "reject"))

    assert calls.pending == ()


def test_a_session_can_read_a_request_about_any_call_of_a_model() -> None:
    """A request that is too large to be read would never be answered, and its subtask would wait."""
    most: list[JsonValue] = [[]] * (LONGEST_ARGUMENTS // len("[],") - 10)
    request = _request(amount=most)
    converter = PayloadConverter()

    [payload] = converter.to_payloads([request])

    assert converter.from_payloads([payload], [CallRequest]) == [request]


def test_a_new_run_remembers_which_calls_act() -> None:
    """What was applied before the session continued as new is not made again, and no id is used twice."""
    before, after = Calls(), Calls()
    assert before.judge(_request()) is not None
    before.note_outcome(acting_hash("T1", "refund", {"amount": 100}), is_applied=True)
    before.expire(before.open(_request(2, amount=7, needs_approval=True), _UNTIL))
    after.resume(CallsState.model_validate_json(before.state().model_dump_json()))

    reply = after.judge(_request(3))

    assert reply is not None
    assert reply.verdict == "applied_before"
    assert after.open(_request(4, amount=8, needs_approval=True), _UNTIL).shown.id == "c2"
