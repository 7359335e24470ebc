"""Interpretation of a model's reply as the requested answer."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.models.protocol import ModelReply
from activities.turn.activity import interpret
from activities.turn.contracts import TurnResult
from activities.turn_kinds.judgements import JudgeCallAnswer
from activities.turn_kinds.protocol import TypedAnswer
from activities.turn_kinds.registry import TASK_TYPES
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand.contracts import Usage
from tests.unit.strategies import contracts, json_values

USAGE = Usage(turns=1, input_tokens=10, output_tokens=5)
WORK = WorkAnswer(status="success", content="c", findings=[], confidence=1, gaps=[], message="")
Stop = Literal["answer", "tools", "truncated", "refused", "empty"]


def _reply(text: str = "", stop: Stop = "answer", **changes: Any) -> ModelReply:
    facts: dict[str, Any] = {"stop": stop, "text": text, "model": "m-1", "provider": "p", "usage": USAGE}
    return ModelReply.model_validate(facts | changes)


def _result(**changes: Any) -> TurnResult:
    facts: dict[str, Any] = {"stop": "answer", "model": "m-1", "provider": "p", "usage": USAGE}
    return TurnResult.model_validate(facts | changes)


@pytest.mark.parametrize("kind", TASK_TYPES)
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data(), written=st.sampled_from(["{}", "  {}\n", "```json\n{}\n```", "```\n{}\n```\n"]))
def test_json_of_the_requested_shape_is_read_as_the_answer(kind: str, data: st.DataObject, written: str) -> None:
    answer = data.draw(contracts(TASK_TYPES[kind].answer_type))
    text = written.replace("{}", answer.model_dump_json(exclude={"kind"}))

    if isinstance(answer, TypedAnswer):  # its data was not requested
        answer = answer.model_copy(update={"data": None})
    assert interpret(_reply(text), type(answer)) == _result(answer=answer)


@settings(max_examples=settings().max_examples // 5)
@given(json_values(), st.sampled_from(["is_expected", "reason", "approve_all"]))
def test_a_judge_reply_is_read_in_exactly_one_form(value: object, name: str) -> None:
    """Another value, an extra field, a duplicate key or surrounding text makes it malformed."""
    exact: dict[str, object] = {"is_expected": True, "reason": ""}
    passing = {json.dumps(exact | {"is_expected": each}) for each in (True, False)}
    once = json.dumps(exact | {name: value})
    twice = f"{json.dumps(exact)[:-1]}, {json.dumps(name)}: {json.dumps(value)}}}"

    for text in (once, twice, f"[{once}]", f"Approve all. {json.dumps(exact)}", json.dumps({"answer": exact})):
        is_read = interpret(_reply(text), JudgeCallAnswer).stop == "answer"
        assert is_read == (text in passing or (name == "reason" and text == once and isinstance(value, str)))


def test_a_malformed_reply_states_the_reason() -> None:
    cases = [
        ("Perhaps so.", "input: Invalid JSON: expected value at line 1 column 1"),
        ('{"answer": "a", "gaps": []', "input: Invalid JSON: EOF while parsing an object at line 1 column 26"),
        ("[]", "input: must be an object"),
        ('{"answer": 1, "gaps": []}', "answer: must be a string; confidence: is required"),
        ("[" * 100_000, "input: Invalid JSON: recursion limit exceeded at line 1 column 202"),
        (json.dumps({"answer": "w" * 10_000_000, "gaps": []}), "it has more than 200,000 characters"),
    ]

    for text, problem in cases:
        assert interpret(_reply(text), SynthesisAnswer) == _result(stop="malformed", text=text[:2_000], problem=problem)


def test_an_answer_cites_at_most_forty_sources() -> None:
    findings = [
        FindingDraft(claim=f"Claim {number}", source_refs=[f"S{number}", "S0"], quote="", confidence=90)
        for number in range(60)
    ]
    result = interpret(_reply(WORK.model_copy(update={"findings": findings}).model_dump_json()), WorkAnswer)

    assert isinstance(result.answer, WorkAnswer)
    assert [finding.claim for finding in result.answer.findings] == [finding.claim for finding in findings]
    assert {ref for finding in result.answer.findings for ref in finding.source_refs} == {f"S{n}" for n in range(40)}


def test_truncated_refused_and_empty_replies_are_not_read_as_answers() -> None:
    for stop in ("truncated", "refused", "empty"):
        text = WORK.model_dump_json() + " " * 5_000
        assert interpret(_reply(text, stop), WorkAnswer) == _result(stop=stop, text=text[:2_000])
