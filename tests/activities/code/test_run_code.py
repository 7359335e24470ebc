"""The tool `run_code`, over the real embedded sandbox."""

import hashlib

import pytest
from pydantic import JsonValue

from activities.code.monty import MontyRunner
from activities.code.protocol import Artefact, CodeResult
from activities.code.tool import RunCode
from activities.tools import OUTPUT_CAP_CHARACTERS, ToolAnswer, ToolContext
from chargehand.contracts import Source

CONTEXT = ToolContext(session="s", agent="analyst", idempotency_key="s/1")


class Scripted:
    """A sandbox whose results are given."""

    name = "scripted"
    language = "Nothing at all."

    def __init__(self, result: CodeResult) -> None:
        self._result = result
        self.ran: list[tuple[str, str]] = []

    async def run(self, code: str, name: str) -> CodeResult:
        self.ran.append((code, name))
        return self._result


async def test_what_was_computed_is_a_source() -> None:
    """Findings can rest on a computation: it has a name, and its output is the quotation."""
    code = "print(6 * 7)\n'done'"

    answer = await RunCode(MontyRunner()).use({"code": code}, CONTEXT)

    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    assert answer == ToolAnswer(
        output={"sandbox": "monty"},
        sources=(Source(ref=f"code:{digest}", title="Computed", quote="42\n'done'"),),
    )


async def test_a_failing_program_is_an_answer_and_no_evidence() -> None:
    """The agent is told what went wrong and sees what was printed; nothing can be cited."""
    answer = await RunCode(MontyRunner()).use({"code": "print('begun')\n1 / 0"}, CONTEXT)

    assert not answer.ok
    assert answer.sources == ()
    assert str(answer.output["error"]).endswith("ZeroDivisionError: division by zero")
    assert answer.output["printed"] == "begun"


@pytest.mark.parametrize("arguments", [{}, {"code": ""}, {"code": "  "}, {"code": 7}, {"code": None}])
async def test_a_call_without_code_is_answered_in_words(arguments: dict[str, JsonValue]) -> None:
    """Nothing is run without code."""
    sandbox = Scripted(CodeResult())

    answer = await RunCode(sandbox).use(arguments, CONTEXT)

    assert answer == ToolAnswer(ok=False, output={"error": "run_code needs `code`: the whole program, as text."})
    assert sandbox.ran == []


async def test_the_runner_is_given_the_calls_name() -> None:
    """What a crash leaves behind in a sandbox can be found by the name of the call."""
    sandbox = Scripted(CodeResult(stdout="1\n"))

    await RunCode(sandbox).use({"code": "print(1)"}, CONTEXT)

    assert sandbox.ran == [("print(1)", "s/1")]


async def test_silence_is_said() -> None:
    """A program that shows nothing is told to be one, and cannot be cited."""
    answer = await RunCode(Scripted(CodeResult())).use({"code": "x = 1"}, CONTEXT)

    assert answer == ToolAnswer(output={"sandbox": "scripted", "note": "The program printed nothing and has no value."})


async def test_pictures_are_named_as_not_kept() -> None:
    """Nobody is led to believe that a picture reaches the report."""
    result = CodeResult(stdout="1", artefacts=(Artefact(name="result-1.png", media_type="image/png"),))

    answer = await RunCode(Scripted(result)).use({"code": "plot()"}, CONTEXT)

    assert answer.output == {"sandbox": "scripted", "not_kept": ["result-1.png (image/png)"]}


@pytest.mark.parametrize("error", ["", "e" * 100_000])
async def test_an_answer_stays_under_the_cap(error: str) -> None:
    """However much a program prints, a model is handed no more than the cap of a tool call."""
    flood = CodeResult(stdout="o" * 100_000, stderr="w" * 100_000, value="v" * 100_000, error=error)

    answer = await RunCode(Scripted(flood)).use({"code": "flood()"}, CONTEXT)

    assert len(answer.model_dump_json()) <= OUTPUT_CAP_CHARACTERS


async def test_the_language_is_part_of_the_description() -> None:
    """An agent knows before its first call what it may write."""
    assert RunCode(MontyRunner()).spec.description.endswith(MontyRunner.language)
