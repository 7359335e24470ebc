"""What a policy allows, whatever is asked in whatever order."""

import json
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from chargehand.contracts import Obligation, ToolRule, Watched
from workflows.rules.tool_policy import PolicyLedger, call_hash, success_key

_MOST, _TOTAL = 4, 100
_LIMITED = (
    Obligation(
        key="desk/clerk/1",
        tool="refund",
        rule=ToolRule.model_validate(
            {"tool": "refund", "at_most_calls": _MOST, "at_most_sum": {"argument": "amount", "total": _TOTAL}}
        ),
    ),
)


@given(st.lists(st.floats() | st.integers() | st.booleans() | st.text() | st.none() | st.integers(0, 60)))
def test_no_order_of_calls_gets_more_than_is_allowed(amounts: list[JsonValue]) -> None:
    """Whatever arguments are tried, what is allowed stays within the calls and the sum; the rest is denied by name."""
    ledger = PolicyLedger()
    allowed: list[JsonValue] = []
    for amount in amounts:
        if not ledger.violations(_LIMITED, {"amount": amount}):
            ledger.count(_LIMITED, {"amount": amount})
            allowed.append(amount)

    assert len(allowed) <= _MOST
    assert all(isinstance(amount, int | float) and not isinstance(amount, bool) and amount >= 0 for amount in allowed)
    assert sum((Decimal(str(amount)) for amount in allowed), Decimal(0)) <= _TOTAL


def test_what_is_no_usable_number_is_denied() -> None:
    """NaN, infinities, negative and huge numbers, and what is no number, count as nothing and are not allowed."""
    cases: list[JsonValue] = [float("nan"), float("inf"), -0.01, 10**400, 1e300, True, "5", None, [5], {"value": 5}]
    for amount in cases:
        assert any("must be a number" in problem for problem in PolicyLedger().violations(_LIMITED, {"amount": amount}))
        assert any("must be a number" in problem for problem in PolicyLedger().violations(_LIMITED, {}))


def test_sums_are_exact() -> None:
    """A thousand cents are ten dollars, and not one cent more is allowed."""
    cents = (_rule(at_most_sum={"argument": "amount", "total": 10}),)
    ledger = PolicyLedger()
    for _ in range(1_000):
        assert not ledger.violations(cents, {"amount": 0.01})
        ledger.count(cents, {"amount": 0.01})

    assert ledger.violations(cents, {"amount": 0.01})


def test_a_ledger_goes_on_where_another_stopped() -> None:
    """A new run counts on from the state that it is handed."""
    before = PolicyLedger()
    before.count(_LIMITED, {"amount": 99.5})
    before.note_success([success_key(Watched(tool="check", same="order"), {"order": 7})])
    after = PolicyLedger(type(before.state()).model_validate_json(before.state().model_dump_json()))

    assert after.violations(_LIMITED, {"amount": 0.6})
    assert not after.violations(_LIMITED, {"amount": 0.5})
    waiting = (_rule(after="check", same="order"),)
    assert after.too_early(waiting, {"order": 8})
    assert after.too_early(waiting, {})
    assert not after.too_early(waiting, {"order": 7})


def test_a_hash_names_one_call() -> None:
    """Neither the order of the arguments nor white space changes it; the agent, the tool and every value do."""
    same: dict[str, JsonValue] = json.loads('{ "b": [1, 2],  "a": "x" }')
    reordered: dict[str, JsonValue] = {"a": "x", "b": [2, 1]}
    others = [("clerk", "refund", reordered), ("clerk", "pay", same), ("other", "refund", same)]
    own = call_hash("clerk", "refund", {"a": "x", "b": [1, 2]})

    assert own == call_hash("clerk", "refund", same)
    assert own not in {call_hash(*other) for other in others}


def _rule(**limits: object) -> Obligation:
    return Obligation(key="k", tool="refund", rule=ToolRule.model_validate({"tool": "refund", **limits}))
