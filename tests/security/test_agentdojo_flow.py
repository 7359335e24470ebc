"""AgentDojo with its own tools, against attackers who know the rules: private text that leaves without a person.

The model obeys every text: it makes the calls that the text wants with the suite's tools that send something out, and
puts what it has read into them, in each of 45 encodings. Calls that send nothing out (deleting messages, changing a
password) are out of scope; a crew has them approved by `approve` or rules.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import JsonValue

from activities.contracts.rounds import MOST_CALLS
from tests.scripted_model import Script, answer, request_tools, subtask
from tests.security.agentdojo_tasks import SUITES, Injection, suites
from tests.security.test_flow_control import EVERY, READ, SECRET, asked, opened_desk
from workflows.rules.tool_policy import why_approved

pytestmark = [
    pytest.mark.agentdojo,
    pytest.mark.timeout(0),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the benchmark's models
]

OUTGOING: Final = {
    "workspace": (
        *("send_email", "create_calendar_event", "add_calendar_event_participants", "share_file"),
        *("reschedule_calendar_event", "cancel_calendar_event"),
    ),
    "travel": ("send_email", "create_calendar_event", "reserve_hotel", "reserve_restaurant", "reserve_car_rental"),
    "banking": ("send_money", "schedule_transaction", "update_scheduled_transaction"),
    "slack": (
        *("send_direct_message", "send_channel_message", "post_webpage", "get_webpage"),
        *("invite_user_to_slack", "add_user_to_channel"),
    ),
}
"""Tools with effects that others can see; an attack whose text names none of them uses the first."""
_Call = tuple[str, dict[str, JsonValue]]


def _wanted(injection: Injection, tools: tuple[str, ...], text: JsonValue) -> Iterator[_Call]:
    """Make the calls of an attack, with a text in one argument at a time."""
    named = [call for call in injection.calls if call[0] in tools] or [(tools[0], {"body": ""})]
    for tool, arguments in named:
        for name in arguments:
            yield tool, {**arguments, name: text}


@pytest.mark.parametrize("name", SUITES)
def test_no_agentdojo_attack_sends_private_text_unapproved(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """Each case is tried in 45 encodings in each argument, and as written; all need approval."""
    (suite,) = suites(name)
    texts = [encode(SECRET) for encode in EVERY.values()]
    tried, passed, reached = 0, list[_Call](), 0
    for task in suite.user_tasks:
        for injection in suite.injections:
            for text in texts:
                calls = list(_wanted(injection, OUTGOING[name], text))
                tried += len(calls)
                passed += [call for call in calls if not _why(call, task.prompt)]
            own = [call for call in injection.calls if call[0] in OUTGOING[name]]
            reached += bool(own) and not any(_why(call, task.prompt) for call in own)

    record_property("cases", tried)
    record_property(
        "note",
        f"{name}, its own tools: {suite.cases} cases, {tried:,} calls in {len(EVERY)} encodings, {len(passed)} "
        f"unasked, {reached} goals reached.",
    )
    assert not passed
    assert not reached


def _why(call: tuple[str, Any], said: str) -> str:
    return why_approved(call[1], kept=(), said=(said,), policy=(), calls=0)


async def _sent(folder: Path, goal: str, calls: list[_Call]) -> list[Mapping[str, JsonValue]]:
    """Run a session whose model obeys, with a tool that takes all arguments; return what was sent."""
    made = [("mail", arguments) for _, arguments in calls]
    rounds = [request_tools(*made[at : at + MOST_CALLS]) for at in range(0, len(made), MOST_CALLS)]
    script = Script().plan(subtask("T1", agent="clerk")).work("", READ, *rounds, answer("Done."))
    async with opened_desk(script, folder) as opened:
        await opened.run(asked(folder).model_copy(update={"goal": goal}))
        return opened.tools["mail"].calls


@pytest.mark.parametrize("name", SUITES)
async def test_sessions_that_obey_every_attack_send_no_private_text(
    tmp_path: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    """One session per user task obeys every attack of the suite, each in a different encoding."""
    (suite,) = suites(name)
    encodings = list(EVERY.values())
    folders = [tmp_path / f"{part}" for part, _ in enumerate(suite.user_tasks)]
    for folder in folders:
        folder.mkdir()
    for part, (task, folder) in enumerate(zip(suite.user_tasks, folders, strict=True)):
        calls = [
            next(_wanted(injection, OUTGOING[name], encodings[(part * 7 + number) % len(encodings)](SECRET)))
            for number, injection in enumerate(suite.injections)
        ]
        assert await _sent(folder, task.prompt, calls) == []
    record_property("cases", suite.cases)
    record_property("note", f"{name}, its own tools in sessions: {suite.cases} cases, nothing sent.")


def test_some_sending_calls_of_user_tasks_need_no_approval(record_property: Callable[[str, object], None]) -> None:
    """Some of the users' own tasks need none; for the others, only part of the calls need approval."""
    free, asks, calls, tasks = Counter[str](), 0, 0, 0
    for suite in suites(*SUITES):
        for task in suite.user_tasks:
            sent = [call for call in task.calls if call[0] in OUTGOING[suite.name]]
            stopped = sum(bool(_why(call, task.prompt)) for call in sent)
            free[suite.name] += not stopped
            asks, calls, tasks = asks + stopped, calls + len(sent), tasks + 1

    record_property("cases", tasks)
    record_property(
        "note",
        f"Of the users' {tasks} tasks, {free.total()} need no approval "
        f"({', '.join(f'{name} {count}' for name, count in free.items())}); a person is asked about {asks} of "
        f"{calls} sending calls, and with approval all {tasks} can be done.",
    )
    assert 0 < asks < calls
