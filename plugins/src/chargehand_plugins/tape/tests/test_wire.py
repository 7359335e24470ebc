"""`chargehand tape show` shows what was sent and what came back, and nothing of a file that is no tape."""

import json
from pathlib import Path

import pytest

from chargehand_cli.run_options import BadRequest
from chargehand_plugins.tape.wire import wire_lines

TURN = {
    "turn": {"kind": "work", "agent": "reader", "about": "i", "round": 1},
    "prompt": {"system": "You read.", "messages": [{"role": "user", "text": "Find it."}]},
    "reply": {"stop": "answer", "answer": {"content": "Found."}},
}


def test_each_turn_is_shown_with_its_prompt_and_its_reply(tmp_path: Path) -> None:
    """Lines without a turn are passed over; a turn written by hand says that its prompt is not there."""
    by_hand = {"turn": {"kind": "plan", "agent": "supervisor"}, "failure": {"message": "busy"}}
    tape = tmp_path / "t.jsonl"
    tape.write_text("\n".join(json.dumps(line) for line in ({"chargehand_tape": 1}, TURN, by_hand)))

    shown = "\n".join(wire_lines(tape)).split("═══ 2")

    first, second = shown
    assert [text in first for text in ("work · reader · round 1", "You read.", "Find it.", "Found.")] == [True] * 4
    assert [text in second for text in ("plan · supervisor", "not on this tape", "busy")] == [True] * 3


def test_what_is_no_tape_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    for content in (b"", b"no JSON", b"[1]\n7\nnull", b'{"turn": 3}', b"[" * 100_000):
        file = tmp_path / "t.jsonl"
        file.write_bytes(content)
        with pytest.raises(BadRequest, match=r"t\.jsonl"):
            list(wire_lines(file))
