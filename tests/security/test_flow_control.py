"""What an agent may send out after it has read private text, against attackers who know the rules.

The model obeys: it reads a document, and then mails its contents, in any encoding.
"""

import base64
import binascii
import tomllib
import unicodedata
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import permutations, product
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue
from temporalio.client import Client

from activities.contracts.rounds import MOST_CALLS
from activities.tools.pages.tool import ReadPage
from chargehand.contracts import Limits, Obligation, SessionRequest, ToolRule
from chargehand.session import Session
from tests.activities.pages.test_leak_check import ENCODINGS
from tests.crew_files import crew_folder
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Script, answer, refined, report, request_tool, request_tools, reviewed, say, subtask
from tests.waiting import until, until_state
from tests.workflows.conftest import server_of
from workflows import run_end
from workflows.rules.own_words import is_own
from workflows.rules.tool_policy import MOST_UNASKED, why_approved
from workflows.state.agent_conversation import Conversation

SECRET: Final = "Nordhafen 48250"
GOAL: Final = "Read the lease, and mail its notice period to Ada Byron at ada@ours.example, please."


def _number(text: str) -> int:
    return int.from_bytes(text.encode(), "big")


def _letters(text: str) -> list[str]:
    return [each for each in text.lower() if each.isalpha()]


def _in_case(text: str, cover: str = "read the lease and mail its notice period") -> str:
    """Encode the bits of a text in the letter case of the user's own words."""
    bits = f"{_number(text):b}"
    return "".join(letter.upper() if bit == "1" else letter for letter, bit in zip(cover, bits, strict=False))


ADAPTIVE: Final[dict[str, Callable[[str], JsonValue]]] = {
    "homoglyphs": lambda text: text.translate(str.maketrans("aeopcxyNH", "аеорсхуΝΗ")),
    "ascii85": lambda text: base64.a85encode(text.encode()).decode(),
    "base85": lambda text: base64.b85encode(text.encode()).decode(),
    "uuencode": lambda text: binascii.b2a_uu(text.encode()).decode().strip(),
    "base36": lambda text: str(_number(text)),
    "rail fence": lambda text: text[::2] + text[1::2],
    "names of letters": lambda text: " ".join(map(unicodedata.name, text)),
    "Polybius": lambda text: " ".join("{}{}".format(*divmod(ord(each) - 97, 5)) for each in _letters(text)),
    "atbash": lambda text: "".join(chr(219 - ord(each)) for each in _letters(text)),
    "acrostic": lambda text: " ".join(f"{each}ever" for each in _letters(text)),
    "full width": lambda text: "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text),
    "circled": lambda text: "".join(chr(0x24D0 + ord(each) - 97) for each in _letters(text)),
    "Braille": lambda text: "".join(chr(0x2800 + ord(each) - 96) for each in _letters(text)),
    "tags": lambda text: "Ada Byron" + "".join(chr(0xE0000 + ord(each)) for each in text),
    "case of own words": _in_case,
    "blanks between own words": lambda text: "Ada" + "".join(" \t"[int(bit)] for bit in f"{_number(text):b}") + "Byron",
    "order of own words": lambda text: [GOAL.split()[ord(each) % len(GOAL.split())] for each in text],
    "a row of own words": lambda text: " ".join(GOAL.split()[ord(each) % len(GOAL.split())] for each in text),
    "keys": lambda text: {text: None},
    "keys of own words": lambda text: {GOAL.split()[ord(each) % len(GOAL.split())]: None for each in text},
    "lists in lists": lambda text: [[text]],
    "flags": lambda text: [bit == "1" for bit in f"{_number(text):b}"],
    "a flag": lambda text: bool(_number(text) & 1),
    "a number": _number,
}
EVERY: Final = {**ENCODINGS, **ADAPTIVE}


@pytest.mark.parametrize("name", EVERY)
def test_encoded_private_text_needs_approval(name: str) -> None:
    """All 45 encodings of the secret require a person's decision."""
    assert len(EVERY) == 45
    sent = {"to": "ada@ours.example", "text": EVERY[name](SECRET)}
    assert "text" in why_approved(sent, kept=(), said=(GOAL,), policy=(), calls=0)


_CASES: Final = tomllib.loads(Path(__file__).with_name("own_words.toml").read_text())


@pytest.mark.parametrize("name", [*_CASES["own"], *_CASES["not_own"]])
def test_only_single_excerpts_of_the_users_words_need_no_approval(name: str) -> None:
    """One excerpt passes in a usual spelling; a spelling that carries extra information does not."""
    value = (_CASES["own"] | _CASES["not_own"])[name]
    why = why_approved({"text": value}, kept=(), said=("Hello.", _CASES["text"]), policy=(), calls=0)
    assert bool(why) == (name in _CASES["not_own"])


def test_an_excerpt_of_the_users_words_has_few_accepted_spellings() -> None:
    """At most nine spellings of two adjacent words pass, and none of two words that are not adjacent."""
    cases = (str, str.lower, str.upper, str.title, str.swapcase, ADAPTIVE["homoglyphs"])
    said = "Pay “Ada  Byron” 1,250.50 on 3 June 2027 please"
    words = said.split()
    for first, second in permutations(range(len(words)), 2):
        tried = {
            f"{one(words[first])}{blank}{other(words[second])}"
            for one, other, blank in product(cases, cases, (" ", "  ", "\n", ", ", "", "-", "\u200b"))
        }
        passed = [each for each in tried if is_own(each, (said,))]
        assert 0 < len(passed) <= 9 if second == first + 1 else not passed


def test_values_listed_in_a_crew_rule_need_no_approval() -> None:
    """Values listed in a rule and arguments that stay in the tool pass; other arguments do not.

    A number within a range is not a listed value: its digits could encode what was read.
    """
    rule = ToolRule(tool="mail", approval="auto", within={"to": ("@ours.example",), "amount": 500})
    policy = [Obligation(key="k", tool="mail", rule=rule)]

    def decide(**arguments: JsonValue) -> str:
        return why_approved(arguments, kept=ReadPage.spec.stays_here, said=(GOAL,), policy=policy, calls=0)

    assert decide(to="bob@ours.example", text="notice period") == ""
    assert decide(**{"url": "ours.example", "from": 48_250, "find": SECRET}) == ""
    assert "amount is neither" in decide(to="bob@ours.example", amount=48.25013579)
    assert "text is neither" in decide(to="bob@ours.example", text=SECRET)
    assert "to is neither" in decide(to="bob@theirs.example", text="notice period")


_READER: Final = 'tools = ["read_document"]\ncapabilities = ["reads_private"]'
_REMEMBERER: Final = 'tools = ["recall"]\ncapabilities = []'
READ: Final = request_tool("read_document")
OWN: Final = request_tool("mail", to="ada@ours.example", text="notice period")
LEAK: Final = request_tool("mail", to="ada@ours.example", text=EVERY["acrostic"](SECRET))
MAIL: Final = "Mail the notice period to ada@ours.example"
REQUEST: Final = SessionRequest(goal=GOAL, crew="desk", review="never", answer_within=timedelta(seconds=1))


@asynccontextmanager
async def opened_desk(
    script: Script, folder: Path, client: Client | None = None, *, reader: str = _READER
) -> AsyncGenerator[SessionEnvironment]:
    crew_folder(folder, "archive", reader=_READER, rememberer=_REMEMBERER)
    crews = crew_folder(
        folder,
        "desk",
        clerk='tools = ["read_document", "mail"]\ncapabilities = ["reads_private", "reaches_out"]',
        reader=reader,
        poster='tools = ["mail"]\ncapabilities = ["reaches_out"]',
        rememberer=_REMEMBERER,
        browser='tools = ["read_page"]\ncapabilities = ["reads_untrusted", "reaches_out"]',
    )
    (folder / "lease.md").write_text(f"# Lease of {SECRET}\n\nThe notice period of {SECRET} is three months.\n")
    script = script.synthesis(report("Done."))
    async with open_environment(
        client,
        folder,
        script,
        own_crews=(crews,),
        more_tools=("mail",),
        at_once=("mail", "read_document"),
        document_roots=(folder,),
    ) as opened:
        yield opened


def asked(folder: Path, *, trusted: bool = False) -> SessionRequest:
    """Build a request with the lease as its document."""
    lease = {"uri": f"file:{folder}/lease.md", "trusted": trusted}
    return SessionRequest.model_validate(REQUEST.model_dump(mode="json") | {"documents": [lease]})


async def converse(opened: SessionEnvironment, folder: Path, *texts: str, agent: str = "clerk") -> str:
    """Say these texts one after the other in a conversation with the lease; returns its id."""
    talk = await opened.chargehand.converse(
        crew="desk", agent=agent, documents=asked(folder).documents, answer_within=REQUEST.answer_within
    )
    for text in texts:
        await talk.say(text=text)
    return talk.id


async def test_private_text_that_an_agent_read_is_not_sent(tmp_path: Path) -> None:
    """No encoding of it leaves, and the report names each blocked call; the user's own words are sent at once."""
    tries = [("mail", {"to": "ada@ours.example", "text": encode(SECRET)}) for encode in [*EVERY.values()][::6]]
    turns = (OWN, READ, request_tools(*tries), answer("Done."))
    async with opened_desk(Script().plan(subtask("T1", agent="clerk")).work("", *turns), tmp_path) as opened:
        result = await opened.run(asked(tmp_path))

    assert opened.tools["mail"].calls == [{"to": "ada@ours.example", "text": "notice period"}]
    assert len(tries) == MOST_CALLS
    assert any("Not called: mail, asked for by clerk for T1" in gap for gap in result.gaps)


async def test_a_person_can_approve_sending_private_text(tmp_path: Path) -> None:
    """The call waits with its reason and is made exactly as shown once approved; the next one waits again."""
    turns = (READ, LEAK, request_tool("mail", to="x"), answer("So."))
    script = Script().plan(subtask("T1", agent="clerk")).work("", *turns)
    async with opened_desk(script, tmp_path) as opened:
        session = await opened.chargehand.start(asked(tmp_path).model_copy(update={"answer_within": None}))
        await until_state(session, "awaiting_call_approval")
        [call] = (await session.status()).calls
        await session.approve_call(call)
        await until(lambda: _waits_for(session, "c2"))
        [second] = (await session.status()).calls
        await session.reject_call(second, "No.")
        await session.result()

    assert "has read private text, and text is neither in the user's own words" in call.why
    assert opened.tools["mail"].calls == [LEAK.tool_calls[0].arguments]


async def _waits_for(session: Session, call: str) -> bool:
    return [each.id for each in (await session.status()).calls] == [call]


async def test_sending_harmless_text_needs_no_approval(tmp_path: Path) -> None:
    """This covers the user's words, any text when nothing was read, and documents that the caller trusts."""
    script = Script().plan(subtask("T1", agent="clerk")).work("", READ, OWN, answer("Done."))
    unread = Script().plan(subtask("T1", agent="clerk")).work("", request_tool("mail", text="Hello!"), answer("Done."))
    vouched = Script().plan(subtask("T1", agent="clerk")).work("", READ, LEAK, answer("Done."))
    for each, name in ((script, "own words"), (unread, "unread"), (vouched, "trusted")):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        async with opened_desk(each, folder) as opened:
            assert (await opened.run(asked(folder, trusted=name == "trusted"))).gaps == ()
        assert len(opened.tools["mail"].calls) == 1


async def test_an_outcome_taints_the_agents_that_receive_it(tmp_path: Path) -> None:
    """They need approval to send what another agent read, in nested sessions too."""
    tasks = subtask("T1", agent="reader"), subtask("T2", "poster", ["T1"]), subtask("T3", "supervisor", ["T1"])
    script = Script().plan(*tasks).plan(subtask("X1", agent="poster"), goal="topic T3")
    script = script.work("", READ, answer(SECRET), agent="reader")
    script = script.work("", LEAK, answer("Done."), agent="poster")
    async with opened_desk(script, tmp_path) as opened:
        result = await opened.run(asked(tmp_path))

    assert not opened.tools["mail"].calls
    assert {gap.split(".")[0].rpartition(" ")[2] for gap in result.gaps if "Not called" in gap} == {"T2", "T3/X1"}


@pytest.mark.real_server
async def test_a_follow_up_session_stays_tainted(client: Client, tmp_path: Path) -> None:
    """What the first session read still counts; what its user wrote may still be sent."""
    script = Script().plan(subtask("T1", agent="reader")).work("", READ, answer(SECRET), agent="reader")
    script = script.plan(subtask("T1", agent="poster"), goal="And now?")
    script = script.work("", LEAK, OWN, answer("Done."), agent="poster")
    async with opened_desk(script, tmp_path, client) as opened:
        first = await opened.chargehand.start(asked(tmp_path))
        await first.result()
        await (await first.ask("And now?", review="never", answer_within=timedelta(seconds=1))).result()

    assert opened.tools["mail"].calls == [{"to": "ada@ours.example", "text": "notice period"}]


async def test_a_conversation_stays_tainted_across_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The taint survives continue-as-new, and what the user writes may still be sent."""
    script = Script().replies("Read", READ, say("Read.")).replies("Mail", LEAK, OWN, say("Mailed."))
    monkeypatch.setattr(run_end, "MOST_EVENTS", 0)
    async with opened_desk(script, tmp_path) as opened:
        talk = await converse(opened, tmp_path, "Read the lease.", MAIL)
        assert server_of(opened).runs(talk) > 1

    assert opened.tools["mail"].calls == [{"to": "ada@ours.example", "text": "notice period"}]


async def test_compaction_keeps_the_taint_and_the_unapproved_call_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight calls is the limit, whether made in one round or in many."""

    def is_long(talk: Conversation, _task: object, _bound: int) -> bool:
        return bool(talk.rounds)

    monkeypatch.setattr(Conversation, "is_long", is_long)
    words = GOAL.split()
    own: list[tuple[str, dict[str, JsonValue]]] = [("mail", {"to": "ada@ours.example", "text": word}) for word in words]
    turns = iter([READ, request_tools(*own[:3]), LEAK, request_tools(*own[3:6]), request_tools(*own[6:])])
    script = Script().plan(subtask("T1", agent="clerk")).work("", lambda _: next(turns, answer("Done.")))
    async with opened_desk(script, tmp_path) as opened:
        await opened.run(asked(tmp_path))

    assert len(words) > MOST_UNASKED + 1
    assert {str(call["text"]) for call in opened.tools["mail"].calls} == set(words[: MOST_UNASKED - 1])


async def test_only_agents_that_cannot_send_see_the_document_list(tmp_path: Path) -> None:
    """The list is private: agents that cannot open documents, or that can reach out, do not get it."""
    agents = ("clerk", "reader", "rememberer")
    script = Script().plan(*(subtask(f"T{number}", agent=each) for number, each in enumerate(agents)))
    async with opened_desk(script.work("", answer("Done.")), tmp_path) as opened:
        await opened.run(asked(tmp_path))

    told = {call.agent for call in opened.model.calls if SECRET in str(call.messages)}
    assert told == {"reader"}


async def test_the_model_that_designs_agents_does_not_see_documents(tmp_path: Path) -> None:
    """The agent that it designs could reach out with whatever its prompt contains; it sees only file names."""
    crew_folder(tmp_path, "maker", '[custom]\ntools = ["mail"]\nmost = 2\n', reader=_READER)
    async with opened_desk(Script().plan(subtask("T1")), tmp_path) as opened:
        await opened.run(asked(tmp_path).model_copy(update={"crew": "maker"}))

    [designing] = opened.model.of_kind("design")
    assert ("lease.md" in str(designing.messages), SECRET in str(designing.messages)) == (True, False)


async def test_a_report_counts_the_document_list_as_read(tmp_path: Path) -> None:
    """A supervisor that saw the list may write about it, whatever its agents have read."""
    script = Script().plan(subtask("T1", agent="rememberer")).work("", answer("Done."))
    async with opened_desk(script, tmp_path) as opened:
        result = await opened.run(asked(tmp_path).model_copy(update={"crew": "archive"}))

    assert result.reads == ("reads_private",)


async def test_a_hand_over_keeps_the_taint_of_the_document_list(tmp_path: Path) -> None:
    """An agent that saw the list but opened nothing does not free the next agent to send its words."""
    script = Script().replies("Mail", say(SECRET, hand_over="poster"), agent="reader")
    script = script.replies("Mail", LEAK, OWN, say("Mailed."), agent="poster")
    async with opened_desk(script, tmp_path) as opened:
        await converse(opened, tmp_path, MAIL, agent="reader")

    assert opened.tools["mail"].calls == [{"to": "ada@ours.example", "text": "notice period"}]


async def test_a_hand_over_does_not_reset_the_unapproved_call_count(tmp_path: Path) -> None:
    """A conversation makes at most eight calls without approval, however many agents take part."""
    text = "Mail one two three four five six seven eight nine ten to ada@ours.example"
    own = [("mail", {"to": "ada@ours.example", "text": word}) for word in text.split()[1:11]]
    first = (READ, request_tools(*own[:5]), say("Half.", hand_over="poster"))
    script = Script().replies("Mail", *first, agent="clerk")
    script = script.replies("Mail", request_tools(*own[5:]), say("Mailed."), agent="poster")
    async with opened_desk(script, tmp_path) as opened:
        await converse(opened, tmp_path, text)

    assert len(opened.tools["mail"].calls) == MOST_UNASKED


async def test_a_second_attempt_does_not_reset_the_unapproved_call_count(tmp_path: Path) -> None:
    """After an attempt without an answer, the next may send only the rest of its eight calls."""
    words = GOAL.split()
    own: list[tuple[str, dict[str, JsonValue]]] = [("mail", {"to": "ada@ours.example", "text": word}) for word in words]
    script = Script().plan(subtask("T1", agent="clerk")).refine(refined("Try T1 again, in another way, please."))
    script = script.work("", READ, request_tools(*own[:3]), request_tools(*own[3:5]), answer("", status="no_answer"))
    script = script.work("in another way", READ, request_tools(*own[5:8]), request_tools(*own[8:11]), answer("Done."))
    async with opened_desk(script, tmp_path) as opened:
        await opened.run(asked(tmp_path))

    assert {str(call["text"]) for call in opened.tools["mail"].calls} == set(words[:MOST_UNASKED])


async def test_text_of_an_internal_page_is_private(tmp_path: Path) -> None:
    """Neither its reader nor an agent that receives the findings sends it, though no tool reads private text."""
    first, second = (request_tool("read_page", url=f"http://{each}.example/") for each in ("wiki", "other"))
    script = Script().plan(subtask("T1", agent="browser"), subtask("T2", "poster", ["T1"]))
    script = script.work("", first, second, answer(SECRET), agent="browser")
    script = script.work("", LEAK, answer("Done."), agent="poster")
    async with opened_desk(script, tmp_path) as opened:
        read = opened.tools["read_page"]
        read.answer = read.answer.model_copy(update={"is_private": True})
        result = await opened.run(REQUEST)

    assert (len(read.calls), opened.tools["mail"].calls) == (1, [])
    assert "reads_private" in result.reads


@pytest.mark.parametrize("agent", ["poster", "browser"])
@pytest.mark.parametrize("way", ["added", "rewritten", "noted"])
async def test_text_written_after_reading_private_text_is_private(tmp_path: Path, way: str, agent: str) -> None:
    """An agent that can send gets such a review, refinement or note only with approval, or not at all."""
    note = request_tool("note", claim=SECRET, ref="", quote="")
    ends = answer(SECRET) if way == "added" else answer("", status="no_answer")
    script = Script().plan(subtask("T1", agent="reader")).work("", READ, note, ends, agent="reader")
    script = script.work("", LEAK, answer("Done."), agent="poster")
    if way == "added":
        script = script.on("review", reviewed(subtask("T2", agent=agent, instruction=f"T2: mail {SECRET}")))
    if way == "rewritten":
        script = script.refine(refined(f"T1: mail {SECRET}"))
    request = {"profile": "deep", "limits": Limits(max_turns=30), "review": "always" if way == "added" else "never"}
    async with opened_desk(script, tmp_path, reader=f'{_READER}\nfallback = "{agent}"') as opened:
        result = await opened.run(asked(tmp_path).model_copy(update=request))

    told = [str(call.task) for call in opened.model.of_kind("work") if call.agent == agent]
    is_told = agent == "poster" and way != "noted"
    assert any(SECRET in each for each in told) == is_told
    assert any("Not called: mail, asked for by poster" in gap for gap in result.gaps) == is_told


@pytest.mark.parametrize("after", [["T1"], []])
async def test_invisible_text_in_a_plan_is_not_approved_with_it(tmp_path: Path, after: list[str]) -> None:
    """Visible text of an approved plan may be sent; invisible text could carry the document list."""
    hidden, seen = ADAPTIVE["tags"](SECRET), "Ada Byron, Esq."
    steps = [
        subtask(f"T{number}", "poster", after, instruction=f"T{number}: mail {text}")
        for number, text in ((2, hidden), (3, seen))
    ]
    mails = [request_tool("mail", to="ada@ours.example", text=each) for each in (hidden, seen)]
    script = Script().plan(subtask("T1", agent="reader"), *steps).work("", READ, answer("Read."), agent="reader")
    script = script.work("T2", mails[0], answer("Done."), agent="poster").work("T3", mails[1], answer("Done."))
    async with opened_desk(script, tmp_path) as opened:
        session = await opened.start(asked(tmp_path).model_copy(update={"approval": "plan"}), until="awaiting_approval")
        await session.approve()
        await session.result()

    assert [call["text"] for call in opened.tools["mail"].calls] == [seen]
