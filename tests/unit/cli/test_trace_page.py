"""A trace as a page."""

from chargehand_cli.rendering.page import trace_page
from tests.unit.cli.reports import HOSTILE_TRACE


def test_a_trace_page_shows_what_tools_were_given_and_runs_nothing() -> None:
    """Plan, arguments, results and references are in it as text; what a model wrote stays text."""
    page = trace_page(HOSTILE_TRACE)

    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    for shown in ("9,999 bytes: s1/run#7", "task ab12", "ToolUnavailable", "never taken up"):
        assert shown in page
