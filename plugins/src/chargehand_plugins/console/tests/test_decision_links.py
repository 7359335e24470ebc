"""The page of a decision link, over real HTTP and without signing in."""

from pathlib import Path

import pytest
from httpx2 import AsyncClient
from temporalio.client import Client

from chargehand.contracts import DecisionRecord, SessionRequest
from chargehand_plugins.console.tests.conftest import DECISION_KEY, open_console
from chargehand_plugins.webhooks.links import Links
from tests.scripted_model import Script, answer, subtask
from tests.waiting import until_state

SCRIPT = Script().plan(subtask("T1")).work("", answer("It is known."))


@pytest.mark.real_server
async def test_a_link_decides_one_wait_once_and_opens_nothing_else(client: Client, tmp_path: Path) -> None:
    """The page takes one decision of its kind, from its own origin; report and trace say who was sent the link."""
    async with open_console(client, tmp_path, SCRIPT) as console:
        url = console.running.url
        session = await console.environment.chargehand.start(SessionRequest(goal="What is it?", approval="plan"))
        await until_state(session, "awaiting_approval")
        [wait] = (await session.status()).waits
        page = Links(url, DECISION_KEY.encode()).make(session.id, wait, "mailto:a@b.example")
        async with AsyncClient(headers={"Origin": url}, timeout=60, trust_env=False) as phone:
            shown = await phone.get(page)
            forged = await phone.get(f"{page}0")
            foreign = await phone.post(f"{page}/decide_plan", headers={"Origin": "https://evil.example"})
            other = await phone.post(f"{page}/finish_now")
            approved = await phone.post(f"{page}/decide_plan", data={"decision": "approve"})
            again = await phone.post(f"{page}/decide_plan", data={"decision": "reject"})
            inside = await phone.get(f"{url}/sessions/{session.id}")
        report, trace = await session.result(), await session.trace()

    assert 'value="approve"' in shown.text
    assert [each.status_code for each in (forged, foreign, other, approved, again)] == [403, 403, 403, 200, 200]
    assert "it is decided" in approved.text
    assert "Nothing is left to decide" in again.text
    assert inside.status_code == 303
    by = "link sent to mailto:a@b.example"
    [decision] = report.decisions
    assert decision == DecisionRecord(wait="plan", kind="plan", decision="approved", by=by, at=decision.at)
    assert f"plan: approved, by {by}" in [step.name for step in trace.steps]
