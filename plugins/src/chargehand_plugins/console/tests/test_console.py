"""The console: for one tenant, through a decision link, and with its texts from one catalogue."""

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import Mock, patch

import lxml.html
import pytest
from httpx2 import AsyncClient
from temporalio.client import Client

from chargehand import SessionSummary, Status
from chargehand.contracts import DecisionRecord, Limits, SessionRequest
from chargehand.history.projection import Projection
from chargehand.history.records import Decoder
from chargehand.history.steps import Draft, Scope
from chargehand_plugins.console import pages
from chargehand_plugins.console.backend import Backend, KnownSessions
from chargehand_plugins.console.tests.conftest import DECISION_KEY, bare_headings, open_console
from chargehand_plugins.console.views import Page, SessionView, key_of, view_session
from chargehand_plugins.console.words import catalogue
from chargehand_plugins.webhooks.links import Links
from tests.scripted_model import Script, answer, say, subtask, topics
from tests.waiting import until, until_state


async def test_a_tenants_token_is_valid_for_that_tenant_only(client: Client, tmp_path: Path) -> None:
    """Sessions run for the console's tenant, whatever others' keys; those of others are not listed, read or stopped."""
    async with open_console(client, tmp_path, Script().plan(*topics(1)), tenant="initech") as console:
        taken = f"key-{hashlib.sha256(b'k').hexdigest()[:32]}"  # for the same key on a console of all tenants
        theirs = SessionRequest(goal="What is theirs?", tenant="other")
        others = await console.environment.chargehand.start(theirs, session_id=taken)
        await others.result()
        ours = {"json": {"goal": "What is ours?"}, "headers": {"Idempotency-Key": "k"}}
        started, again = [await console.api.post("/api/v1/sessions", **ours) for _ in range(2)]  # pyright: ignore[reportArgumentType]  # one mapping for both
        forged = await console.api.post("/api/v1/sessions", json={"goal": "What is theirs?", "tenant": "other"})
        path = f"/api/v1/sessions/{started.json()['session']}"
        own = await console.api.get(f"{path}/result?wait=60")
        listed = await console.api.get("/api/v1/sessions", params={"tenant": "other", "limit": 1_000})
        spent = await console.api.get("/api/v1/spend")
        hidden = [
            (await console.api.get(f"/api/v1/sessions/{others.id}{part}")).status_code
            for part in ("/status", "/plan", "/result", "/trace", "/events", "/artifacts")
        ]
        stopped = await console.api.post(f"/api/v1/sessions/{others.id}/cancel")
        page = await console.api.get(f"/sessions/{others.id}")
        request = await console.environment.chargehand.session(started.json()["session"]).request()

    assert (started.status_code, again.json(), own.status_code) == (201, started.json(), 200)
    assert request.tenant == "initech"
    assert (forged.status_code, "'initech' only" in forged.text) == (422, True)
    assert {each["tenant"] for each in listed.json()["sessions"]} == {"initech"}
    assert {each["tenant"] for each in spent.json()["rows"]} == {"initech"}
    assert hidden == [404] * len(hidden)
    assert stopped.status_code == 404
    assert "What is theirs" not in page.text


WHAT = f"Find out {'when it sails, ' * 20}and where to."
SCRIPT = Script().plan(subtask("T1", instruction=WHAT)).work("", answer("It is known."))


async def test_a_conversation_can_be_held_in_the_console(client: Client, tmp_path: Path) -> None:
    """Forms open it, send messages and close it; HTML is escaped, a wrong crew keeps what was typed, forgery fails."""
    replies = [say("It *is* <script>alert(1)</script>."), say("Still.")]
    async with (
        open_console(client, tmp_path, Script().on("converse", *replies)) as console,
        console.browser(follow_redirects=True) as browser,
    ):
        form = hidden((await browser.get("/talk")).text)
        wrong = await browser.post("/conversations", data=form | {"crew": "no such crew!", "goal": "Typed."})
        forged = await browser.post("/conversations", data=form | {"csrf": "guessed"})
        opened = await browser.post("/conversations", data=form | {"goal": "Help the tenant."})
        place = opened.url.path
        said = await browser.post(f"{place}/say", data=hidden(opened.text) | {"text": "Is it <b>so</b>?"})
        empty = await browser.post(f"{place}/say", data=hidden(said.text))
        steps = await browser.get(place.replace("conversations", "sessions"))
        listed = await browser.get("/talk")
        closed = await browser.post(f"{place}/close", data=hidden(said.text))
        other = (await browser.post("/conversations", data=form | {"goal": "Help.", "key": "other"})).url.path
        await client.get_workflow_handle(other.rpartition("/")[2]).terminate()
        terminated, silent = [await browser.get(each) for each in (other, other.replace("conversations", "sessions"))]
        unknown = await browser.get("/conversations/no-such-one")
        alike = [await browser.get(path) for path in ("/", "/sessions", "/spend", "/nowhere")]
        seen = [each.text for each in (*alike, listed, said, closed, steps, silent)]
        ours = rf'href="(/[\w?=]*|[^"]*{place[-32:]}[^"]*)"'
        links = {unescape(link) for page in seen for link in re.findall(ours, page)}
        lost = [link for link in sorted(links) if (await browser.get(link)).status_code != 200]

    assert (wrong.status_code, "Typed." in wrong.text, forged.status_code) == (422, True, 403)
    assert "Is it &lt;b&gt;so&lt;/b&gt;?" in said.text
    assert "It <em>is</em>" in said.text
    assert "<script>alert" not in said.text
    assert (empty.status_code, "text:" in empty.text) == (422, True)
    assert (">closed</span>" in closed.text, ">terminated</span>" in terminated.text) == (True, True)
    assert "<textarea" not in closed.text + terminated.text
    assert unknown.status_code == 404
    assert [heading for page in seen for heading in bare_headings(page)] == []
    assert all(words in steps.text for words in ("Help the tenant.", "awaiting a message", "m1", "success"))
    assert (place in links, lost) == (True, [])
    assert {*re.findall(r'action="/sessions/[^"]*/(\w+)"', steps.text)} == {"raise_limits"}
    for text in re.findall(r"<(?:select|main).*?</(?:select|main)>", "".join(seen), re.DOTALL):
        said_once = re.findall(r"<(?:option|h1|p)\b[^>]*>([^<]+)<", text)
        assert len(said_once) == len({*said_once}), text


parsed: Final = cast("Any", lxml.html).document_fromstring
TYPED: Final = "Much more & <stranger> than a field takes. " * 600


def filled(form: Any) -> dict[str, str]:
    """Fill every field of a form with a new value that is refused."""
    for number, field in enumerate(form.inputs):
        if field.get("type") == "checkbox":
            field.checked = not field.checked
        elif field.tag == "select":
            field.value = field.value_options[-1]
        elif field.get("type") not in ("hidden", "file"):
            field.value = f"\n\n{number} {TYPED}" if field.tag == "textarea" else f"{number} {TYPED}"
    return values_of(form)


def values_of(form: Any) -> dict[str, str]:
    """Read a form as a browser does, which ignores the first line break of a text."""
    values: dict[str, str | None] = dict(form.fields)
    lines = {field.name for field in form.inputs if field.tag == "textarea"}
    kept = {name: value for name, value in values.items() if value is not None}
    return {name: value.removeprefix("\n") if name in lines else value for name, value in kept.items()}


DECIDED: Final = ["decide_plan", "decide_plan"]


async def test_a_refused_form_keeps_what_was_typed(client: Client, tmp_path: Path) -> None:
    """This applies to every form of every page, without scripts; the page's other forms do not change."""
    script = SCRIPT.on("converse", say("Ready."))
    async with open_console(client, tmp_path, script) as console, console.browser(follow_redirects=True) as browser:
        asked = SessionRequest(goal="What is it?", approval="plan")
        waiting = await console.environment.start(asked, until="awaiting_approval")
        talking = (await browser.post("/conversations", data=hidden((await browser.get("/talk")).text))).url.path
        [wait] = (await waiting.status()).waits
        link = Links(console.running.url, DECISION_KEY.encode()).make(waiting.id, wait, "mailto:a@b.example")
        kept: dict[str, list[str]] = {}
        for path in ("/?follows=earlier", "/talk", f"/sessions/{waiting.id}", talking, link):
            there = parsed((await browser.get(path)).text)
            for number, form in enumerate(there.forms):
                typed = filled(form)
                if not any(TYPED in text for text in typed.values()):
                    continue
                refused = await browser.post(form.action, data=typed)
                assert refused.status_code == 422, (path, refused.text)
                again = parsed(refused.text)
                for other, after in enumerate(again.forms):
                    written = [each for each in after.inputs if TYPED in (each.value or "")]
                    shown = values_of(after)
                    assert bool(written) == (other == number)
                    assert not written or shown | {"csrf": "", "key": ""} == typed | {"csrf": "", "key": ""}
                    assert all("open" in fold.attrib for each in written for fold in each.iterancestors("details"))
                kept.setdefault(path, []).append(form.action.rpartition("/")[2])

    assert [*kept.values()] == [["sessions"], ["conversations"], [*DECIDED, "tell", "raise_limits"], ["say"], DECIDED]


async def test_a_form_rejected_unread_keeps_what_was_typed(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Causes are sign-out, an old page, too many requests or too large a body; it can then be sent again."""
    async with (
        open_console(client, tmp_path, SCRIPT, most_body_bytes=2_000_000) as console,
        console.browser(follow_redirects=True) as browser,
    ):
        pages = {path: parsed((await browser.get(path)).text) for path in ("/", "/talk")}
        forms = [form for page in pages.values() for form in page.forms if "goal" in form.fields]
        cookies = dict(browser.cookies)
        for form, status in product(forms, (401, 403, 413, 429)):
            typed = values_of(form) | {"goal": "First <line> &\n\nthird line", "csrf": "", "key": "k"}
            with monkeypatch.context() as patched:
                if status == 401:
                    browser.cookies.clear()
                if status == 429:
                    patched.setattr("chargehand_plugins.console.access.Rates.wait_seconds", Mock(return_value=7))
                files = {"documents": ("scan.pdf", b"x" * 2_500_000)} if status == 413 else None
                refused = await browser.post(form.action, data=typed, files=files)
                elsewhere = await browser.post(form.action, data=typed, headers={"Origin": "https://evil.example"})
            browser.cookies.update(cookies)
            [again] = [each for each in parsed(refused.text).forms if each.action == form.action]
            assert (refused.status_code, len(again.xpath(".//input[@type='file']"))) == (status, bool(files))
            assert (status == 401) == ("/login" in refused.text)
            assert (status == 413) == ("may have 2 MB at most" in refused.text)
            shown = {name: text for name, text in values_of(again).items() if name != "documents"}
            assert shown | {"csrf": ""} == typed
            assert (elsewhere.status_code, "third line" in elsewhere.text) == (403, False)
        asked = hidden((await browser.get("/")).text) | {"goal": "First line.\n\nthird line"}
        old = parsed((await browser.post("/sessions", data=asked | {"csrf": "old"})).text)
        sent = await browser.post("/sessions", data=values_of(old.forms[-1]))

    assert sent.status_code == 200
    assert "third line" in sent.text


async def test_a_plan_of_20_subtasks_can_be_edited_by_form(client: Client, tmp_path: Path) -> None:
    """A long plan has more fields than any other form."""
    async with open_console(client, tmp_path, Script().plan(*topics(20))) as console, console.browser() as browser:
        asked = SessionRequest(goal="What are they?", approval="plan", limits=Limits(max_turns=100, budget_usd=20))
        session = await console.environment.start(asked, until="awaiting_approval")
        forms = parsed((await browser.get(f"/sessions/{session.id}")).text).forms
        [form] = [each for each in forms if each.fields.get("decision") == "edit"]
        form.fields["final_instruction"] = "By name."
        taken = await browser.post(form.action, data=values_of(form))
        plan = await session.plan()
        await session.cancel()

    assert (taken.status_code, plan and len(plan.subtasks), plan and plan.final_instruction) == (303, 20, "By name.")


def hidden(page: str) -> dict[str, str]:
    """Return the hidden form fields `csrf` and `key` of a page, if it has them."""
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    return {name: fields[name] for name in ("csrf", "key") if name in fields}


@pytest.mark.real_server
async def test_a_decision_link_decides_one_wait_once_and_opens_nothing_else(client: Client, tmp_path: Path) -> None:
    """It takes one decision of its kind, from its own origin; page, report and trace name who made it."""
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
            with patch("chargehand_plugins.console.decide._wait", side_effect=[wait, None]):  # as two at once
                lost = await phone.post(f"{page}/decide_plan", data={"decision": "reject"})
            inside = await phone.get(f"{url}/sessions/{session.id}")
        report, trace = await session.result(), await session.trace()

    assert 'value="approve"' in shown.text
    assert WHAT in re.sub(r"<form.*?</form>", "", shown.text, flags=re.DOTALL)
    assert [each.status_code for each in (forged, foreign, other, approved, again)] == [403, 403, 403, 200, 200]
    assert "it is decided" in approved.text
    assert all("Nothing is left to decide here: it was approved (link" in each.text for each in (again, lost))
    assert inside.status_code == 303
    by = "link sent to mailto:a@b.example"
    [decision] = report.decisions
    assert decision == DecisionRecord(wait="plan", kind="plan", decision="approved", by=by, at=decision.at)
    assert f"plan: approved, by {by}" in [step.name for step in trace.steps]


async def test_a_question_is_declined_by_a_form(client: Client, tmp_path: Path) -> None:
    """The decision page offers it beside the answer form; the session continues and its report says so."""
    asks = answer("", status="ambiguous_input").model_copy(update={"message": "Which year?"})
    script = Script().plan(subtask("T1")).work("", asks, answer("Known."))
    async with open_console(client, tmp_path, script) as console:
        session = await console.environment.chargehand.start(SessionRequest(goal="What is it?", questions="allowed"))
        await until_state(session, "awaiting_answer")
        [wait] = (await session.status()).waits
        page = Links(console.running.url, DECISION_KEY.encode()).make(session.id, wait, "mailto:a@b.example")
        async with AsyncClient(headers={"Origin": console.running.url}, timeout=60, trust_env=False) as phone:
            [form] = re.findall(r"<form(?:(?!</form>).)*Decline to answer", (await phone.get(page)).text, re.DOTALL)
            fields = dict(re.findall(r'name="(\w+)" value="(\w+)"', form))
            declined = await phone.post(f"{page}/answer", data=fields)
        report = await session.result()

    assert (declined.status_code, fields) == (200, {"subtask": "T1", "decision": "decline"})
    assert [(each.kind, each.decision) for each in report.decisions] == [("question", "declined")]


@pytest.mark.real_server
async def test_sessions_can_be_searched_filtered_and_paged(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search covers sessions started after an earlier search; a full page links to the older ones."""
    monkeypatch.setattr(pages, "PAGE", 2)
    goals = [f"Which {name} sails?" for name in ("ferry", "yacht", "barge")]
    async with open_console(client, tmp_path, SCRIPT) as console, console.browser() as browser:

        async def titles(query: str) -> list[str]:
            return re.findall(r"<strong>([^<]*)</strong>", (await browser.get(f"/sessions?{query}")).text)

        async def has_ended(goal: str) -> bool:
            return await titles(f"state=finished&tenant=words&q={goal.split()[1]}") == [goal]

        for goal in goals:
            await console.environment.chargehand.start(SessionRequest(goal=goal, tenant="words"))
            await until(partial(has_ended, goal))
        found = [await titles(f"tenant=words&q={words}") for words in ("SAILS+yacht", "ferry+yacht", "sails", "")]
        first = await browser.get("/sessions?tenant=words")
        [older] = re.findall(r'href="/sessions\?([^"]*before[^"]*)"', first.text)
        rest = await titles(unescape(older))
        refused = await browser.get("/sessions?before=yesterday")

    newest = [goals[2], goals[1]]
    assert found == [[goals[1]], [], newest, newest]
    assert rest == [goals[0]]
    assert "before: must be a time" in refused.text


async def test_a_session_whose_goal_is_recorded_late_is_found() -> None:
    """A session started by a plain client has no searchable goal until a worker picks it up."""
    start = datetime(2026, 11, 23, tzinfo=UTC)
    late = SessionSummary(id="s1", state="running", started_at=start, ended_at=None)
    there = [late.model_copy(update={"id": "s2", "goal": "B", "started_at": start + timedelta(hours=1)}), late]

    async def listed(
        _: int, since: datetime | None = None, ids: Sequence[str] | None = None
    ) -> AsyncIterator[SessionSummary]:
        for each in there:
            if (since is None or each.started_at >= since) and (ids is None or each.id in ids):
                yield each

    known = KnownSessions()
    before = await known.find(listed, ["ferry"])
    there[1] = late.model_copy(update={"goal": "Which ferry?"})

    assert (before, await known.find(listed, ["ferry"])) == ([], ["s1"])


def test_a_page_part_is_resent_only_when_something_happens() -> None:
    """Elapsed time alone causes no update."""
    page, status = Page("s1", csrf=""), Status(session="s1", goal="", state="executing")
    view = SessionView(status, since=datetime.now(UTC))
    before = page.parts(view)["live"]
    while (later := page.parts(view)["live"]) == before:
        pass

    assert key_of(before) == key_of(later) != key_of(page.parts(replace(view, since=datetime.now(UTC)))["live"])


async def test_an_ended_session_is_complete_even_if_its_follower_fell_behind(client: Client, tmp_path: Path) -> None:
    """After a server restart no turn is shown as running, and the state is the report's."""
    async with open_console(client, tmp_path, SCRIPT) as console:
        session = await console.environment.chargehand.start(SessionRequest(goal="What is it?"))
        await session.result()
        backend = Backend(lambda: console.environment.chargehand, None)
        seen = Projection(Scope(Decoder(client.data_converter), session.id, Draft.of(session.id), has_contents=True))

        assert await view_session(backend, session.id, seen) == await view_session(backend, session.id)


CONSOLE: Final = Path(__file__).parents[1]
_TAGS: Final = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<[^>]*>", re.DOTALL)


def test_the_text_catalogue_matches_its_uses() -> None:
    """Templates and modules use every entry and no missing one, so a translation has exactly these names."""
    templates = "".join(each.read_text(encoding="utf-8") for each in (CONSOLE / "templates").iterdir())
    modules = "".join(each.read_text(encoding="utf-8") for each in CONSOLE.glob("*.py"))

    used = {*re.findall(r"\bt\.(\w+)\.(\w+)", templates), *re.findall(r'\bwords\("(\w+)", "(\w+)"', modules)}

    assert used == {(page, name) for page, named in catalogue().items() for name in named}


def test_templates_contain_no_hard_coded_text() -> None:
    """Without its tags, a template is punctuation and the product name."""
    for template in (CONSOLE / "templates").iterdir():
        left = _TAGS.sub(" ", template.read_text(encoding="utf-8")).replace("Chargehand", "")

        assert re.findall(r"[A-Za-z]{2,}", left) == [], template.name
