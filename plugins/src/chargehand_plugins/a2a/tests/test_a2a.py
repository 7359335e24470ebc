"""Sessions as tasks of an A2A agent that the console serves, used by the protocol's official client."""

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import TaskNotFoundError
from temporalio.client import Client

from activities.turn_kinds.plan import PlanTask
from chargehand_plugins.console.tests.conftest import TOKEN, open_console
from tests.scripted_model import Held, Script, answer, subtask

ASKED = "Which year?"
MEANT = "The latest one."


async def test_a_message_becomes_a_session_whose_report_is_the_artifact_of_its_task(
    client: Client, tmp_path: Path
) -> None:
    """One sent again starts no second session, another one with its id does; an answer lets it go on, cancelling
    stops it; strangers get the card and nothing else."""
    question = answer("", status="ambiguous_input").model_copy(update={"message": ASKED})
    script = (
        Script()
        .plan(subtask("T1"))
        .plan(subtask("T1", instruction="Have patience."), goal="patience")
        .work("", question)
        .work(MEANT, answer("It is known."))
        .work("patience", Held(answer("Late.")))
    )
    async with open_console(client, tmp_path, script) as console:
        environment, url = console.environment, console.running.url
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            card = (await http.get(f"{url}/.well-known/agent-card.json")).json()
            stranger = await http.post(card["supportedInterfaces"][0]["url"], json={"jsonrpc": "2.0", "id": 1})
            http.headers["Authorization"] = f"Bearer {TOKEN}"
            agent = await ClientFactory(ClientConfig(streaming=False, httpx_client=http)).create_from_url(url)

            async def send(text: str, message_id: str, task: str = "", *, waits: bool = True) -> a2a.Task:
                message = a2a.Message(message_id=message_id, role=a2a.ROLE_USER, parts=[a2a.Part(text=text)])
                message.task_id = task
                configuration = a2a.SendMessageConfiguration(return_immediately=not waits)
                request = a2a.SendMessageRequest(message=message, configuration=configuration)
                [answered] = [each async for each in agent.send_message(request)]
                return answered.task

            message_id = str(uuid4())
            asks = await send("What is known?", message_id)
            again = await send("What is known?", message_id)
            ended = await send(MEANT, str(uuid4()), asks.id)
            read = await agent.get_task(a2a.GetTaskRequest(id=asks.id))
            patient = await send("It takes patience.", message_id, waits=False)
            cancelled = await agent.cancel_task(a2a.CancelTaskRequest(id=patient.id))
            await client.start_workflow("NoSession", id="no-session", task_queue="nobody-polls-this")
            for unknown in ("no-such-task", "no-session"):
                with pytest.raises(TaskNotFoundError):
                    await agent.cancel_task(a2a.CancelTaskRequest(id=unknown))
        report = await environment.chargehand.session(asks.id).result()

    assert stranger.status_code == 401
    assert again.id == asks.id != patient.id
    assert asks.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert ASKED in asks.status.message.parts[0].text
    assert ended == read
    assert read.status.state == a2a.TASK_STATE_COMPLETED
    assert report.answer in read.artifacts[0].parts[0].text
    assert cancelled.status.state == a2a.TASK_STATE_CANCELED
    assert [task.goal for task in environment.model.tasks(PlanTask)].count("What is known?") == 1
