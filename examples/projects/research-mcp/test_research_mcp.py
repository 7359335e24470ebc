"""Two researchers use the real MCP server, and the report cites what it returned."""

import asyncio
from pathlib import Path

import pytest

from chargehand import SessionRequest
from chargehand_plugins.testing import Script, answer, finding, run_session, subtask, use

FOLDER = Path(__file__).parent


def test_reports_of_the_library_are_cited(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a researcher quotes from a tool's result is a source."""
    monkeypatch.chdir(FOLDER)
    read = "library_read_report"
    script = (
        Script()
        .plan(
            subtask("T1", "researcher", "Find out how long the batteries of the ferry Tern lasted."),
            subtask("T2", "researcher", "Find out how long the batteries of the ferry Plover lasted."),
        )
        .work(
            "Tern",
            use("library_find_reports", words="tern batteries"),
            use(read, report="R-1"),
            answer("Tern: 88 %.", finding("88 % after 3,100 cycles", "p2", quote="After 3,100 cycles 88 %")),
        )
        .work("Plover", use(read, report="R-2"), answer("Plover: 71 %."))
        .report("Those of the Tern, of which 88 % was left after 3,100 cycles [S1.1].")
    )

    request = SessionRequest(goal="Which batteries lasted longest?", crew="library")
    run = asyncio.run(run_session(request, script, crews=FOLDER / "crews"))

    assert {call.tool for call in run.tool_calls} == {"library_find_reports", read}
    assert "Air cooled them" in "".join(turn.prompt for turn in run.turns)
    [source] = run.report.sources
    assert source.ref.startswith("mcp:library_read_report:")
