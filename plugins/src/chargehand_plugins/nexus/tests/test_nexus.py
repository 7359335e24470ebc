"""Sessions over Nexus: another namespace's workflow starts, steers and reads them by every message of the table."""

from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from uuid import uuid4

import nexusrpc
import pytest
from temporalio import workflow
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import NexusOperationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from chargehand.contracts import Contract, Limits, PlanDecision, RaisedLimits, Report, SessionRequest, Status
from chargehand.converter import data_converter
from chargehand.messages import MESSAGES, Row
from chargehand.wire import NEXUS_SERVICE
from chargehand_plugins.nexus.service import ForSession, Messages, OneSession, SessionService, operation
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Held, Script, answer, subtask
from tests.waiting import eventually

_REQUEST = SessionRequest(goal="What is there to know?", approval="plan", limits=Limits(max_turns=10))


class _Ordered(Contract):
    """Input of the caller's workflow."""

    endpoint: str
    session: str
    held: str = ""
    """Id of a workflow that is not a session."""


class _Seen(Contract):
    """Result of the caller's workflow."""

    awaiting: Status
    raised: Status
    reports: tuple[Report, ...]
    refusals: tuple[str, ...]


@workflow.defn(name="Claim")
class ClaimWorkflow:
    """A workflow of another team."""

    @workflow.run
    async def run(self, ordered: _Ordered) -> _Seen:
        """Go through every operation."""
        client = workflow.create_nexus_client(service=SessionService, endpoint=ordered.endpoint)
        one = OneSession(session=ordered.session)
        asked = ForSession(session=ordered.session, message=_REQUEST)
        running = await client.start_operation(SessionService.run, asked)
        attached = await client.start_operation(SessionService.run, asked)
        while (awaiting := await client.execute_operation(operation(Messages.status), one)).state == "planning":
            await workflow.sleep(0.05)
        untyped = workflow.create_nexus_client(service=NEXUS_SERVICE, endpoint=ordered.endpoint)
        misspelt = {"session": "misspelt", "message": {"gaol": "What is known?"}}
        held = ForSession(session=ordered.held, message=_REQUEST)
        refusals = [
            await _refusal(client.execute_operation(SessionService.result, one)),
            await _refusal(client.execute_operation(SessionService.result, OneSession(session=ordered.held))),
            await _refusal(untyped.execute_operation("run", misspelt)),
            await _refusal(client.execute_operation(SessionService.run, held)),
        ]
        more = ForSession(session=ordered.session, message=RaisedLimits(max_turns=15))
        raised = await client.execute_operation(operation(Messages.raise_limits), more)
        approval = ForSession(session=ordered.session, message=PlanDecision(decision="approve"))
        await client.execute_operation(operation(Messages.decide_plan), approval)
        reports = (await running, await attached, await client.execute_operation(SessionService.result, one))
        return _Seen(awaiting=awaiting, raised=raised, reports=reports, refusals=tuple(refusals))


async def _refusal(operation: Awaitable[object]) -> str:
    """Return why an operation is refused, including the cause of that error."""
    try:
        await operation
    except NexusOperationError as error:
        return f"{error.cause} {error.cause and error.cause.__cause__}"
    return ""


@workflow.defn(name="Impatient")
class ImpatientWorkflow:
    """Starts a session and is cancelled while it waits for the report."""

    @workflow.run
    async def run(self, ordered: _Ordered) -> Report:
        """Run a session to its end."""
        chargehand = workflow.create_nexus_client(service=SessionService, endpoint=ordered.endpoint)
        asked = ForSession(session=ordered.session, message=SessionRequest(goal="What takes long?"))
        return await chargehand.execute_operation(SessionService.run, asked)


@pytest.fixture(scope="module")
async def elsewhere(client: Client) -> AsyncGenerator[Client]:
    """A client of another namespace, with a worker that has workflows of another team."""
    namespace = f"team-{uuid4().hex[:8]}"
    week = RegisterNamespaceRequest(namespace=namespace)
    week.workflow_execution_retention_period.FromSeconds(7 * 86_400)
    await client.workflow_service.register_namespace(week)
    connected = Client(client.service_client, namespace=namespace, data_converter=data_converter())
    workflows, runner = [ClaimWorkflow, ImpatientWorkflow], UnsandboxedWorkflowRunner()
    async with Worker(connected, task_queue="claims", workflows=workflows, workflow_runner=runner):
        yield connected


async def _endpoint(opened: SessionEnvironment) -> str:
    """Create an endpoint that targets the sessions' worker."""
    client = opened.chargehand.client
    name = f"endpoint-{uuid4().hex[:8]}"
    target = EndpointTarget.Worker(namespace=client.namespace, task_queue=opened.chargehand.task_queue)
    spec = EndpointSpec(name=name, target=EndpointTarget(worker=target))
    await client.operator_service.create_nexus_endpoint(CreateNexusEndpointRequest(spec=spec))
    return name


async def test_a_workflow_in_another_namespace_can_run_and_steer_a_session(
    client: Client, elsewhere: Client, tmp_path: Path
) -> None:
    """It sees the status, raises limits, approves the plan and gets the report; refusals give the reason."""
    session = f"claim-{uuid4().hex[:8]}"
    async with open_environment(client, tmp_path, Script().plan(subtask("T1"))) as opened:
        ordered = _Ordered(endpoint=await _endpoint(opened), session=session, held=f"other-{session}")
        await client.start_workflow("NoSession", id=ordered.held, task_queue="not-polled")
        claim = elsewhere.execute_workflow(ClaimWorkflow.run, ordered, id=session, task_queue="claims")
        seen = await claim
        report = await opened.chargehand.session(session).result()

    assert (seen.awaiting.session, seen.awaiting.state) == (session, "awaiting_approval")
    assert (seen.awaiting.max_turns, seen.raised.max_turns) == (10, 15)
    assert seen.reports == (report, report, report)
    assert "has not ended yet; the operation `run` with its id waits for it" in seen.refusals[0]
    assert f"There is no session or conversation '{ordered.held}' here" in seen.refusals[1]
    assert "message.goal: is required; message.gaol: is not a known field; did you mean 'goal'?" in seen.refusals[2]
    assert f"'{ordered.held}' exists and differs in workflow type" in seen.refusals[3]


async def test_cancelling_the_operation_cancels_the_session(client: Client, elsewhere: Client, tmp_path: Path) -> None:
    """No session keeps working for a caller that was cancelled."""
    session = f"long-{uuid4().hex[:8]}"
    held = Held(answer("Late."))
    async with open_environment(client, tmp_path, Script().plan(subtask("T1")).work("", held)) as opened:
        ordered = _Ordered(endpoint=await _endpoint(opened), session=session)
        running = await elsewhere.start_workflow(ImpatientWorkflow.run, ordered, id=session, task_queue="claims")
        await held.reached.wait()
        await running.cancel()
        with pytest.raises(WorkflowFailureError):
            await running.result()
        described = client.get_workflow_handle(session).describe
        await eventually(described, lambda found: found.status is WorkflowExecutionStatus.CANCELED)


@pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
def test_nexus_offers_every_message(row: Row) -> None:
    """The operation takes a session with the row's contract, and returns the row's type."""
    definition = nexusrpc.get_service_definition(SessionService)
    assert definition
    operation = definition.operation_definitions[row.name]
    message = operation.input_type.model_fields.get("message")

    assert issubclass(operation.input_type, OneSession)
    assert (message.annotation if message else None) is row.takes
    assert operation.output_type == row.returns
