"""The conversation workflow: messages in, replies out, tools and jobs in between."""

import asyncio
from contextlib import suppress

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from chargehand.contracts import ConversationEnd, ConversationMessage, Plan, Reply, Status, Transcript
    from chargehand.converter import invalid_input
    from chargehand.messages import ConversationMessages, handles
    from chargehand.state_words import standing
    from chargehand.wire import WorkflowType
    from workflows.contracts import ConversationStartRequest, SupervisorRequest
    from workflows.rules.refusal import Refused
    from workflows.rules.report_content import merge_spend, usage_of
    from workflows.session_workflow import SessionWorkflow, next_task
    from workflows.state.dialogue import Dialogue
    from workflows.state.session import ConversationRunState, Session
    from workflows.steps.converse import Talk, converse, interrupt
    from workflows.steps.open import open_session
    from workflows.steps.report import close_conversation, close_early


@workflow.defn(name=WorkflowType.CONVERSATION)
class ConversationWorkflow(SessionWorkflow):
    """Runs one conversation: a session whose plan grows by one subtask per message."""

    @workflow.init
    def __init__(self, request: ConversationStartRequest) -> None:
        super().__init__()
        self._state = _state_of(request)
        self._dialogue = self._state.dialogue if self._state else Dialogue()
        self._talk: Talk | None = None
        self._is_over = False
        self._ending = ""

    @workflow.run
    async def run(self, request: ConversationStartRequest) -> ConversationEnd:
        try:
            session = self._session = await self._open_session(request)
            self._talk = Talk(request.replace(state=""), session, self._dialogue, self._place)
            self._talk.touch()
            reason = await converse(self._talk)
            self._is_over, self._ending = True, f" ({standing('finished', reason).words})."
            await close_conversation(session, self._place, reason)
            return ConversationEnd(
                reason=reason,
                messages=self._dialogue.messages,
                replies=self._dialogue.replies,
                spend=merge_spend(session.budget.spending.lines),
                usage=usage_of(session.budget.spending.lines),
                gaps=tuple(self._progress.gaps),
            )
        except (asyncio.CancelledError, Exception) as error:
            self._is_over, self._ending = True, f". {error.message}" if isinstance(error, ApplicationError) else "."
            await close_early(error, self._session, self._progress, self._place)
            raise

    @workflow.update(**handles(ConversationMessages.say))
    async def say(self, message: ConversationMessage) -> Reply:
        update = workflow.current_update_info()
        name = update.id if update else ""
        number = self._dialogue.number_of(name)
        if number is None:
            number = self._dialogue.receive(name, message.text, workflow.now())
            await next_task()
            self._dialogue.admit(number)
            if message.mode == "interrupt" and self._talk is not None:
                await interrupt(self._talk, number)
        await workflow.wait_condition(lambda: self._is_over or self._dialogue.reply_to(number) is not None)
        reply = self._dialogue.reply_to(number)
        if reply is None:
            raise Refused(f"The conversation has ended before this was answered{self._ending}")
        return reply

    @say.validator
    def _check_message(self, message: ConversationMessage) -> None:  # noqa: ARG002  # the handler's signature
        self._refuse_if_over()
        update = workflow.current_update_info()
        if update is None or self._dialogue.number_of(update.id) is None:
            self._dialogue.check()

    @workflow.query(**handles(ConversationMessages.transcript))
    def transcript(self) -> Transcript:
        return self._dialogue.transcript(self._talk.jobs if self._talk else ())

    @workflow.update(**handles(ConversationMessages.close))
    async def close(self) -> Status:
        await next_task()
        self._dialogue.close()
        if self._session is not None:
            self._session.clock.stop()
        return self._progress.status()

    @close.validator
    def _check_close(self) -> None:
        self._refuse_if_over()

    async def _open_session(self, request: ConversationStartRequest) -> Session:
        if request.state and self._state is None:
            problem = "state: is set by a conversation that continues as new; leave it out"
            raise invalid_input("ConversationRequest", [problem])
        state = self._state.session.model_dump_json() if self._state else ""
        source = request.as_session()
        written = SupervisorRequest(**{name: getattr(source, name) for name in source.model_fields_set}, state=state)
        session = await open_session(written, self._progress, self._mailbox, self._place, self._dialogue)
        if self._state is None:
            agents = [agent.name for agent in session.facts.crew.agents]
            floor = request.agent or agents[0]
            if floor not in agents:
                known = ", ".join(agents)
                raise invalid_input("ConversationRequest", [f"agent: there is no agent '{floor}'; there are {known}"])
            self._dialogue.give_floor(floor, "", workflow.now())
            self._progress.adopt(Plan(subtasks=()))
        return session

    def _refuse_if_over(self) -> None:
        if self._is_over:
            raise Refused("The conversation has ended.")


def _state_of(request: ConversationStartRequest) -> ConversationRunState | None:
    """Parse the previous run's state; None if there is none or it is not valid."""
    if not request.state or workflow.info().continued_run_id is None:
        return None
    with suppress(ValidationError):
        return ConversationRunState.model_validate_json(request.state)
    return None
