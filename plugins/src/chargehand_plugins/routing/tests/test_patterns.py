"""Patterns of routes."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.crew import RouteRule, Routing
from chargehand_plugins.routing.rules import matches, rule_for

TEXT = st.text("ab*?.[ß", max_size=12)


@given(pattern=TEXT, text=TEXT)
def test_a_star_matches_any_text_and_nothing_else_is_special(pattern: str, text: str) -> None:
    """A pattern matches as the regex of its escaped parts joined by `.*` does, ignoring case."""
    expression = ".*".join(re.escape(part) for part in pattern.casefold().split("*"))

    assert matches(pattern, text) == bool(re.fullmatch(expression, text.casefold(), re.DOTALL))


def test_no_pattern_takes_long() -> None:
    """The longest request, with any patterns, takes under 0.6 s in a workflow; its case is folded once."""
    began = time.process_time()
    for pattern in ("*a" * 100 + "*b", "*" * 200, "*" + "a" * 199):
        matches(pattern, "a" * 20_000)
    rule = RouteRule(match=("*zq",) * 50, agents=("clerk",))

    assert rule_for(Routing(rules=(rule,) * 50), "İ" * 20_000) is None
    assert time.process_time() - began < 0.6
