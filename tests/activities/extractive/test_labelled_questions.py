"""The labelled questions that the rules are scored on."""

import re
from pathlib import Path

from benchmarks.extractive_documents import gather
from benchmarks.extractive_questions import bare, read_questions


def test_there_are_enough_of_each_kind_in_both_halves() -> None:
    """At least 40 questions over at least 30 documents, and both halves hold questions with and without an answer."""
    questions = read_questions()
    held_out = [question for question in questions if question.half == "held out"]

    assert len({question.text for question in questions}) == len(questions)
    assert sum(question.is_answerable for question in questions) >= 80
    assert len({name for question in questions for name in question.documents}) >= 60
    assert sum(question.is_answerable for question in held_out) >= 40
    assert sum(not question.is_answerable for question in held_out) >= 15


def test_an_answer_stands_in_its_document(tmp_path: Path) -> None:
    """Where the document is on this machine and is no table, the words that answer stand in it."""
    there = {bare(name): (tmp_path / name).read_text() for name in gather(tmp_path)}
    wrong = [
        question.text
        for question in read_questions()
        if (texts := [there[name] for name in question.documents if name in there])
        and not question.documents & {"debian/releases"}
        and not any(map(question.is_answered_by, texts))
    ]

    assert wrong == []
    assert sum(name.startswith("python/") for name in there) > 50


def test_no_answer_is_so_short_that_anything_holds_it() -> None:
    """Each alternative of a pattern has at least two characters that are no wildcards."""
    patterns = [question.answer for question in read_questions() if question.is_answerable]

    assert all(
        len(re.sub(r"\\.|[^\w]", "", part)) >= 2 or re.search(r"\d", part)
        for text in patterns
        for part in text.split("|")
    )
