"""A profile sets the limits that a request leaves out, and no other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chargehand import Limits, SessionRequest
from chargehand.contracts.limits import PROFILES, Profile

GIVEN: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={"max_turns": st.integers(1, 1_000), "budget_usd": st.floats(0.01, 10_000), "deadline": st.just("PT7M")},
)


@given(profile=st.sampled_from(list(PROFILES)), limits=GIVEN)
def test_limits_are_the_profiles_where_none_are_given(profile: Profile, limits: dict[str, Any]) -> None:
    """As JSON, as Python, and read again by a worker, a request means the same limits."""
    typed = SessionRequest(goal="Find out.", profile=profile, limits=Limits.model_validate(limits))
    read = SessionRequest.model_validate({"goal": "Find out.", "profile": profile, "limits": limits})

    wanted = Limits.model_validate(
        PROFILES[profile].model_dump() | Limits.model_validate(limits).model_dump(include={*limits})
    )
    assert [typed.limits, read.limits] == [wanted] * 2
    assert SessionRequest.model_validate_json(typed.model_dump_json()) == typed


def test_limits_are_typed_as_people_write_them() -> None:
    """Numbers and durations in words, for the type checker too, which reads this file."""
    typed = Limits(budget_usd=1, deadline="10m", subtask_deadline=90)

    assert typed == Limits.model_validate({"budget_usd": 1, "deadline": "PT10M", "subtask_deadline": "PT90S"})


def test_a_profile_hides_no_mistake() -> None:
    """What is not a profile, and limits that are none, are refused by the name of the field."""
    cases: list[dict[str, Any]] = [{"profile": "huge"}, {"profile": ["deep"]}, {"profile": "deep", "limits": 7}]
    for problem in cases:
        with pytest.raises(ValidationError) as caught:
            SessionRequest.model_validate({"goal": "Find out."} | problem)
        assert [error["loc"] for error in caught.value.errors()] == [(list(problem)[-1],)]
