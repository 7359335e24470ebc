"""Tool calls that a policy or a person must allow: what is counted, and that the same call is made once."""

from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from activities.models.replies import LONGEST_ARGUMENTS
from chargehand.contracts import CallDecision, Obligation, ToolRule
from chargehand.converter import PayloadConverter
from workflows.contracts import ApprovalsState
from workflows.mailbox.contracts import CallRequest, Envelope
from workflows.rules.refusal import Refused
from workflows.rules.tool_policy import call_hash
from workflows.state.call_approvals import Approvals, Pending

_UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
_ONCE = Obligation(
    key="desk/clerk/0",
    tool="refund",
    rule=ToolRule.model_validate(
        {"tool": "refund", "at_most_calls": 1, "at_most_sum": {"argument": "amount", "total": 1_234_567}}
    ),
)


def _request(amount: JsonValue = 100, **fields: object) -> CallRequest:
    return CallRequest.model_validate(
        {
            "subtask": "T1",
            "agent": "clerk",
            "tool": "refund",
            "arguments": {"amount": amount},
            "acts": True,
            **fields,
        }
    )


def _envelope(request: CallRequest) -> Envelope:
    return Envelope(sender="s/1/clerk/2", number=1, token="t", body=request)


def _open(approvals: Approvals, request: CallRequest) -> Pending:
    return approvals.open(_envelope(request), request, _UNTIL)


def _decided(pending: Pending, decision: str, **fields: object) -> CallDecision:
    return CallDecision.model_validate(
        {"call": pending.shown.id, "hash": pending.shown.hash, "decision": decision, **fields}
    )


def _doubtful(approvals: Approvals) -> Pending:
    """Have a call allowed whose outcome then is unknown."""
    assert approvals.judge(_request(policy=(_ONCE,))) is not None
    doubtful = _request(policy=(_ONCE,), is_doubtful=True)
    assert approvals.judge(doubtful) is None
    return _open(approvals, doubtful)


def test_a_call_that_is_made_again_counts_once() -> None:
    """The person who has it made again knows that it was not applied: a limit of one call does not forbid that."""
    approvals = Approvals()
    approvals.decide(_decided(_doubtful(approvals), "approve"))

    assert approvals.policy.state().calls == {_ONCE.key: 1}
    assert approvals.policy.state().sums == {_ONCE.key: 100}


def test_a_call_that_is_made_again_with_other_arguments_counts_with_those() -> None:
    """What it comes to now is within the sum, and is what later calls are measured against."""
    approvals = Approvals()
    pending = _doubtful(approvals)
    with pytest.raises(Refused, match="the sum of amount is at most 1234567 in a session; 0 is used"):
        approvals.check(_decided(pending, "edit", arguments={"amount": 1_234_568}))
    approvals.decide(_decided(pending, "edit", arguments={"amount": 300}))

    assert approvals.policy.state().calls == {_ONCE.key: 1}
    assert approvals.policy.state().sums == {_ONCE.key: 300}


def test_a_call_whose_subtask_has_ended_was_not_made() -> None:
    """A reply that reached nobody counts for nothing: the next attempt may make the call."""
    approvals = Approvals()
    gone = _request(policy=(_ONCE,))
    reply = approvals.judge(gone)
    assert reply is not None
    approvals.withdraw(gone, reply)

    again = approvals.judge(_request(policy=(_ONCE,)))

    assert again is not None
    assert again.verdict == "allowed"


def test_of_two_pending_calls_that_are_the_same_one_is_made() -> None:
    """A call that waits from an attempt that has ended is not made beside that of the next attempt."""
    approvals = Approvals()
    first, second = (_open(approvals, _request(needs_approval=True)) for _ in range(2))
    approvals.decide(_decided(second, "approve"))

    with pytest.raises(Refused, match=r"was made before, for this subtask.*Reject it"):
        approvals.decide(_decided(first, "approve"))
    approvals.decide(_decided(first, "reject"))

    assert approvals.pending == ()


def test_a_session_can_read_a_request_about_any_call_of_a_model() -> None:
    """A request that is too large to be read would never be answered, and its subtask would wait."""
    most: list[JsonValue] = [[]] * (LONGEST_ARGUMENTS // len("[],") - 10)
    envelope = _envelope(_request(most))
    converter = PayloadConverter()

    [payload] = converter.to_payloads([envelope])

    assert converter.from_payloads([payload], [Envelope]) == [envelope]


def test_a_new_run_remembers_which_calls_act() -> None:
    """What was applied before the session continued as new is not made again, and no id is used twice."""
    before = Approvals()
    assert before.judge(_request()) is not None
    before.note_outcome(call_hash("T1", "refund", {"amount": 100}), is_applied=True)
    before.expire(_open(before, _request(7, needs_approval=True)))
    after = Approvals(ApprovalsState.model_validate_json(before.state().model_dump_json()))

    reply = after.judge(_request())

    assert reply is not None
    assert reply.verdict == "applied_before"
    assert _open(after, _request(8, needs_approval=True)).shown.id == "c2"
