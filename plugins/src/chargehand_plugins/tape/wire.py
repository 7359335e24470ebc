"""What the models of a session read and replied, from its tape."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from chargehand_cli.run_options import BadRequest
from chargehand_plugins.tape.format import MOST_BYTES, TapedPrompt, TurnAsked


class _Line(BaseModel):
    """The parts of a tape's line that are shown; `contracts.py` has the others."""

    turn: TurnAsked | None = None
    prompt: TapedPrompt | None = None
    reply: dict[str, Any] | None = None
    failure: dict[str, Any] | str | None = None


def wire_lines(tape: Path) -> Iterator[str]:
    """Render every turn on a tape in the order of replies: what was new to the model, and what it replied.

    Raises:
        BadRequest: the file cannot be read, or is not a tape.
    """
    try:
        with tape.open("rb") as opened:
            lines = [_Line.model_validate_json(line) for line in opened.read(MOST_BYTES).splitlines()]
    except OSError as error:
        raise BadRequest(f"{tape} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise BadRequest(f"{tape} is not a tape.") from error
    turns = [(line.turn, line) for line in lines if line.turn]
    if not turns:
        raise BadRequest(f"{tape} has no turns. Record a session with `chargehand tape record FILE`.")
    for number, (turn, line) in enumerate(turns, start=1):
        yield f"═══ {number} · {turn.kind} · {turn.agent} · round {turn.round} ═══"
        yield from _prompt_lines(line.prompt)
        yield f"─── reply ───\n{to_json(line.reply or line.failure, indent=1).decode()}\n"


def _prompt_lines(prompt: TapedPrompt | None) -> Iterator[str]:
    if prompt is None:
        yield "(The prompt is not on this tape.)"
        return
    if prompt.system:
        yield f"─── system ───\n{prompt.system}"
    for message in prompt.messages:
        yield "\n".join([f"─── {message.role} ───", *message.results, message.text])
