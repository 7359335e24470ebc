"""Tool calls that a policy or a person must allow: what is counted, in whatever order, and that a call is made once."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from activities.models.replies import LONGEST_ARGUMENTS
from activities.turn_kinds.judgements import JudgeCallTask
from chargehand.contracts import CallDecision, Obligation, ToolRule, Watched
from chargehand.converter import PayloadConverter
from workflows.mailbox.contracts import CallRequest, Envelope
from workflows.rules.refusal import Refused
from workflows.rules.tool_policy import PolicyLedger, acting_call, call_hash, success_key
from workflows.state.call_approvals import Approvals, Pending


def _rule(**limits: object) -> Obligation:
    return Obligation(key="k", tool="refund", rule=ToolRule.model_validate({"tool": "refund", **limits}))


_ONCE = _rule(at_most_calls=1, at_most_sum={"argument": "amount", "total": 1_234_567})


def _request(amount: JsonValue = 100, **fields: object) -> CallRequest:
    return CallRequest.model_validate(
        {"subtask": "T1", "agent": "clerk", "tool": "refund", "arguments": {"amount": amount}, "acts": True, **fields}
    )


def _envelope(request: CallRequest) -> Envelope:
    return Envelope(sender="s/1/clerk/2", number=1, token="t", body=request)


def _verdict(approvals: Approvals, request: CallRequest) -> str | None:
    reply = approvals.judge(request)
    return reply and reply.verdict


def _open(approvals: Approvals, request: CallRequest) -> Pending:
    return approvals.open(_envelope(request), request, datetime(2030, 1, 1, tzinfo=UTC))


def _decided(pending: Pending, decision: str, **fields: object) -> CallDecision:
    return CallDecision.model_validate(
        {"call": pending.shown.id, "hash": pending.shown.hash, "decision": decision, **fields}
    )


def _doubtful(approvals: Approvals) -> Pending:
    """Have a call allowed, then reported with an unknown outcome."""
    assert approvals.judge(_request(policy=(_ONCE,))) is not None
    doubtful = _request(policy=(_ONCE,), is_doubtful=True)
    assert approvals.judge(doubtful) is None
    return _open(approvals, doubtful)


def test_a_call_of_unknown_outcome_is_also_doubted_in_other_subtasks() -> None:
    """The doubt lasts until the outcome is known, across runs; a different call is not doubted."""
    before = Approvals()
    before.judge(_request())
    approvals = Approvals.model_validate_json(before.model_dump_json())
    (acted,) = before.acted

    assert "not known whether it was applied" in approvals.doubt_of_another(_request(subtask="T2"))
    assert approvals.doubt_of_another(_request()) == ""
    assert approvals.doubt_of_another(_request(7, subtask="T2")) == ""
    approvals.note_outcome(acted, is_applied=True)
    assert approvals.doubt_of_another(_request(subtask="T2")) == ""


@pytest.mark.parametrize(
    "pair", ["T1 T1", "T1 T1/T1", "T1/T2/T1 T1", "T1 T2/T1", "T1/T1 T1/T2", "j1/T1 j2/T1", "T1 T10"]
)
def test_a_subtask_and_its_replacement_session_make_a_call_once(pair: str) -> None:
    """It does not matter which made it; any other subtask makes its own, whatever its id within its session."""
    before, now = pair.split()
    is_once = pair in {"T1 T1", "T1 T1/T1", "T1/T2/T1 T1"}
    approvals = Approvals()
    for outcome, verdict in (None, "unknown_before"), (True, "applied_before"), (False, "allowed"):
        assert approvals.judge(_request(subtask=before))
        if outcome is not None:
            approvals.note_outcome(acting_call(before, "refund", {"amount": 100}), is_applied=outcome)
        resumed = Approvals.model_validate_json(approvals.model_dump_json())

        assert _verdict(resumed, _request(subtask=now)) == (verdict if is_once else "allowed")


@pytest.mark.parametrize(("decision", "amount"), [("approve", 100), ("edit", 300)])
def test_a_call_that_is_made_again_counts_once_against_its_limits(decision: str, amount: int) -> None:
    """A limit of one call allows the repeat, since the first was not applied; the sum takes its new amount."""
    approvals = Approvals()
    pending = _doubtful(approvals)
    with pytest.raises(Refused, match="the sum of amount is at most 1234567 in a session; 0 is used"):
        approvals.check(_decided(pending, "edit", arguments={"amount": 1_234_568}))
    approvals.decide(_decided(pending, decision, **({"arguments": {"amount": amount}} if decision == "edit" else {})))

    assert (approvals.policy.calls, approvals.policy.sums) == ({_ONCE.key: 1}, {_ONCE.key: amount})


def test_a_call_allowed_after_its_subtask_ended_does_not_count() -> None:
    """The reply reached no agent, so the next attempt may make the call."""
    approvals = Approvals()
    gone = _request(policy=(_ONCE,))
    reply = approvals.judge(gone)
    assert reply is not None
    approvals.withdraw(gone, reply)

    assert _verdict(approvals, _request(policy=(_ONCE,))) == "allowed"


def test_of_two_identical_pending_calls_only_one_is_made() -> None:
    """A call pending from an ended attempt is not made in addition to the next attempt's."""
    approvals = Approvals()
    first, second = (_open(approvals, _request(needs_approval=True)) for _ in range(2))
    approvals.decide(_decided(second, "approve"))

    with pytest.raises(Refused, match=r"was made before, for this subtask.*Reject it"):
        approvals.decide(_decided(first, "approve"))
    approvals.decide(_decided(first, "reject"))

    assert approvals.pending == ()


def test_the_largest_possible_tool_call_fits_in_an_approval_request() -> None:
    """A request too large to read would never be answered, and its subtask would wait forever."""
    most: list[JsonValue] = [[]] * (LONGEST_ARGUMENTS // len("[],") - 10)
    envelope = _envelope(_request(most))
    converter = PayloadConverter()
    [payload] = converter.to_payloads([envelope])

    assert converter.from_payloads([payload], [Envelope]) == [envelope]


def test_approval_state_survives_continue_as_new() -> None:
    before = Approvals()
    assert before.judge(_request()) is not None
    before.note_outcome(acting_call("T1", "refund", {"amount": 100}), is_applied=True)
    before.expire(_open(before, _request(7, needs_approval=True)), "it was not approved in time")
    before.policy.count(_LIMITED, {"amount": 99.5})
    before.policy.note_success([success_key(Watched(tool="check", same="order"), {"order": 7})])
    after = Approvals.model_validate_json(before.model_dump_json())

    assert _verdict(after, _request()) == "applied_before"
    assert _open(after, _request(8, needs_approval=True)).shown.id == "c2"
    assert after.policy.violations(_LIMITED, {"amount": 0.6})
    assert not after.policy.violations(_LIMITED, {"amount": 0.5})
    waiting = (_rule(after="check", same="order"),)
    assert after.policy.too_early(waiting, {"order": 8})
    assert not after.policy.too_early(waiting, {"order": 7})


_MOST, _TOTAL = 4, 100
_LIMITED = (_rule(at_most_calls=_MOST, at_most_sum={"argument": "amount", "total": _TOTAL}),)


@given(st.lists(st.floats() | st.integers() | st.booleans() | st.text() | st.none() | st.integers(0, 60)))
def test_no_sequence_of_calls_exceeds_the_policy_limits(amounts: list[JsonValue]) -> None:
    ledger = PolicyLedger()
    allowed: list[JsonValue] = []
    for amount in amounts:
        if not ledger.violations(_LIMITED, {"amount": amount}):
            ledger.count(_LIMITED, {"amount": amount})
            allowed.append(amount)

    assert len(allowed) <= _MOST
    assert all(isinstance(amount, int | float) and not isinstance(amount, bool) and amount >= 0 for amount in allowed)
    assert sum((Decimal(str(amount)) for amount in allowed), Decimal(0)) <= _TOTAL


def test_amounts_that_are_not_usable_numbers_are_denied() -> None:
    cases: list[JsonValue] = [float("nan"), float("inf"), -0.01, 10**400, 1e300, True, "5", None, [5], {"value": 5}]
    for amount in cases:
        assert any("must be a number" in problem for problem in PolicyLedger().violations(_LIMITED, {"amount": amount}))
        assert any("must be a number" in problem for problem in PolicyLedger().violations(_LIMITED, {}))


def test_sums_are_exact() -> None:
    cents = (_rule(at_most_sum={"argument": "amount", "total": 10}),)
    ledger = PolicyLedger()
    for _ in range(1_000):
        assert not ledger.violations(cents, {"amount": 0.01})
        ledger.count(cents, {"amount": 0.01})

    assert ledger.violations(cents, {"amount": 0.01})


def test_a_call_hash_identifies_one_call() -> None:
    same: dict[str, JsonValue] = json.loads('{ "b": [1, 2],  "a": "x" }')
    reordered: dict[str, JsonValue] = {"a": "x", "b": [2, 1]}
    others = [("clerk", "refund", reordered), ("clerk", "pay", same), ("other", "refund", same)]
    own = call_hash("clerk", "refund", {"a": "x", "b": [1, 2]})

    assert own == call_hash("clerk", "refund", same)
    assert own not in {call_hash(*other) for other in others}


_AUTO = _rule(
    approval="auto", within={"amount": 50, "to": ["@ours.example", "till 4"], "page": ["https://ours.example/help/"]}
)
_WITHIN: Final[Mapping[str, JsonValue]] = {
    "amount": 50,
    "to": "ann.lee+2@ours.example",
    "page": "https://ours.example/help/returns?order=7",
}


def _beside(**changed: JsonValue) -> CallRequest:
    return _request(arguments={**_WITHIN, "note": "anything", **changed}, policy=(_AUTO,))


@pytest.mark.parametrize("changed", [{}, {"amount": 0}, {"amount": 12.5}, {"to": "till 4"}, {"note": None}])
def test_a_call_within_its_rule_needs_no_approval(changed: Mapping[str, JsonValue]) -> None:
    """Arguments that the rule does not name are unrestricted."""
    assert _verdict(Approvals(), _beside(**changed)) == "allowed"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("amount", value)
            for value in (50.01, -1, True, "50", "5e1", [50], {"value": 5}, None, 1e300, "٥", math.nan, math.inf)
        ),
        *(
            ("to", value)
            for value in (
                "ann@ours.example.evil.example",
                "ann@evil.example",
                "ann@evil.example,bob@ours.example",
                "ann@evil.example bob@ours.example",
                "ann@evil.example\nbob@ours.example",
                "ann@evil.example;bob@ours.example",
                "<ann@evil.example>bob@ours.example",
                "ann@evil.example%0abob@ours.example",
                '"ann@evil.example"@ours.example',
                "ann@OURS.example",
                "ann@ours.examp\u200ble",
                "ann@\u043eurs.example",
                "\u0430nn@ours.example",
                "ann@ours.example\n",
                "ann@ours.example.",
                "@ours.example",
                "till 4 ",
                "TILL 4",
                "till 40",
                "till\u00a04",
                "ann\uff20ours.example",
                "eve%evil.example@ours.example",
                "evil.example!eve@ours.example",
                "mailto:ann@ours.example",
                "ann@ours.example\r\nBcc: eve@evil.example",
                [["ann@ours.example"]],
                ["ann@ours.example", "eve@evil.example"],
                ["ann@ours.example"],
                {"address": "ann@ours.example"},
                "",
                None,
            )
        ),
        *(
            ("page", value)
            for value in (
                "https://ours.example.evil.example/help/",
                "https://ours.example@evil.example/help/",
                "https://evil.example/?https://ours.example/help/",
                "http://ours.example/help/",
                "https://ours.example/help/../admin",
                "https://ours.example/help/%2e%2E/admin",
                "https://ours.example/help/..\\admin",
                "https://ours.example/help/\nx",
                "https://ours.example/helpers",
                "//ours.example/help/",
                "https://ours.example/help//evil.example",
                "https://ours.example/help/%252e%252e/admin",
                "https://ours.example/help/x?next=https://evil.example/",
                "https://ours.example/help/x?next=//evil.example/",
                "https://ours.example/help/x?next=evil.example/",
                "https://ours.example/help/x?to=www.evil.example",
                "https://ours.example/help/x#192.0.2.1",
                "https://ours.example/help/;/..;/admin",
            )
        ),
    ],
)
def test_no_spelling_of_an_argument_bypasses_an_allowlist(name: str, value: JsonValue) -> None:
    request = _beside(**{name: value})
    approvals = Approvals()

    assert approvals.judge(request) is None
    assert _open(approvals, request).shown.why.startswith(f"{name}: is not ")


@pytest.mark.parametrize(("changed", "said"), [({}, ""), ({"to": "eve"}, "to: is not"), ({"amount": 51}, "amount: is")])
def test_a_report_only_rule_names_calls_that_would_need_approval(changed: Mapping[str, JsonValue], said: str) -> None:
    request = _beside(**changed)
    reply = Approvals().judge(request.model_copy(update={"policy": (_AUTO.model_copy(update={"mode": "report"}),)}))

    assert reply is not None
    assert (reply.verdict, said in reply.reason, bool(reply.reason)) == ("allowed", True, bool(said))


def test_a_call_judge_reads_all_user_text_or_none() -> None:
    """Beyond 40,000 characters, request included, a person decides instead of the text being cut."""
    said = [("x" * length, "y") for length in (19_999, 20_000)]
    tasks = [JudgeCallTask(goal="x" * 20_000, said=each, tool="refund", arguments={}) for each in said]

    assert [task.is_short for task in tasks] == [True, False]


def test_a_call_judge_can_only_restrict() -> None:
    """It is asked only about calls that would need no approval, and its answer never allows more."""
    judged = _AUTO.model_copy(update={"rule": _AUTO.rule and _AUTO.rule.model_copy(update={"judged": True})})
    within = _request(arguments=dict(_WITHIN), policy=(judged,))
    others = [
        _request(arguments={**_WITHIN, "amount": 51}, policy=(judged,)),
        _request(arguments=dict(_WITHIN), policy=(judged,), needs_approval=True),
        _request(arguments=dict(_WITHIN), policy=(judged, _ONCE.model_copy(update={"rule": None}))),
        _request(arguments=dict(_WITHIN), policy=(_AUTO,)),
    ]
    assert Approvals().needs_judge(within)
    assert not any(Approvals().needs_judge(request) for request in others)
    assert Approvals().judge(within, "it is not expected") is None
    assert [_verdict(Approvals(), request) for request in others] == [None, None, "denied", "allowed"]


@pytest.mark.parametrize("rule", [{"approval": "auto"}, {"within": {"amount": 5}}, {"judged": True}])
def test_an_incomplete_tool_rule_is_refused(rule: Mapping[str, JsonValue]) -> None:
    """A rule that asks about no call, or about every call, is a mistake."""
    with pytest.raises(ValidationError, match="'auto' goes with 'within', 'judged' or both"):
        ToolRule.model_validate({"tool": "refund", **rule})
