"""From options to a request."""

import io
import json
import os
import re
import signal
import threading
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any, Final, cast

import pytest

from chargehand import RaisedLimits, SessionRequest
from chargehand.toml_file import UnusableToml, read_toml
from chargehand_cli.run_options import (
    BadRequest,
    RequestOptions,
    build_plan_edit,
    build_raised_limits,
    build_request,
    read_json,
    read_plan,
)
from chargehand_cli.terminal import Exit, run_interruptible

_URI = "artifact:" + "0" * 64 + "/notes/"


_TYPED: Final[Mapping[str, tuple[object, str, object]]] = {
    "crew": ("audit", "crew", "audit"),
    "tenant": ("acme", "tenant", "acme"),
    "budget": (0.1, "limits.budget_usd", Decimal("0.1")),
    "turns": (7, "limits.max_turns", 7),
    "deadline": ("90s", "limits.deadline", timedelta(seconds=90)),
    "parallel": (2, "limits.max_parallel", 2),
    "depth": (1, "limits.max_depth", 1),
    "attempts": (4, "limits.max_attempts", 4),
    "rounds": (3, "limits.max_rounds", 3),
    "reviews": (6, "limits.max_reviews", 6),
    "subtask_deadline": ("2m", "limits.subtask_deadline", timedelta(minutes=2)),
    "on_limit": ("pause", "limits.on_limit", "pause"),
    "criteria": (["Names a date.", "Is short."], "criteria", ("Names a date.", "Is short.")),
    "approve_plan": (True, "approval", "plan"),
    "review": ("always", "review", "always"),
    "questions": (True, "questions", "allowed"),
    "answer_within": ("PT1H", "answer_within", timedelta(hours=1)),
    "urgency": ("batch", "urgency", "batch"),
}
"""Options as typed, the field each sets, and the resulting value."""


def test_every_option_sets_its_request_field() -> None:
    request = build_request(RequestOptions(goal="What is new?", **{name: row[0] for name, row in _TYPED.items()}), ())  # pyright: ignore[reportArgumentType]  # each of its own type
    read = {path: reduce(getattr, path.split("."), cast("Any", request)) for _, path, _ in _TYPED.values()}

    assert read == {path: value for _, path, value in _TYPED.values()}
    assert {f"limits.{each}" for each in request.limits.model_fields_set} <= read.keys()
    assert request.model_fields_set <= {path.partition(".")[0] for path in read} | {"goal", "documents"}


def test_options_override_fields_of_a_json_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(
        json.dumps({"goal": "What is new?", "documents": [_URI], "limits": {"max_turns": 9, "max_depth": 2}})
    )
    request = build_request(RequestOptions(input=str(file), turns=5), (_URI.replace("0", "1"),))

    assert request.documents == (_URI, _URI.replace("0", "1"))
    assert (request.limits.max_turns, request.limits.max_depth) == (5, 2)


def test_only_a_goal_is_required_and_it_can_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other fields have the contract's defaults. `-` is standard input; as GOAL, it is the question."""
    for options, text in (
        (RequestOptions(goal="What is new?"), ""),
        (RequestOptions(input="-"), '{"goal": "What is new?"}'),
        (RequestOptions(goal="-"), "What is new?\n"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

        assert build_request(options, ()) == SessionRequest(goal="What is new?")


def test_deadlines_accept_common_duration_formats() -> None:
    cases = [
        ("90", 90), ("90s", 90), ("1.5m", 90), ("10 min", 600), ("2h", 7_200), ("1d", 86_400),
        ("1h30m", 5_400), ("PT10M", 600),
    ]  # fmt: skip
    for typed, seconds in cases:
        request = build_request(RequestOptions(goal="What is new?", deadline=typed), ())
        assert request.limits.deadline == timedelta(seconds=seconds)


def test_bad_options_are_refused_by_name() -> None:
    cases = [
        (RequestOptions(goal="  a "), "GOAL: must have at least 3 characters"),
        (RequestOptions(goal="What is new?", crew="No Crew"), "--crew: "),
        (RequestOptions(goal="What is new?", budget=-1), "--budget: "),
        (RequestOptions(goal="What is new?", budget=float("nan")), "--budget: "),
        (RequestOptions(goal="What is new?", turns=0), "--turns: "),
        (RequestOptions(goal="What is new?", turns=2), "--turns: 2 cannot pay for a plan"),
        (RequestOptions(goal="What is new?", deadline="soon"), "--deadline: "),
        (RequestOptions(goal="What is new?", deadline="0"), "--deadline: "),
        (RequestOptions(input="/nowhere.json"), "/nowhere.json cannot be read: No such file or directory"),
    ]
    for typed, problem in cases:
        with pytest.raises(BadRequest, match=problem):
            build_request(typed, ())


def test_an_invalid_request_file_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalid requests are never repaired silently."""
    cases = [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"goal": ' + "9" * 5_000 + "}", "has a number of too many digits"),
        ('{"goal": "What is new?", "limits": 3}', "limits: "),
        ('{"goal": "What is new?", "documents": "all"}', "documents: "),
    ]
    for content, problem in cases:
        monkeypatch.setattr("sys.stdin", io.StringIO(content))
        with pytest.raises(BadRequest, match=problem):
            build_request(RequestOptions(input="-"), ())


@pytest.mark.parametrize(
    "file", ["~no-such-user/x", "a\0", "\ud800", "/" * 5_000, "/", str(Path(__file__).with_suffix(""))]
)
def test_an_unreadable_input_file_is_refused_with_the_reason(file: str) -> None:
    for read in (
        lambda: build_request(RequestOptions(input=file), ()),
        lambda: read_plan(Path(file)),
        lambda: build_plan_edit([], file),
    ):
        with pytest.raises(BadRequest) as refused:
            read()
        told = str(refused.value)
        assert ("cannot be read: " in told, told.isprintable(), len(told) < 500) == (True, True, True)


def test_only_limits_given_as_options_are_raised() -> None:
    assert build_raised_limits(30, 0.3, "20m") == RaisedLimits(
        max_turns=30, budget_usd=Decimal("0.3"), deadline=timedelta(minutes=20)
    )
    assert build_raised_limits(30, None, None) == RaisedLimits(max_turns=30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_a_command_that_reads_a_pipe(tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")

    async def read() -> Exit:
        read_json(str(pipe))
        return Exit.DONE

    # The pipe opens once the command starts reading.
    threading.Thread(target=lambda: (os.open(pipe, os.O_WRONLY), os.kill(os.getpid(), number)), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(read())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 200_000, "is nested too deeply"),
        (b"1" * 100_000, "has a number of too many digits"),
        (b"caf\xe9", "is not UTF-8 text (byte 4)"),
    ],
    ids=["deep", "long number", "latin-1"],
)
def test_parser_errors_do_not_repeat_advice_for_programmers(text: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(text)

    with pytest.raises(BadRequest, match=re.escape(words)):
        read_json(str(file))
    file.write_bytes(b"x = " + text)
    with pytest.raises(UnusableToml, match=re.escape(words.partition(" (")[0])):
        read_toml(file)
