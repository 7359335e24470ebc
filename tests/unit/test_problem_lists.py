"""Messages that list problems are bounded: what is wrong with an input may be anything, any number of times."""

import re
from itertools import product
from pathlib import Path

from chargehand.converter import invalid_input, join_problems

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("activities", "workflows", "worker", "client/src", "cli/src")
_JOINS = re.compile(r"""; ["']\.join""")
_BOUNDED_ELSEWHERE = {
    "client/src/chargehand/converter.py",  # join_problems itself
    "activities/tools/code/tool.py",
    "activities/tools/data/query.py",
    "activities/models/extractive/figures.py",
    "cli/src/chargehand_cli/verbs/decide.py",
    "workflows/steps/plan_decisions.py",
}
"""Files that join what is no problem, of which there are few: files, columns, conditions, questions, subtasks."""
_LONGEST_MESSAGE = 12_000
_MOST_PROBLEMS = 20


def test_a_message_lists_the_first_problems_and_counts_the_rest() -> None:
    """However many problems there are, and however long, a message is short and leaves none of them out of account."""
    for count, text in product((0, 1, 20, 21, 22, 100_000), ("x", "a: wrong\n", "\x1b[31m" * 100, "é" * 100_000)):
        problems = [text] * count
        message = join_problems(problems)
        more = re.search(r"; and (\d+) more$", message)
        assert len(message) < _LONGEST_MESSAGE
        assert len(str(invalid_input("Input", problems))) < _LONGEST_MESSAGE
        assert (int(more[1]) if more else 0) == max(0, count - _MOST_PROBLEMS - 1)


def test_all_messages_list_problems_in_the_same_way() -> None:
    """No other code joins a list of problems into a message."""
    sources = [*(file for folder in _FOLDERS for file in (_ROOT / folder).rglob("*.py"))]
    joining = {str(source.relative_to(_ROOT)) for source in sources if _JOINS.search(source.read_text())}

    assert joining <= _BOUNDED_ELSEWHERE
