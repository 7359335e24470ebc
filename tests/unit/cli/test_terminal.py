"""Nothing that a model, a document, a page or a user wrote controls the terminal that it is shown on."""

import ast
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chargehand import PendingCall, Plan, Question, Status, Subtask, SubtaskRecord
from chargehand_cli import terminal
from chargehand_cli.live_tree import Lines, now, session_tree
from chargehand_cli.rendering.escaping import exact_text, one_safe_line
from chargehand_cli.rendering.progress import argument_lines, plan_lines
from chargehand_cli.rendering.terminal_report import put_on_screen
from chargehand_cli.rendering.text import report_markdown
from tests.unit.cli.reports import at, report

SOURCES = Path(terminal.__file__).parent
CONTROLS = [chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp")]
BIDI = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)]
OPENINGS = [
    "\x1b[", "\x9b", "\x1b]", "\x9d", "\x1bP", "\x90", "\x1b_", "\x9f", "\x1b^", "\x9e", "\x1bX", "\x98", "\x1b",
]  # fmt: skip
ENDINGS = [
    "2J", "31m", "6n", "52;c;aGk=\x07", "8;;http://e\x1b\\x", "0;title\x9c", "?1049h", "c", "\\", "#8", "$q\x1b\\", "",
]  # fmt: skip
SHAPELESS = [*"\u034f\u115f\u1160\u17b4\u2800\u3164\ufe0f\uffa0", *map(chr, range(0xE0100, 0xE01F0))]
hostile = st.lists(
    st.sampled_from([*CONTROLS, *BIDI])
    | st.tuples(st.sampled_from(OPENINGS), st.sampled_from(ENDINGS)).map("".join)
    | st.sampled_from(["word", "[red]", "](", "# ", "`", "<", "\n", "é", "字"]),
    max_size=12,
).map("".join)


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def _status(text: str) -> Status:
    record = SubtaskRecord(id="T1", agent=text, instruction=text, reason=text, started_at=at(0))
    question = Question(subtask="T1", agent=text, text=text, open_until=at(300))
    return Status(session="s", goal=text, state="executing", subtasks=(record,), questions=(question,))


def _tree(text: str) -> None:
    status = _status(text)
    terminal.console(sys.stdout).print(session_tree(text, status, text, now(), now()))


def _plan(text: str) -> Plan:
    subtask = Subtask.model_construct(id=text, agent=text, instruction=text, depends_on=(text,))
    return Plan.model_construct(subtasks=(subtask,), strategy="merge", final_instruction=text)


def _lines(text: str) -> None:
    lines = Lines()
    lines.update(_status(text))
    lines.remark(text)


WRITERS: dict[str, Callable[[str], None]] = {
    "say": terminal.say,
    "put": terminal.put,
    "markdown": terminal.put_markdown,
    "report": lambda text: terminal.put_markdown(report_markdown(report(answer=text, gaps=(text,), brain=text))),
    "screen": lambda text: put_on_screen(
        report(answer=text, gaps=(text,), notice=text, brain=text), terminal.console(sys.stdout)
    ),
    "plan": lambda text: terminal.put("\n".join(plan_lines(_plan(text)))),
    "prompt": terminal.prompt,
    "JSON": lambda text: terminal.put_json(json.dumps({"text": text}, ensure_ascii=False)),
    "JSON of a report": lambda text: terminal.put_json(report(answer=text).model_dump_json(indent=2)),
    "tree": _tree,
    "lines": _lines,
}


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
@settings(
    max_examples=settings().max_examples // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=hostile)
def test_no_control_characters_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    writer: str,
    is_terminal: bool,  # noqa: FBT001
    text: str,
) -> None:
    out = Screen(is_terminal=is_terminal)
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "dumb")  # otherwise the tree has colours of its own
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", out)
        WRITERS[writer](text)

    assert set(out.getvalue()) & {*CONTROLS, *BIDI} <= {"\n", "\t"}


@given(hostile)
def test_json_output_keeps_its_values_when_escaped(text: str) -> None:
    out = Screen(is_terminal=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        terminal.put_json(json.dumps([text], ensure_ascii=False))

    assert json.loads(out.getvalue()) == [text]


@given(hostile)
def test_text_in_a_line_cannot_break_or_control_it(text: str) -> None:
    line = one_safe_line(f"{text}\nERROR forged")

    assert len(line.splitlines()) == 1
    assert not {*line} & {*CONTROLS, *BIDI}


@given(st.text("ab-é  $", max_size=300).map("a{}".format), st.sampled_from([40, 80, 200]))
def test_rows_are_wrapped_between_words_only(row: str, width: int) -> None:
    for is_terminal in (True, False):
        out = Screen(is_terminal=is_terminal)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setenv("COLUMNS", f"{width}")
            terminal.put_row(row)

        lines = out.getvalue().splitlines()
        assert out.getvalue().split() == row.split()
        assert all(len(line) <= max(width, 4 + max(map(len, row.split()))) for line in lines if line and is_terminal)
        assert is_terminal or lines == [row]


def test_commands_print_only_through_the_terminal_module() -> None:
    found = {
        f"{file.relative_to(SOURCES)}: {ast.unparse(call.func)}"
        for file in SOURCES.rglob("*.py")
        if file.parent.name != "embedded" and file.name != "terminal.py"
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and re.fullmatch(r".*sys\.std(out|err).*\.(print|write|writelines)|print|.*echo", ast.unparse(call.func))
    }

    assert found == {"verbs/inspect.py: console(sys.stdout).print"}


def test_approval_prompts_show_every_character() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    unseen = [each for each in every if unicodedata.category(each) in ("Cf", "Co", "Zs", "Zl", "Zp")]
    hidden = {*unseen, *SHAPELESS, *CONTROLS, *BIDI} - {" ", "\n"}
    visible = {unicodedata.name(each).split()[0] for each in hidden if each in exact_text(f"a{each}b")}
    assert visible == {"ARABIC", "SYRIAC", "KAITHI"}  # number signs, which are visible
    call = PendingCall(
        id="c1", hash="h", subtask="T1", agent="a", tool="mail", workflow_id="w", open_until=at(0),
        arguments={"text": "word " * 3_000 + "end\n\U000e0041"},
    )  # fmt: skip

    subtask = Subtask(id="T1", agent="a", instruction="word " * 700 + "first", input={"to": "second\u202e"})
    plan = Plan(subtasks=(subtask,), final_instruction="word " * 700 + "third")
    [line] = argument_lines(call)
    shown = " ".join(plan_lines(plan))

    assert [text for text in ("first", '{"to": "second<U+202E>"}', "third") if text not in shown] == []
    assert line.endswith('word end\\n<U+E0041>"')
    assert len(line) > len("word " * 3_000)
