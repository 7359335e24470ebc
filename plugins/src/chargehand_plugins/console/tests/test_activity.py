"""What the page of a session says of the messages to its agents."""

from chargehand.converter import data_converter
from chargehand.history.projection import Child, Projection
from chargehand.history.records import Decoder
from chargehand.history.steps import Draft, Scope
from chargehand_plugins.console.activity import messages_of


def _projection(id_: str) -> Projection:
    return Projection(Scope(Decoder(data_converter()), "s", Draft.of(id_), id_))


def _below(parent: Projection, path: str) -> Projection:
    child = Child(Draft.below("s", path, "Subtask"), 1, path, "", 1)
    parent.children.append(child)
    child.projection = _projection(path)
    return child.projection


def _add(projection: Projection, text: str, *, to: str = "", turn: str = "") -> None:
    draft = projection.scope.add(f"message-{len(projection.scope.steps) + 1}", "message", text)
    draft.subtask, draft.purpose, draft.state = to, turn, "completed" if turn else "running"


def test_equal_messages_are_read_one_after_the_other() -> None:
    """An agent that has read one of two messages with the same words has not read the other, nor one to others."""
    session = _projection("s")
    nested = _below(session, "N1")
    agents = {path: _below(nested if "/" in path else session, path) for path in ("T1", "T2", "N1/X1")}
    for to in ("", "T2", "N1", ""):
        _add(session, "Be brief.", to=to)
    reads = {"T1": ("turn-2",), "T2": ("turn-3", "turn-4", ""), "N1/X1": ("turn-5", "turn-5")}
    for path, turns in reads.items():
        for turn in turns:
            _add(agents[path], "Be brief.", turn=turn)

    assert [message.readers for message in messages_of(session)] == [
        ("N1/X1, turn 5", "T1, turn 2", "T2, turn 3"),
        ("T2, turn 4",),
        ("N1/X1, turn 5",),
        (),
    ]
