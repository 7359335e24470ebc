"""The in-memory server answers as a real one, which most workflow tests rely on."""

from collections.abc import Awaitable
from pathlib import Path

from temporalio.client import Client

from chargehand.contracts import SessionRequest
from chargehand.errors import ChargehandError
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Held, Script, answer, subtask
from tests.waiting import until_state

NESTED = "Look into the second topic as a whole."
GOAL = SessionRequest(goal="What do the documents say about the topics?", approval="plan", review="never")


async def refusal(call: Awaitable[object]) -> str:
    try:
        await call
    except ChargehandError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


async def happenings(opened: SessionEnvironment, held: Held) -> list[object]:
    """Do to sessions what a client can, and list the answers."""
    told: list[object] = []
    session = await opened.chargehand.start(GOAL, session_id="first")
    await until_state(session, "awaiting_approval")
    told.append(await refusal(session.tell(text="Too early.", subtask="T9")))
    told.append(await session.approve())
    await held.reached.wait()
    told.append([record.state for record in (await session.status()).subtasks])
    held.released.set()
    report = await session.result()
    told += [report.answer, report.stop_reason, report.usage, [record.state for record in report.subtasks]]
    told.append(await refusal(opened.chargehand.start(GOAL.model_copy(update={"goal": "Other."}), session_id="first")))
    again = await opened.chargehand.start(GOAL, session_id="first")
    told += [(await again.result()).answer, (await session.status()).state, (await session.request()).goal]
    told.append(await refusal(session.tell(text="Too late.")))
    told.append(await refusal(opened.chargehand.session("unknown").status()))
    cancelled = await opened.chargehand.start(GOAL, session_id="second")
    await until_state(cancelled, "awaiting_approval")
    await cancelled.cancel()
    told.append(await refusal(cancelled.result()))
    terminated = await opened.chargehand.start(GOAL, session_id="third")
    await opened.chargehand.client.get_workflow_handle("third").terminate()
    told.append(await refusal(terminated.result()))
    return told


async def test_the_in_memory_server_answers_like_a_real_server(client: Client, tmp_path: Path) -> None:
    """Starts, updates, queries, cancellations and ends match, and so do the words of refusals."""
    told: list[list[object]] = []
    for server in (client, None):
        held = Held(answer("Known."))
        script = Script().plan(subtask("T1"), subtask("T2", "supervisor", instruction=NESTED))
        script = script.plan(subtask("T1"), goal=NESTED).work("", held)
        async with open_environment(server, tmp_path, script) as opened:
            told.append(await happenings(opened, held))

    assert told[0] == told[1]
