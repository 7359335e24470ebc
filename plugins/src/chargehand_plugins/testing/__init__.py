"""The testing kit: run a tool or a session with a scripted model, or replace the client with a stand-in.

    run = await run_session(SessionRequest(goal="…", crew="shop"), Script().plan(…), crews="crews", tools=[refund])
    assert run.report.answer == "…"

`StandInChargehand` is the client's API without a server, with sessions that end as you specify:

    chargehand = StandInChargehand(report_of("Three months."))
    await code_under_test(chargehand)
    assert chargehand.requests["session-1"].goal == "…"
"""

from chargehand_plugins.testing.scripted_session import run_conversation, run_session, run_tool
from chargehand_plugins.testing.scripts import (
    Asked,
    Reply,
    Script,
    ScriptedConversation,
    ScriptedRun,
    ToolUse,
    answer,
    finding,
    issue,
    subtask,
    use,
    use_all,
)
from chargehand_plugins.testing.stand_in import StandInChargehand, StandInScript, StandInSession, report_of
from chargehand_plugins.testing.stand_in_conversation import StandInConversation

__all__ = [
    "Asked",
    "Reply",
    "Script",
    "ScriptedConversation",
    "ScriptedRun",
    "StandInChargehand",
    "StandInConversation",
    "StandInScript",
    "StandInSession",
    "ToolUse",
    "answer",
    "finding",
    "issue",
    "report_of",
    "run_conversation",
    "run_session",
    "run_tool",
    "subtask",
    "use",
    "use_all",
]
