"""Sessions as tasks of an A2A agent, used by the protocol's official client over HTTP on loopback."""

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import TaskNotFoundError
from starlette.applications import Starlette
from temporalio.client import Client

from chargehand_cli.a2a_agent.routes import a2a_routes
from tests.acceptance.http_serving import serving
from tests.environment import open_environment
from tests.scripted_model import Held, Script, answer, subtask

ASKED = "Which year?"
MEANT = "The latest one."


async def test_a_message_becomes_a_session_whose_report_is_the_artifact_of_its_task(
    client: Client, tmp_path: Path
) -> None:
    """A message that is sent again starts no second session, an answer lets it go on, and cancelling stops it."""
    question = answer("", status="ambiguous_input").model_copy(update={"message": ASKED})
    script = (
        Script()
        .plan(subtask("T1"))
        .plan(subtask("T1", instruction="Have patience."), goal="patience")
        .work("", question)
        .work(MEANT, answer("It is known."))
        .work("patience", Held(answer("Late.")))
    )
    async with open_environment(client, tmp_path, script) as opened:
        app = Starlette()
        async with serving(app) as url:
            app.router.routes.extend(a2a_routes(lambda: opened.chargehand, url))
            async with httpx.AsyncClient(timeout=60) as http:
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
                patient = await send("It takes patience.", str(uuid4()), waits=False)
                cancelled = await agent.cancel_task(a2a.CancelTaskRequest(id=patient.id))
                with pytest.raises(TaskNotFoundError):
                    await agent.get_task(a2a.GetTaskRequest(id="no-such-task"))
        report = await opened.chargehand.session(asks.id).result()

    assert again.id == asks.id
    assert asks.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert ASKED in asks.status.message.parts[0].text
    assert ended == read
    assert read.status.state == a2a.TASK_STATE_COMPLETED
    assert report.answer in read.artifacts[0].parts[0].text
    assert cancelled.status.state == a2a.TASK_STATE_CANCELED
    assert len(opened.model.of_kind("plan")) == 2
