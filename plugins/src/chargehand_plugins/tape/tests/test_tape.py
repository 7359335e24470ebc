"""Tapes: what identifies a request, what is written and shown, and what is refused of a file or a setting."""

import json
import os
import stat
from pathlib import Path

import pytest
from pydantic import JsonValue

from activities.backends import SettingsError
from activities.contracts.rounds import Round, ToolCall
from activities.models.failures import ProviderError
from activities.models.protocol import CountsInput, ModelCall, ModelReply
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.protocol import Message
from activities.turn_kinds.work import WorkTask
from chargehand_cli.run_options import BadRequest
from chargehand_plugins.empty_fields import with_empty_fields
from chargehand_plugins.extractive.model import ExtractiveModel
from chargehand_plugins.tape.contracts import Line, TapedReply, ToolAsked, WorkerFacts, identify
from chargehand_plugins.tape.format import MOST_LINE_BYTES, TurnAsked
from chargehand_plugins.tape.player import CountingReplayedModel, NotOnTape, Tape, read_tape
from chargehand_plugins.tape.recorder import RecordingModel, TapeFile, recording, taped_reply
from chargehand_plugins.tape.wire import wire_lines
from tests.activities.models.calls import KEY, a_call
from tests.scripted_model import ScriptedModel, answer, reply, usage
from worker.program import main

FACTS = WorkerFacts(models={}, tools={})
HEAD = '{"chargehand_tape": 1}\n{"worker": {"models": {}, "tools": {}}}\n'


def entry(about: str, text: str, after: int = 0) -> Line:
    turn = TurnAsked(kind="work", agent="reader", about=about, round=after)
    return Line(turn=turn, reply=TapedReply(text=text, model="m", provider="p"))


def test_a_request_is_identified_without_its_prompt() -> None:
    """Other system text, messages, tool descriptions or models do not make another request."""
    call = a_call()
    reworded = a_call(messages=[Message(role="user", text="Otherwise.")], tools=())

    assert identify(call) == identify(reworded.model_copy(update={"system": "Now different.", "model": "other"}))


def test_each_round_is_a_separate_request() -> None:
    """The round and its last tool calls tell requests apart; the ids that a provider gave them do not."""

    def in_round(*calls: ToolCall) -> ModelCall:
        task = WorkTask(goal="g", instruction="i", rounds=(Round(calls=calls),) if calls else ())
        return a_call().model_copy(update={"task": task})

    first, again = (ToolCall(id=id_, tool="search", arguments={"query": "fog"}) for id_ in ("x", "y"))
    other = first.model_copy(update={"arguments": {"query": "ice"}})

    assert identify(in_round(first)) == identify(in_round(again))
    assert len({identify(call).model_dump_json() for call in (in_round(), in_round(first), in_round(other))}) == 3


async def test_a_tape_is_private_and_has_no_keys(tmp_path: Path) -> None:
    """Its mode is 0600; configured secrets and anything that looks like a key are redacted at any depth."""
    said = answer(f"The house key is hunter2-of-the-house; the other {KEY}.", ref=f"https://x/?k={KEY}", quote=KEY)
    model = RecordingModel(
        ScriptedModel(lambda _: reply(said)), TapeFile(file := tmp_path / "t.jsonl", ["hunter2-of-the-house"], FACTS)
    )
    await model.complete(a_call())

    written = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [next(iter(json.loads(line))) for line in written.splitlines()] == ["chargehand_tape", "worker", "turn"]
    assert "hunter2" not in written
    assert KEY not in written
    assert written.count("[redacted]") == 6


def test_a_line_above_the_limit_ends_the_tape(tmp_path: Path) -> None:
    """What was written before can be read."""
    tape = TapeFile(tmp_path / "t.jsonl", [], FACTS)
    for text in ("short", "x" * MOST_LINE_BYTES, "later"):
        tape.keep(entry("i", text))

    assert [line.reply.text for line in read_tape(tmp_path / "t.jsonl").lines if line.reply] == ["short"]


def test_an_invalid_tape_is_refused(tmp_path: Path) -> None:
    """Too long, too deep, ambiguous, misspelt or of another version, it stops the worker; the line is named."""
    cases = [
        ("", "is not a tape of version 1"),
        ('{"chargehand_tape": 2}\n', "is not a tape of version 1"),
        ('{"chargehand_tape": 1}\n', "has no line `worker`"),
        (HEAD + "[" * 100_000 + "\n", "line 3: is nested more than"),
        (HEAD + f'{{"note": "{"x" * MOST_LINE_BYTES}"}}\n', "line 3: has 4,"),
        (HEAD + '{"turn": {"kind": "work", "agent": "a", "about": "b", "roud": 1}}\n', "line 3: turn.roud"),
        (HEAD + '{"note": "a", "note": "b"}\n', "line 3: the key 'note' occurs more than once"),
        (HEAD + "no JSON\n", "line 3: is not JSON"),
        (HEAD + "{}\n" * 20_000, "has more than 20,000 lines"),
    ]
    for content, problem in cases:
        file = tmp_path / "t.jsonl"
        file.write_text(content)
        with pytest.raises(SettingsError) as refused:
            read_tape(file)
        assert problem in str(refused.value)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="not a regular file"):
        read_tape(tmp_path / "pipe")


def test_a_repeated_request_gets_its_entries_in_order() -> None:
    """A retried step gets its entry again, the next step the next one, and the last entry repeats."""
    tape = Tape(FACTS, (entry("i", "first"), entry("j", "other"), entry("i", "second")))
    asked = entry("i", "").turn
    assert asked

    taken = [tape.entry(asked, step).reply for step in ("1", "1", "2", "3", "1")]

    assert [each.text for each in taken if each] == ["first", "first", "second", "second", "first"]


def test_a_taped_failure_counts_only_if_no_success_followed() -> None:
    """A call retried until it succeeded succeeds; one that failed to the end fails."""
    asked, other = (ToolAsked(agent="a", tool=name) for name in ("search", "read_page"))
    lines = [Line(tool=asked, failure="busy"), Line(tool=other, failure="busy"), Line(tool=other, failure="gone")]
    tape = Tape(FACTS, (*lines, entry("i", "x"), Line.model_validate({"tool": asked, "result": {"ok": True}})))

    assert (tape.entry(asked, "1").failure, tape.entry(other, "1").failure) == (None, "gone")


def test_a_missing_entry_is_named_with_what_differs() -> None:
    """The nearest entry is one of the same subject."""
    tape = Tape(FACTS, (entry("j", "a", 1), entry("i", "b", 1)))

    with pytest.raises(NotOnTape) as missing:
        tape.entry(TurnAsked(kind="work", agent="reader", about="i", round=2, must_answer=True), "1")

    assert str(missing.value) == (
        'Not on the tape: the work turn of reader after round 2 on "i". The nearest entry differs: '
        "`round` is 2 here and 1 there; `must_answer` is true here and false there."
    )


def test_fields_missing_from_a_taped_reply_are_empty() -> None:
    """A tape written by hand, or before a field was required, replays; what it has is kept."""
    schema = PlanAnswer.model_json_schema()
    said: JsonValue = {"subtasks": [{"id": "T1", "agent": "reader", "instruction": "Read."}], "strategy": "reduce"}

    filled = PlanAnswer.model_validate(with_empty_fields(said, schema))

    (subtask,) = filled.subtasks
    assert (subtask.id, subtask.agent, subtask.instruction, subtask.depends_on) == ("T1", "reader", "Read.", [])
    assert (filled.strategy, filled.final_instruction) == ("reduce", "")


async def test_prompts_are_counted_while_recording_and_replaying(tmp_path: Path) -> None:
    """A model that counts still does when recorded; a replay returns what the taped reply was charged for."""
    model, file = ScriptedModel(lambda _: reply(answer("Known."))), tmp_path / "t.jsonl"
    counting = recording(model, TapeFile(file, [], FACTS))
    await counting.complete(a_call())
    replayed = CountingReplayedModel(read_tape(file))

    assert isinstance(counting, CountsInput)
    assert await counting.count_input(a_call()) == await model.count_input(a_call())
    assert not isinstance(recording(ExtractiveModel(), TapeFile(file, [], FACTS)), CountsInput)
    assert await replayed.count_input(a_call()) == usage().input_tokens
    with pytest.raises(ProviderError):
        await replayed.count_input(a_call(must_answer=True))


def test_replies_that_are_not_json_objects_are_kept_as_text() -> None:
    """JSON objects are readable on the tape; anything else stays as it was."""
    texts = ['{"a": 1}', "[1]", "Well …", "[" * 5_000]
    kept = [taped_reply(ModelReply(stop="answer", text=text, model="m", provider="p")) for text in texts]

    assert [each.answer for each in kept] == [{"a": 1}, None, None, None]
    assert [each.text for each in kept] == ["", *texts[1:]]


async def test_a_tape_holds_each_part_of_a_prompt_once(tmp_path: Path) -> None:
    """The first turn has the system text and messages, a later one only what is new."""
    first = Message(role="user", text="Find it.")
    later = [first, Message(role="assistant", text="Wait."), Message(role="user", text="Go on.")]
    model = RecordingModel(ScriptedModel(lambda _: reply(answer("Found."))), TapeFile(tmp_path / "t.jsonl", [], FACTS))

    for messages in ([first], later):
        await model.complete(a_call(messages=messages))

    prompts = [line.prompt for line in read_tape(tmp_path / "t.jsonl").lines if line.prompt]
    assert [(bool(prompt.system), [each.text for each in prompt.messages]) for prompt in prompts] == [
        (True, ["Find it."]),
        (False, ["Go on."]),
    ]


TURN = {
    "turn": {"kind": "work", "agent": "reader", "about": "i", "round": 1},
    "prompt": {"system": "You read.", "messages": [{"role": "user", "text": "Find it."}]},
    "reply": {"stop": "answer", "answer": {"content": "Found."}},
}


def test_each_turn_is_shown_with_its_prompt_and_its_reply(tmp_path: Path) -> None:
    """Lines without a turn are skipped; a turn written by hand says that its prompt is not on the tape."""
    by_hand = {"turn": {"kind": "plan", "agent": "supervisor", "about": "Tides"}, "failure": {"message": "busy"}}
    tape = tmp_path / "t.jsonl"
    tape.write_text("\n".join(json.dumps(line) for line in ({"chargehand_tape": 1}, TURN, by_hand)))

    shown = "\n".join(wire_lines(tape)).split("═══ 2")

    first, second = shown
    assert [text in first for text in ("work · reader · round 1", "You read.", "Find it.", "Found.")] == [True] * 4
    assert [text in second for text in ("plan · supervisor", "not on this tape", "busy")] == [True] * 3


def test_an_invalid_tape_cannot_be_shown(tmp_path: Path) -> None:
    """The error names the file."""
    for content in (b"", b"no JSON", b"[1]\n7\nnull", b'{"turn": 3}', b"[" * 100_000):
        file = tmp_path / "t.jsonl"
        file.write_bytes(content)
        with pytest.raises(BadRequest, match=r"t\.jsonl"):
            list(wire_lines(file))


def test_recording_during_a_replay_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names both settings."""
    settings = {"CHARGEHAND_TAPE_REPLAY": __file__, "CHARGEHAND_TAPE_RECORD": "/no/such/file"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    code = main(["--check-settings"])

    told = capsys.readouterr().err
    assert (code, [name for name in settings if name not in told]) == (2, [])
