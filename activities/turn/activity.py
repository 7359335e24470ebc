"""The activity that takes a model turn: one LLM call, paid once."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from pydantic import ValidationError
from pydantic_core import to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.contracts.crew import Agent, Crew
from activities.contracts.rounds import PICTURE_TOKENS
from activities.contracts.setting import Setting
from activities.contracts.tool import knows_documents
from activities.crews.versions import CrewVersions
from activities.current_span import describe_call, note, note_content
from activities.documents.catalog import Catalog
from activities.documents.library import DocumentLibrary
from activities.documents.tool_pictures import is_stored, read_picture
from activities.json_schema import read_data
from activities.metrics import REFUSALS, count_in_activity
from activities.models.abilities import abilities_of, can_see
from activities.models.failures import ProviderError
from activities.models.protocol import LONGEST_TEXT, CachesPrompts, CountsInput, ModelCall, ModelReply, ProviderJob
from activities.models.replies import MOST_DEPTH, is_small
from activities.models.tiers import Models
from activities.tools.pages.leak_check import repeats
from activities.tools.recall import NOTE
from activities.turn.agent_conversations import ConversationStore, hide_pictures, show_pictures
from activities.turn.contracts import Counted, TurnRequest, TurnResult
from activities.turn.discarded_runs import DiscardedTurns, reuse
from activities.turn.journal import Entry, Journal, live_report, open_journal, record_charge, take_over
from activities.turn.retry_policy import (
    Freshness,
    Pause,
    decide_retry,
    fault_before_paying,
    fault_while_paying,
    pause_after,
    refuse_after_lost_attempt,
    refuse_if_stale,
)
from activities.turn.shared_prefixes import BYTES_PER_TOKEN, SharedPrefixes
from activities.turn.throttling import Breakers
from activities.turn.tool_use import ToolActivities, choose_at_once, use_at_once
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.protocol import REQUEST_TOKENS, SCHEMA_BYTES, Message, TurnAnswer, TypedAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.short_refs import WHOLE, ShortRefs
from activities.turn_kinds.work import AgentAnswer, WorkTask
from chargehand.contracts import Capability, JsonSchema, Usage
from chargehand.contracts.problems import describe_problems, join_problems, printable
from chargehand.converter import non_retryable_error
from chargehand.spans import SpanAttribute
from chargehand.strict_json import AmbiguousJson, depth, refuse_ambiguous_json
from chargehand.wire import ActivityType, ErrorType

_logger = logging.getLogger("chargehand.turns")
_KEPT_TEXT_CHARACTERS: Final = 2_000
_KEPT_PROSE_CHARACTERS: Final = 20_000
"""Maximum characters kept of an agent's text, which may be the only result of its subtask."""
_BRIEF_SECONDS: Final = 0.1
"""Time that a paid reply waits for the disk before a heartbeat records it, which costs the server an extra write."""
_COUNT_MARGIN: Final = 50
"""Providers call their counts estimates; a prompt may have this many more tokens, plus 2 %."""
_MOST_SOURCES: Final = 40
"""Maximum sources cited by one answer, since each is passed on to the report and all dependent subtasks."""


@dataclass(frozen=True)
class TurnActivities:
    crews: CrewVersions
    models: Models
    tool_activities: ToolActivities
    """Runs the agents' tools; quick ones run within a turn."""
    library: DocumentLibrary
    conversations: ConversationStore
    pause: Pause = pause_after
    """Delay after a provider's error before the next call."""
    _freshness: Freshness = field(default_factory=Freshness, init=False)
    _discarded: DiscardedTurns = field(default_factory=DiscardedTurns, init=False)
    _breakers: Breakers = field(default_factory=Breakers, init=False)
    _prefixes: SharedPrefixes = field(default_factory=SharedPrefixes, init=False)

    async def _read_picture(self, documents: tuple[str, ...], name: str) -> bytes | None:
        if is_stored(name):
            return await read_picture(name, self.library.sources.artifacts)
        return await (await self.library.open(documents)).picture(name)

    @activity.defn(name=ActivityType.TAKE_TURN)
    async def take_turn(self, request: TurnRequest) -> TurnResult:
        """Make one LLM call and interpret the reply."""
        async with open_journal() as record:
            if record.entry.result is not None:
                note({SpanAttribute.FROM_JOURNAL: True})
                # A tool that ran within the turn may have caused the loss of the worker.
                result = record.entry.result.replace(lost_workers=1)
                return await take_over(self.tool_activities.acting.record, request.session, result)
            earlier = await self._discarded.at_this_step() if request.after_reset else None
            if earlier is not None and earlier.matches(request):
                return reuse(earlier)
            refuse_after_lost_attempt(record.entry)
            record.entry = record.entry.replace(is_waiting=True)
            if ".again-" in activity.info().activity_id:  # another worker may be lost before the next heartbeat
                await record.record(record.entry)
            call = await self._prepare(request, record)
            describe_call(call, self.models.card(request.tier, request.model_name).provider)
            call, reply = await self._complete(call, record, request)
            record.entry = record.entry.replace(is_waiting=False)
            charging = asyncio.create_task(record_charge(self.tool_activities.acting.record, request, reply))
            note_content(reply)
            is_brief = call.data_schema is None and is_small(
                reply.text, reply.provider_items, *(use.arguments for use in reply.tool_calls)
            )
            result = _recordable(reply, call) if is_brief else await asyncio.to_thread(_recordable, reply, call)
            if isinstance(call.task, PlanTask) and request.hides_documents and call.catalog.documents:
                crew = (await self.crews.find(request.crew)).crew
                problem = await asyncio.to_thread(self._outward_words, call.task, call.catalog, crew, result)
                if problem:
                    count_in_activity(REFUSALS, kind="leak_check")
                    result = _malformed_result(result.replace(answer=None), reply, problem)
            result = result.replace(counted=_count_of(call, reply))
            if earlier is not None and earlier.result is not None:
                result = result.replace(discarded=earlier.result.usage)
            chosen = choose_at_once(request, call.task, result)
            record.keep(result)
            if chosen:
                # Recorded first: a tool that crashes the worker must not lose the paid reply, and the record tells such
                # a crash from one of a waiting turn. Without tools, the result itself is the record.
                await record.record(record.entry)
                used = await use_at_once(self.tool_activities, request, result, chosen, record.patience_seconds)
                result = result.replace(used=used)
            storing = asyncio.create_task(self.conversations.keep(call.task, result.round()))
            _, unwritten = await asyncio.wait([storing, charging], timeout=_BRIEF_SECONDS)
            if unwritten and not chosen:
                await record.record(record.entry)
            lost = {"discarded": await charging or result.discarded}
            return result.replace(conversation=await storing, **lost)

    async def _prepare(self, request: TurnRequest, record: Journal) -> ModelCall:
        try:
            call = await self._call(request, await self.conversations.whole(request.task), record)
            await self._refuse_above_reserve(call, request)
        except ApplicationError:
            raise
        except Exception as error:
            raise fault_before_paying(error) from error
        return call

    async def _call(self, request: TurnRequest, task: Task, record: Journal) -> ModelCall:
        pinned = await self.crews.find(request.crew)
        crew = pinned.crew
        catalog = (await self.library.open(request.documents)).catalog if request.documents else Catalog()
        agent = crew.agent(request.agent)
        setting = Setting.of(
            pinned.specs,
            has_web="search" in self.tool_activities.tools and "reaches_out" in self._able(("search",)),
            has_documents=bool(catalog.documents),
            profile=request.profile,
        )
        offered = setting.usable_tools(agent) if agent else ()
        noting = (NOTE,) if offered and setting.keeps_notes else ()
        info = activity.info()
        model = request.model_name or pinned.models[request.tier].name
        messages = task.messages(self._known_catalog(catalog, agent, request), request.today)
        messages = await show_pictures(messages, partial(self._read_picture, request.documents), model)
        return ModelCall(
            model=model,
            task=task,
            agent=request.agent,
            crew_agents=tuple(
                (each.name, setting.fit(each.description), setting.usable_tools(each))
                for each in setting.usable_agents(crew)
            ),
            catalog=catalog,
            system=task.system_text(crew, request.agent, setting),
            messages=tuple(messages),
            tools=(*(setting.fit_tool(pinned.specs[tool]) for tool in offered), *noting),
            answer_type=task.answer_type_for(agent),
            subtask_fields=crew.subtask_fields,
            data_schema=task.data_schema_for(agent),
            max_output_tokens=request.max_output_tokens,
            effort=request.effort,
            temperature=agent.temperature if agent else _own_temperature(crew, task, model),
            timeout_seconds=record.patience_seconds,
            idempotency_key=f"{info.workflow_id}:{info.workflow_run_id}:{request.step}",
            urgency=request.urgency,
            live=live_report(task, record, request.live_text),
        )

    async def _refuse_above_reserve(self, call: ModelCall, request: TurnRequest) -> None:
        """Refuse a call whose prompt could exceed its reserve, before it is paid."""
        longest = most_input_tokens(call, request.counted)
        if longest > request.max_input_tokens:
            longest = min(longest, await self._count(call, longest))
        if longest > request.max_input_tokens:
            raise non_retryable_error(
                ErrorType.RESERVE_TOO_SMALL,
                f"The prompt may have {longest} tokens; {request.max_input_tokens} were reserved.",
                longest,
            )

    async def _count(self, call: ModelCall, otherwise: int) -> int:
        if not isinstance(self.models.adapter, CountsInput) or self.models.fallback is not None:
            return otherwise
        try:
            counted = await self.models.adapter.count_input(call)
        except ProviderError:
            return otherwise
        return counted + counted // _COUNT_MARGIN + _COUNT_MARGIN

    def _outward_words(self, task: PlanTask, catalog: Catalog, crew: Crew, result: TurnResult) -> str:
        """Return the problem of a subtask that would send out words of the documents; empty if there is none."""
        answer, words = result.answer_as(PlanAnswer), list(catalog.own_words())
        for subtask in answer.subtasks if answer else ():
            agent = crew.agent(subtask.agent)
            written = f"{subtask.instruction} {subtask.input or ''}"
            if agent and "reaches_out" in self._able(agent.tools) and repeats(written, words, (task.goal,)):
                return (
                    f"subtask {printable(subtask.id, 20)}: its agent reaches out, and its instruction repeats names, "
                    "headings or contents of the documents that the request does not mention; leave them out, or have "
                    "a person approve the plan"
                )
        return ""

    def _known_catalog(self, catalog: Catalog, agent: Agent | None, request: TurnRequest) -> Catalog | None:
        """Return the documents shown to a model: only if its agent can read them and cannot send anything out."""
        if request.hides_documents:
            return catalog.outline(request.documents)
        if agent is not None and not knows_documents(self._able(agent.tools)):
            return None
        return catalog

    def _able(self, tools: Sequence[str]) -> frozenset[Capability]:
        return frozenset[Capability]().union(*(self.tool_activities.tools[tool].capabilities for tool in tools))

    async def _complete(self, call: ModelCall, record: Journal, request: TurnRequest) -> tuple[ModelCall, ModelReply]:
        job, adapter = record.job(), self.models.adapter
        if isinstance(adapter, CachesPrompts) and not _is_queued(call, job):
            calling = self._prefixes.take_turn(call, adapter.least_cached_tokens)
        else:
            calling = nullcontext(call)
        async with calling as own:
            await refuse_if_stale(self._freshness, record)
            try:
                return await self._call_available(own, job, request)
            except ApplicationError:
                raise
            except ProviderError as failure:
                failure.note_model(call.model)
                raise await decide_retry(failure, record, request.provider_failures, self.pause) from None
            except Exception as error:
                raise fault_while_paying(error) from error

    async def _call_available(
        self, call: ModelCall, job: ProviderJob, request: TurnRequest
    ) -> tuple[ModelCall, ModelReply]:
        """Call the model, or its fallback while the model's breaker is open."""
        own = call.model_copy(update={"job": job})
        if _is_queued(call, job):
            return call, await self.models.adapter.complete(own)
        card = self.models.card(request.tier, request.model_name).replace(name=call.model)
        breaker, fallback = self._breakers.of(card, self.pause), self.models.fallback
        tokens = prompt_bytes(call) // BYTES_PER_TOKEN
        place = (
            breaker.take_place(tokens) if fallback is not None else await breaker.admit(tokens, call.timeout_seconds)
        )
        if place is not None:
            noting = partial(breaker.note_quotas, place=place, tokens=tokens)
            own = own.model_copy(update={"on_headers": noting})
            try:
                with breaker.call(place):
                    return call, await self.models.adapter.complete(own)
            except ProviderError as failure:
                if failure.is_final or failure.fault.possibly_billed or fallback is None:
                    raise
        if fallback is None:
            raise breaker.refusal()
        other = self._breakers.of(fallback.card(request.tier), self.pause)
        call = _for_another_model(call, other.card.name)
        # The reservation may be based on the first model's count.
        await self._refuse_above_reserve(call, request)
        place = other.take_place()
        if place is None:
            raise min(breaker, other, key=lambda each: each.left).refusal()
        with other.call(place):
            reply = await fallback.adapter.complete(call)
        return call, reply.replace(provider_items=())


def _is_queued(call: ModelCall, job: ProviderJob) -> bool:
    return bool(job.id) or call.urgency == "batch"


def _own_temperature(crew: Crew, task: Task, model: str) -> float | None:
    """Choose the temperature of a supervisor's turn: the crew's, or the default if the model supports one."""
    if crew.temperature is not None:
        return crew.temperature
    return task.temperature if abilities_of(model).takes_temperature else None


def _for_another_model(call: ModelCall, name: str) -> ModelCall:
    """Redirect a call to another model, without content that only the first one can read."""
    messages = [message.replace(provider_items=()) for message in call.messages]
    if not can_see(name):
        texts = [tuple(map(hide_pictures, message.results)) for message in messages]
        messages = [each.replace(results=own) for each, own in zip(messages, texts, strict=True)]
    return call.model_copy(update={"model": name, "messages": tuple(messages)})


def _recordable(reply: ModelReply, call: ModelCall) -> TurnResult:
    """Interpret a reply in a form that can be recorded; it is paid for, however unusable it may be."""
    try:
        if any(depth(call.arguments) > MOST_DEPTH for call in reply.tool_calls):
            raise ValueError("arguments are nested too deeply")  # noqa: TRY301  # handled like any other unusable reply
        result = interpret(reply, call.answer_type, call.data_schema, call.task.refs)
        converter = activity.payload_converter()
        converter.from_payloads(converter.to_payloads([Entry(result=result)]), [Entry])
    except Exception as error:
        _logger.exception("a paid reply could not be interpreted")
        problem = (
            f"it could not be read ({error.type if isinstance(error, ApplicationError) else type(error).__name__})"
        )
        return interpret(
            ModelReply(
                stop="malformed", problem=problem, model=reply.model, provider=reply.provider, usage=reply.usage
            ),
            call.answer_type,
        )
    return result


def _count_of(call: ModelCall, reply: ModelReply) -> Counted | None:
    """Return the provider's count, for the next turn of the same conversation."""
    if not isinstance(call.task, WorkTask) or call.task.must_answer or reply.usage is None:
        return None
    tokens = reply.usage.input_tokens + reply.usage.output_tokens
    return Counted(model=call.model, tokens=tokens, messages=len(call.messages) + 1)


def most_input_tokens(call: ModelCall, counted: Counted | None) -> int:
    """Bound the tokens of a prompt: the provider's count of its beginning, plus the bytes of the rest."""
    whole = prompt_bytes(call)
    if counted is None or counted.model != call.model:
        return whole
    return min(whole, counted.tokens + _message_bytes(call.messages[counted.messages :]) + REQUEST_TOKENS)


def prompt_bytes(call: ModelCall) -> int:
    """Count the bytes of a prompt: an upper bound of its tokens with every tokeniser in use.

    A reply in the provider's own format is counted in addition to ours, so that the bound holds for both.
    """
    fixed = [call.system, *(tool.model_dump_json() for tool in call.tools)]
    return sum(len(text.encode()) for text in fixed) + _message_bytes(call.messages) + SCHEMA_BYTES


def _message_bytes(messages: Sequence[Message]) -> int:
    texts = [message.text for message in messages]
    texts += [result.text for message in messages for result in message.results]
    texts += [part.model_dump_json() for message in messages for part in message.calls]
    items = sum(len(to_json(message.provider_items, inf_nan_mode="null")) for message in messages)
    pictures = sum(len(result.pictures) for message in messages for result in message.results)
    return sum(len(text.encode()) for text in texts) + items + pictures * PICTURE_TOKENS


def interpret(
    reply: ModelReply, answer_type: type[TurnAnswer], data_schema: JsonSchema | None = None, refs: ShortRefs = WHOLE
) -> TurnResult:
    """Parse a reply as an answer of the requested type, with full refs; one that does not fit is `malformed`."""
    common = reply.make(
        TurnResult,
        tool_calls=tuple(map(refs.expand_call, reply.tool_calls)),
        text="" if reply.stop in {"answer", "tools"} else reply.text[:_KEPT_TEXT_CHARACTERS],
        usage=(reply.usage or Usage()).replace(turns=1),
        usage_known=reply.usage is not None,
    )
    if reply.stop != "answer":
        return common
    if len(reply.text) > LONGEST_TEXT:
        return _malformed_result(common, reply, f"it has more than {LONGEST_TEXT:,} characters")
    is_of_agent = issubclass(answer_type, AgentAnswer)
    text = _json_in(reply.text) if is_of_agent else _without_fence(reply.text)
    try:
        answer = answer_type.model_validate_json(text)
        refuse_ambiguous_json(text.encode())
    except ValidationError as error:
        result = _malformed_result(common, reply, join_problems(describe_problems(error, answer_type)))
        return result.replace(text=refs.expand(reply.text[:_KEPT_PROSE_CHARACTERS])) if is_of_agent else result
    except AmbiguousJson as error:
        return _malformed_result(common, reply, error.problem)
    answer = _with_bounded_sources(refs.expand_answer(answer))
    if not isinstance(answer, TypedAnswer):
        return common.replace(answer=answer)
    data, problems = read_data(answer.data, data_schema, is_required=answer.requires_data)
    fields = {"text": reply.text[:_KEPT_TEXT_CHARACTERS], "data_problems": problems[:_KEPT_TEXT_CHARACTERS]}
    return common.replace(answer=answer.replace(data=data), **(fields if problems else {}))


def _with_bounded_sources(answer: TurnAnswer) -> TurnAnswer:
    """Drop the references of an agent's answer that exceed the maximum number of sources."""
    if not isinstance(answer, AgentAnswer):
        return answer
    refs = dict.fromkeys(ref for finding in answer.findings for ref in finding.source_refs)
    cited = frozenset(islice(refs, _MOST_SOURCES))
    findings = [
        finding.replace(source_refs=[ref for ref in finding.source_refs if ref in cited]) for finding in answer.findings
    ]
    return answer.replace(findings=findings)


def _malformed_result(common: TurnResult, reply: ModelReply, problem: str) -> TurnResult:
    return common.replace(
        stop="malformed", text=reply.text[:_KEPT_TEXT_CHARACTERS], problem=problem[:_KEPT_TEXT_CHARACTERS]
    )


def _without_fence(text: str) -> str:
    """Strip the Markdown code fence that some models add around JSON."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped.removeprefix("```json").removeprefix("```").removesuffix("```")
    return stripped


def _json_in(text: str) -> str:
    """Drop text that some models write around JSON; decisions are parsed strictly instead."""
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if 0 <= first < last else text.strip()
