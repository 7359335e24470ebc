"""Notes: what an agent may keep, and how much of it."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.rounds import Note, ToolCall
from chargehand.contracts import Source
from workflows.rules.notes import MOST_NOTES, Notes

PAGE = Source(ref="handbook.md#L1", title="Notice", url="https://example.org/h", quote="Notice is\n three months.")
READ = {PAGE.ref: PAGE}


def call(**arguments: JsonValue) -> ToolCall:
    return ToolCall(id="1", tool="note", arguments={"claim": "", "ref": "", "quote": ""} | arguments)


def test_a_note_rests_on_what_was_read() -> None:
    """A claim is kept with its source and the quoted words of it, and without a source as a conclusion."""
    notes = Notes()

    answers = [
        notes.answer(call(claim="Three months.", ref=f"[{PAGE.ref}]", quote="Notice is three months"), READ),
        notes.answer(call(claim="Nothing on costs."), READ),
    ]

    assert [result.output for result in answers] == [{"notes": 1}, {"notes": 2}]
    quoted = PAGE.model_copy(update={"quote": "Notice is three months"})
    assert notes.kept == (Note(claim="Three months.", source=quoted), Note(claim="Nothing on costs."))


def test_a_note_that_cannot_be_kept_says_why() -> None:
    """Nothing is kept that was not read, and the model is told what to change."""
    cases: list[tuple[dict[str, JsonValue], str]] = [
        ({"claim": "Four months.", "ref": "elsewhere.md"}, "No tool has returned this ref"),
        ({"claim": "Four months.", "ref": PAGE.ref, "quote": "four months"}, "does not contain these words"),
        ({"claim": "Long.", "ref": PAGE.ref, "quote": "n" * 601}, "at most 600 characters"),
        ({"claim": " ", "ref": PAGE.ref}, "1 to 1,000 characters"),
        ({"claim": "c" * 1_001}, "1 to 1,000 characters"),
        ({"claim": ["a", "b"]}, "are texts"),
        ({"claim": "Kept."}, "kept this note already"),
    ]
    for arguments, problem in cases:
        notes = Notes([Note(claim="Kept.")])
        result = notes.answer(call(**arguments), READ)
        assert not result.ok
        assert problem in str(result.output)
        assert notes.kept == (Note(claim="Kept."),)


@given(st.lists(st.text(min_size=1, max_size=1_000), max_size=8), st.integers(1, 300))
def test_notes_are_bounded(claims: list[str], times: int) -> None:
    """However many are taken, their number and their bytes stay within bounds, and the first ones stay."""
    notes = Notes()
    for number in range(times):
        for claim in claims:
            notes.answer(call(claim=f"{number} {claim}"[:1_000]), {})

    assert len(notes.kept) <= MOST_NOTES
    assert sum(len(note.model_dump_json().encode()) for note in notes.kept) <= 60_000
    assert Notes(notes.kept).kept == notes.kept
