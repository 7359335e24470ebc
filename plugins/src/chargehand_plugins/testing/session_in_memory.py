"""Runs a session with a worker's parts, a scripted model, and the in-memory server."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import JsonValue
from temporalio.api.common.v1 import Payload

from activities.backends import SettingsError
from activities.contracts.cards import ModelCard, PriceStep
from activities.contracts.tool import LookUp, ToolAnswer, ToolContext, ToolSpec, WrappedTool
from activities.models.tiers import Models
from activities.tools.own import check_own_tools, open_own_tools
from activities.tools.registry import TOOL_NAMES
from chargehand.contracts import (
    CallDecision,
    ConversationEnd,
    ConversationMessage,
    ConversationRequest,
    Limits,
    PendingCall,
    Report,
    SessionRequest,
    Status,
    Tier,
    Transcript,
)
from chargehand.contracts import Reply as ConversationReply
from chargehand.contracts.limits import PROFILES
from chargehand.errors import UnusableSettings
from chargehand.messages import ConversationMessages, Messages
from chargehand.temporal_errors import ending
from chargehand.wire import WorkflowType
from chargehand_plugins.testing.in_memory.activities import run_workflow
from chargehand_plugins.testing.in_memory.jobs import PAYLOADS, error_of
from chargehand_plugins.testing.in_memory.server import Server
from chargehand_plugins.testing.scripted_model import PROVIDER, ScriptedModel
from chargehand_plugins.testing.scripted_session import CONTEXT, Means
from chargehand_plugins.testing.scripts import Script, ScriptedConversation, ScriptedRun, ToolUse
from worker.composition import compose
from worker.parts import Traffic
from worker.settings import Settings

_PRICES: Final = (PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5)),)
_THREADS: Final = 8


@dataclass(frozen=True)
class _WatchedTool(WrappedTool):
    """Records calls that reach a tool, or answers them."""

    calls: list[ToolUse]
    answer: ToolAnswer | None

    @property
    def spec(self) -> ToolSpec:
        # Here a call ends with its function, so its lookup does not have to wait.
        return self.tool.spec.model_copy(update={"settles_within_seconds": 0.0})

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        self.calls.append(ToolUse(self.tool.spec.name, arguments))
        return self.answer or await self.tool.use(arguments, context)

    @property
    def look_up(self) -> LookUp | None:
        return None if self.answer else super().look_up


@dataclass
class _Person:
    session: str
    approve: Callable[[PendingCall], bool] | None
    messages: Sequence[ConversationMessage] = ()
    """Messages to send, each once the previous one is answered."""
    replies: list[ConversationReply] = field(default_factory=list[ConversationReply])
    _decided: set[str] = field(default_factory=set[str])
    _said: int = 0
    _is_closed: bool = False

    def decide(self, server: Server) -> bool:
        """Decide about one call; False if none is waiting."""
        payload = server.query(self.session, Messages.status.name) if self.approve else None
        if self.approve is None or payload is None:
            return False
        [status] = PAYLOADS.from_payloads([payload], [Status])
        for call in status.calls:
            if call.id not in self._decided:
                self._decided.add(call.id)
                decision = "approve" if self.approve(call) else "reject"
                decided = CallDecision(call=call.id, hash=call.hash, decision=decision)
                server.send_update(self.session, call.id, Messages.decide_call.name, PAYLOADS.to_payloads([decided]))
                return True
        return False

    def converse(self, server: Server) -> bool:
        """Decide about a call, or send the next message, and finally close; False while something is pending."""
        if self.decide(server):
            return True
        if self._said > len(self.replies):
            reply = server.update_results.get(f"message-{self._said}")
            if reply is None:
                return False
            self.replies += PAYLOADS.from_payloads([reply], [ConversationReply])
        if self._said < len(self.messages):
            self._said += 1
            name, payloads = ConversationMessages.say.name, PAYLOADS.to_payloads([self.messages[self._said - 1]])
            server.send_update(self.session, f"message-{self._said}", name, payloads)
            return True
        payload = server.query(self.session, ConversationMessages.transcript.name)
        if self._is_closed or payload is None or PAYLOADS.from_payloads([payload], [Transcript])[0].jobs:
            return False
        self._is_closed = True
        server.send_update(self.session, "close", ConversationMessages.close.name, [])
        return True


async def run_session(request: SessionRequest, script: Script, means: Means) -> ScriptedRun:
    """Run a session to its report; see `chargehand_plugins.testing.run_session`."""
    if request.follows is not None:
        raise ValueError("follows: tests keep no earlier session; give the new one its report as a document")
    person = _Person(means.get("session", CONTEXT.session), means.get("approve"))
    result, model, calls = await _run(WorkflowType.SUPERVISOR, request, script, means, person.decide)
    [report] = PAYLOADS.from_payloads(result, [Report])
    return ScriptedRun(report=report, turns=tuple(model.asked), tool_calls=calls, unused=model.unused)


async def run_conversation(
    request: ConversationRequest, messages: Sequence[str], script: Script, means: Means
) -> ScriptedConversation:
    """Run a conversation to its end; see `chargehand_plugins.testing.run_conversation`."""
    person = _Person(
        means.get("session", CONTEXT.session),
        means.get("approve"),
        [ConversationMessage(text=each) for each in messages],
    )
    result, model, calls = await _run(WorkflowType.CONVERSATION, request, script, means, person.converse)
    [end] = PAYLOADS.from_payloads(result, [ConversationEnd])
    return ScriptedConversation(
        replies=tuple(person.replies), end=end, turns=tuple(model.asked), tool_calls=calls, unused=model.unused
    )


async def _run(
    workflow: str,
    request: SessionRequest | ConversationRequest,
    script: Script,
    means: Means,
    before_waiting: Callable[[Server], bool],
) -> tuple[list[Payload], ScriptedModel, tuple[ToolUse, ...]]:
    model, calls, answers = ScriptedModel(script), list[ToolUse](), means.get("answers", {})
    session, state, tools = means.get("session", CONTEXT.session), means.get("state"), means.get("tools", ())
    cards = {tier: ModelCard(provider=PROVIDER, name=f"{PROVIDER}-{tier}", prices=_PRICES) for tier in Tier}
    with nullcontext(state) if state else TemporaryDirectory(prefix="chargehand-") as folder:
        async with AsyncExitStack() as closing:
            try:
                check_own_tools(tools, TOOL_NAMES)
                own = await open_own_tools(tools, _THREADS, closing, means.get("dependencies", {}))

                def wrap(traffic: Traffic) -> Traffic:
                    available = {**traffic.tools, **own}
                    if unknown := sorted(answers.keys() - available.keys()):
                        known = ", ".join(sorted(available))
                        raise ValueError(f"answers: there is no tool '{unknown[0]}'; there are {known}")
                    watched = {name: _WatchedTool(tool, calls, answers.get(name)) for name, tool in available.items()}
                    return replace(traffic, tools=watched)

                settings, models = _settings(Path(folder), means.get("crews")), Models(model, cards)
                activities = await compose(settings, os.environ, closing, wrap, models=models)
            except SettingsError as error:
                raise UnusableSettings(str(error)) from error
            ended = await run_workflow(session, workflow, request, activities, before_waiting)
    if model.problem:
        raise ValueError(model.problem)
    if ended.failure is not None:
        raise ending(session, error_of(ended.failure))
    return [ended.result] if ended.result else [], model, tuple(calls)


def _settings(folder: Path, crews: str | PathLike[str] | None) -> Settings:
    """Build settings without keys and network, independent of the environment, that allow every profile."""
    ceilings: Limits = Settings.model_fields["ceilings"].default
    return Settings.model_construct(
        state_dir=folder / "state",
        crews=None if crews is None else Path(crews),
        ceilings=ceilings.model_copy(update={"max_turns": PROFILES["deep"].max_turns}),
        document_roots=(Path.cwd(),),
    )
