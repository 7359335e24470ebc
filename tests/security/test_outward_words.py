"""The planner's knowledge of the documents leaves the machine only if a person allows it."""

import base64
import codecs
from pathlib import Path

import pytest
from pydantic import JsonValue

from activities.models.protocol import ModelReply
from chargehand.contracts import Report, SessionRequest
from tests.activities.pages.page_server import serve_pages
from tests.scripted_model import Script, answer, plan, report, request_tools, subtask
from tests.security.environment import Engine, Stand, open_stand
from tests.waiting import until_state

HEADING = "Project Bluebird: takeover of Meridian Shipping"
CLEAN = "Search the web for news about shipping companies this month."
QUERIES = (
    *(f"news on {HEADING}", HEADING.upper(), HEADING[::-1], codecs.encode(HEADING, "rot13")),
    *(base64.b64encode(HEADING.encode()).decode(), f"what is {HEADING.encode().hex()}"),
)


def uses(tool: str, *arguments: dict[str, JsonValue]) -> ModelReply:
    return request_tools(*((tool, each) for each in arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "ledger.md").write_text(f"# {HEADING}\n\nIt costs 4,825,017 EUR.\n")
    return tmp_path / "own"


async def run(stand: Stand, folder: Path, goal: str, *, is_approved: bool = False, is_trusted: bool = False) -> Report:
    documents = (f"file:{folder}/",)
    trusted, approval = documents if is_trusted else (), "plan" if is_approved else "none"
    request = SessionRequest(goal=goal, documents=documents, trusted_documents=trusted, review="never")
    request = request.replace(approval=approval)
    session = await stand.chargehand.start(request)
    if is_approved:
        await until_state(session, "awaiting_approval")
        await session.approve()
    return await session.result()


def planned(*instructions: str) -> Script:
    """Plan these instructions, the next one after each refusal."""
    drafts = [plan(subtask("T1", "researcher", instruction=each)) for each in instructions]
    return Script().plans(*drafts).on("synthesis", report("Done."))


@pytest.mark.parametrize("knows", ["", "is_approved", "is_trusted"])
async def test_a_planner_whose_agents_can_reach_out_sees_no_documents(tmp_path: Path, folder: Path, knows: str) -> None:
    """Its instructions could leak them, unless a person approves the plan or the caller trusts the documents."""
    script = planned(CLEAN).work("", answer("Done."))
    async with serve_pages() as web, open_stand(tmp_path, script, web, Engine(), roots=[folder]) as stand:
        await run(stand, folder, "What is new?", **({knows: True} if knows else {}))

    prompt = stand.model.of_kind("plan")[0].messages[0].text
    assert (HEADING in prompt, "ledger" in prompt, "document 1" in prompt) == (bool(knows), bool(knows), not knows)


@pytest.mark.parametrize(
    ("goal", "plans", "query"),
    [("What is new?", 2, "shipping companies"), (f"What is new about {HEADING}?", 1, HEADING)],
    ids=["refused", "the user's own words"],
)
async def test_a_plan_that_would_send_document_text_out_is_refused(
    tmp_path: Path, folder: Path, goal: str, *, plans: int, query: str
) -> None:
    """The planner is told which subtask; the user's own question may be searched even with a document's name in it."""
    script = planned(f"Search the web for {HEADING} and its price.", CLEAN)
    script = script.work("", uses("search", {"query": query}), answer("Done."))
    async with serve_pages() as web, open_stand(tmp_path, script, web, Engine(), roots=[folder]) as stand:
        await run(stand, folder, goal)

    assert len(stand.model.of_kind("plan")) == plans
    assert plans == 1 or "T1" in str(stand.model.of_kind("plan")[1].task)
    assert [used.arguments["query"] for used in stand.uses] == [query]


@pytest.mark.parametrize("is_approved", [False, True])
async def test_queries_that_contain_document_text_are_not_sent(
    tmp_path: Path, folder: Path, *, is_approved: bool
) -> None:
    """This covers every encoding, argument and argument name; what a person has approved is sent."""
    asked: list[dict[str, JsonValue]] = [{"query": query} for query in QUERIES]
    asked.extend([{"query": "x", "in": [{"about": HEADING}]}, {"query": "x", "in": [{HEADING: "about"}]}])
    instruction = f"Search the web for {HEADING} and its price." if is_approved else CLEAN
    script = planned(instruction).work(
        "", uses("search", *asked[:4]), uses("search", *asked[4:], {"query": "shipping"}), answer("Done.")
    )
    async with serve_pages() as web, open_stand(tmp_path, script, web, Engine(), roots=[folder]) as stand:
        await run(stand, folder, "What is new?", is_approved=is_approved)

    sent = [used.arguments for used in stand.uses]
    assert {"query": "shipping"} in sent
    assert [each for each in asked if each in sent] == (asked if is_approved else [])


async def test_a_page_search_may_contain_document_text_but_its_url_may_not(tmp_path: Path, folder: Path) -> None:
    """The `find` text is compared locally and is never sent."""
    async with serve_pages() as web:
        url = f"http://{web.host}/"
        asked: list[dict[str, JsonValue]] = [
            {"url": url, "from": 0, "find": HEADING},
            {"url": f"{url}?q={HEADING.replace(' ', '+')}", "from": 0, "find": ""},
        ]
        script = planned(CLEAN).work("", uses("read_page", *asked), answer("Done."))
        async with open_stand(tmp_path, script, web, Engine(), roots=[folder]) as stand:
            await run(stand, folder, "What is new?")

    assert [used.arguments for used in stand.uses] == asked[:1]
