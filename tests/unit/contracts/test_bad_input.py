"""Requests as typed: what is refused, at once and by the field's name, and what profiles fill in."""

import re
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from activities.contracts.mcp_declaration import McpDeclaration
from chargehand.contracts import Limits, PlanDecision, Report, SessionRequest, TypedByPeople
from chargehand.contracts.limits import PROFILES, Profile
from chargehand.contracts.problems import DURATION_EXPECTED, describe_problems, join_problems
from chargehand.converter import data_converter, invalid_input
from chargehand_plugins.tenants.file import Tenants
from tests.unit.strategies import below

CONVERTER = data_converter().payload_converter
DEEP = 100_000


def _read(data: bytes, type_hint: type[Any] = SessionRequest, encoding: bytes = b"json/plain") -> Any:
    [value] = CONVERTER.from_payloads([Payload(metadata={"encoding": encoding}, data=data)], [type_hint])
    return value


def _refusal(data: bytes, type_hint: type[Any] = SessionRequest, encoding: bytes = b"json/plain") -> str:
    with pytest.raises(ApplicationError) as caught:
        _read(data, type_hint, encoding)
    assert (caught.value.type, caught.value.non_retryable) == ("InvalidInput", True)
    return caught.value.message


def _beside(fields: str) -> bytes:
    return f'{{"goal": "a goal", {fields}}}'.encode()


def _limits(json: str) -> bytes:
    return _beside(f'"limits": {json}')


def test_bad_input_is_refused_by_name() -> None:
    cases = [
        (b"", "input: is not JSON: Expecting value at line 1, column 1"),
        (b'{"goal": "a go', "input: is not JSON: Unterminated string starting at line 1, column 10"),
        (b'{"goal": "a goal"} x', "input: is not JSON: Extra data at line 1, column 20"),
        (b"[]", "input: must be an object"),
        (b"null", "input: must be an object"),
        (b"{}", "goal: is required"),
        (b'{"goal": null}', "goal: must be a string"),
        (_limits('{"deadline": "soon"}'), f"limits.deadline: {DURATION_EXPECTED}"),
        (b'{"goal": "    "}', "goal: must have at least 3 characters"),
        (b'{"goal": "%s"}' % (b"a" * 20_001), "goal: must have at most 20000 characters"),
        (b'{"goal": "a\\u0000 goal"}', "goal: has a control character (U+0000 at 2); remove it"),
        (_beside('"documents": ["file:/a\\u0000b"]'), "documents.0: has a control character (U+0000 at 8); remove it"),
        (b'{"goal": "a\x00 goal"}', "input: is not JSON: Invalid control character at line 1, column 12"),
        (b'{"goal": "a \xff goal"}', "input: is not UTF-8 text (byte 13)"),
        (
            '{"goal": "a goal"}'.encode("utf-8-sig"),
            "input: begins with a byte order mark; save it as UTF-8 without one",
        ),
        ('{"goal": "a goal"}'.encode("utf-16"), "input: is not UTF-8 text (byte 1)"),
        (b'{"goal": "a \\ud800 goal"}', "goal: the input has half of a surrogate pair, which is no text"),
        (_beside('"goal": "another"'), "goal: the key 'goal' occurs more than once"),
        (_limits('{"max_turns": 1, "max_turns": 9}'), "limits.max_turns: the key 'max_turns' occurs more than once"),
        (_limits('{"budget_usd": NaN}'), "limits.budget_usd: NaN is not a number in JSON"),
        (_limits('{"budget_usd": 1e999}'), "limits.budget_usd: must be a finite number"),
        (_limits('{"budget_usd": 0}'), "limits.budget_usd: must be greater than 0"),
        (_limits('{"budget_usd": 1e-10}'), "limits.budget_usd: must be greater than 0"),
        (_limits('{"budget_usd": "2"}'), "limits.budget_usd: must be a number such as 2.50, without quotes"),
        (_limits('{"budget_usd": true}'), "limits.budget_usd: must be a number such as 2.50, without quotes"),
        (_limits('{"max_turns": true}'), "limits.max_turns: must be a whole number"),
        (_limits('{"max_turns": 1000000000}'), "limits.max_turns: must be less than or equal to 1000"),
        (_limits(f'{{"max_turns": {"9" * 5_000}}}'), "limits.max_turns: the input is a number of 5000 digits"),
        (_limits('{"deadline": true}'), f"limits.deadline: {DURATION_EXPECTED}"),
        (_limits('{"deadline": 0}'), "limits.deadline: must be greater than 0 seconds"),
        (_limits('{"deadline": "P8D"}'), "limits.deadline: must be less than or equal to 7 days"),
        (_beside('"limts": {}'), "limts: is not a known field; did you mean 'limits'?"),
        (_limits('{"bugdet_usd": 1}'), "limits.bugdet_usd: is not a known field; did you mean 'budget_usd'?"),
        (_beside('"budget_usd": 1'), "budget_usd: is not a known field; did you mean 'limits.budget_usd'?"),
        (_beside('"zzz": 1'), f"zzz: is not a known field; known are {', '.join(SessionRequest.model_fields)}"),
        (
            _beside('"tiers": {"agents": {"reader": "huge"}}'),
            "tiers.agents.reader: must be 'small', 'medium' or 'large'",
        ),
        (_beside('"profile": "huge"'), "profile: must be 'quick', 'standard' or 'deep'"),
        (_beside('"profile": ["deep"]'), "profile: must be 'quick', 'standard' or 'deep'"),
        (_beside('"profile": "deep", "limits": 7'), "limits: must be an object"),  # not hidden by a profile
        # All problems are reported together without any value, which may be a misplaced secret.
        (
            b'{"goal": 1, "limits": {"max_depth": 0}, "crew": "Sk-Secret"}',
            (
                "goal: must be a string; crew: must be a name of at most 40 lower-case letters, digits, _ or -, "
                "beginning with a letter; "
                "limits.max_depth: must be greater than or equal to 1"
            ),
        ),
        *(
            (b'{"goal": %s}' % deep, "input: is nested more than 64 levels deep; no field needs that")
            for deep in (b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP)
        ),
    ]
    for data, message in cases:
        assert _refusal(data) == f"Invalid SessionRequest: {message}"


def test_refusals_use_no_machine_words() -> None:
    junk: tuple[object, ...] = ("¿ x", "", "x" * 30_000, -1, 1.5, True, None, [], ["¿"], {}, {"¿": "¿"}, float("nan"))
    told: set[str] = set()
    for kind, value in product(below(TypedByPeople), junk):
        try:
            kind.model_validate(dict.fromkeys(kind.model_fields, value))
        except ValidationError as error:
            told.update(describe_problems(error, kind))

    machine_words = re.compile(
        r"pattern|\^|frozenset|Decimal|after validation|unable to|\[key\]|constrained|dictionary"
    )
    assert {McpDeclaration, Tenants} <= {*below(TypedByPeople)}
    assert len(told) > 200
    assert [each for each in sorted(told) if machine_words.search(each)] == []


def test_only_json_payloads_are_read() -> None:
    encodings = {
        b"binary/plain": "is binary/plain",
        b"binary/null": "is binary/null",
        b"json/protobuf": "is json/protobuf",
        b"application/x-pickle": "is application/x-pickle",
        b"\xff\xfe\x1b": "is ���",
        b"": "is missing",
    }
    for encoding, found in encodings.items():
        refusal = _refusal(b'{"goal": "a goal"}', encoding=encoding)
        assert refusal == f"Invalid SessionRequest: encoding: {found}; send JSON as json/plain"
    assert _refusal(b"2", type_hint=int, encoding=b"pickle") == (
        "Invalid input: encoding: is unknown; send JSON as json/plain"
    )
    assert _refusal(b"anything", encoding=b"binary/encrypted") == (
        "Invalid SessionRequest: encoding: is encrypted, and there is no key here; set "
        "CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID alike for all workers, commands and clients"
    )


def test_a_refusal_stays_short() -> None:
    keys = ",".join(f'"k{number}{"x" * 500}\\u001b": 1' for number in range(1_000))
    refusal = _refusal(f'{{"goal": "a goal", {keys}}}'.encode())

    assert refusal.endswith("; and 980 more")
    assert len(refusal) < 3_000
    assert refusal.count("known are") == 1
    assert refusal.isprintable()


def test_an_error_message_lists_the_first_problems_and_counts_the_rest() -> None:
    for count, text in product((0, 1, 20, 21, 22, 100_000), ("x", "a: wrong\n", "\x1b[31m" * 100, "é" * 100_000)):
        problems = [text] * count
        message = join_problems(problems)
        more = re.search(r"; and (\d+) more$", message)
        assert len(message) < 12_000
        assert len(str(invalid_input("Input", problems))) < 12_000
        assert (int(more[1]) if more else 0) == max(0, count - 20 - 1)


def test_a_misspelled_field_deep_in_a_plan_gets_a_suggestion() -> None:
    data = (
        b'{"decision": "edit", "plan": {"subtasks": [{"id": "T1", "agent": "a", "instruction": "b", "depend_on": []}]}}'
    )
    refusal = _refusal(data, type_hint=PlanDecision)

    assert refusal == (
        "Invalid PlanDecision: plan.subtasks.0.depend_on: is not a known field; did you mean 'depends_on'?"
    )


def test_unknown_fields_in_reports_are_ignored() -> None:
    """An older reader accepts fields that a newer writer added."""
    data = b"""{"session": "s", "goal": "g", "answer": "a", "stop_reason": "completed", "added_later": {"x": 1},
        "timing": {"started_at": "2025-01-01T00:00:00Z", "ended_at": "2025-01-01T00:00:00Z", "wall": "PT0S",
        "subtasks_one_after_another": "PT0S", "critical_path": "PT0S", "speed_up": 1.0}}"""
    report = _read(data, type_hint=Report)

    assert isinstance(report, Report)


def test_only_a_goal_is_required() -> None:
    assert _read(b'{"goal": "  a goal\\n"}') == SessionRequest(goal="a goal", crew="research", limits=Limits())
    assert _read(b'{"goal": "one\\ttwo\\r\\nthree\\ffour"}') == SessionRequest(goal="one\ttwo\r\nthree\ffour")


def test_criteria_are_one_text_or_a_list_of_texts() -> None:
    one = SessionRequest.model_validate({"goal": "a goal", "criteria": " Names a date. "})

    assert one.criteria == ("Names a date.",)
    for wrong in ["  ", ["Names a date.", ""], ["Names a date."] * 21]:
        with pytest.raises(ValidationError, match="criteria"):
            SessionRequest.model_validate({"goal": "a goal", "criteria": wrong})


GIVEN: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={"max_turns": st.integers(1, 1_000), "budget_usd": st.floats(0.01, 10_000), "deadline": st.just("PT7M")},
)


@given(profile=st.sampled_from(list(PROFILES)), limits=GIVEN)
def test_missing_limits_come_from_the_profile(profile: Profile, limits: dict[str, Any]) -> None:
    """A request means the same limits as JSON, as Python, and when a worker reads it again."""
    typed = SessionRequest(goal="Find out.", profile=profile, limits=Limits.model_validate(limits))
    read = SessionRequest.model_validate({"goal": "Find out.", "profile": profile, "limits": limits})

    wanted = Limits.model_validate(
        PROFILES[profile].model_dump() | Limits.model_validate(limits).model_dump(include={*limits})
    )
    assert [typed.limits, read.limits] == [wanted] * 2
    assert SessionRequest.model_validate_json(typed.model_dump_json()) == typed


def test_limits_accept_numbers_and_duration_strings() -> None:
    """The type checker accepts them too, since it reads this file."""
    typed = Limits(budget_usd=1, deadline="10m", subtask_deadline=90)

    assert typed == Limits.model_validate({"budget_usd": 1, "deadline": "PT10M", "subtask_deadline": "PT90S"})


@given(st.floats(1e-9, 10_000))
def test_a_budget_is_equal_on_both_ends_of_the_wire(usd: float) -> None:
    """It is rounded down to whole nanodollars, so a nested session never has more than it was granted."""
    typed = Limits(budget_usd=usd)

    assert Limits.model_validate_json(typed.model_dump_json()) == typed
    assert typed.budget_usd % Decimal("1e-9") == 0
    assert 0 <= Decimal(str(usd)) - typed.budget_usd < Decimal("1e-9")
