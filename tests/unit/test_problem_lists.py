"""Messages that list problems are bounded: what is wrong with an input may be anything, any number of times."""

import re
from itertools import product

from chargehand.contracts.problems import join_problems
from chargehand.converter import invalid_input

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
