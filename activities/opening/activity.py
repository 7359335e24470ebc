"""The activity that opens a session: it looks up crew, models and ceilings, and reads documents."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from activities.contracts.cards import AgentCard, CrewCard, OfferedTool, OutputCaps
from activities.contracts.crew import Agent, Crew, obligations_of, watched_of
from activities.contracts.session import AddAgentsRequest, AddedAgents, OpenSessionRequest, SessionFacts, SessionTerms
from activities.contracts.setting import Setting
from activities.contracts.tool import READS_DOCUMENTS, Tool, ToolSpec, tool_capabilities
from activities.crews.files import capabilities_of, custom_agents
from activities.crews.versions import CrewVersions, PinnedCrew
from activities.documents.catalog import Catalog
from activities.documents.library import DocumentLibrary
from activities.json_schema import schema_problems
from activities.models.abilities import can_see
from activities.opening.earlier_sessions import read_earlier_work
from activities.queues import ToolQueues
from activities.tools.recall import NOTE
from activities.turn_kinds.protocol import SCHEMA_BYTES, TurnTask
from activities.turn_kinds.registry import SUPERVISOR_TASK_TYPES
from activities.turn_kinds.work import ConverseTask, WorkTask
from chargehand.contracts import Capability, Limits, SessionRequest
from chargehand.contracts.limits import EFFORTS, PROFILES, Profile
from chargehand.contracts.problems import printable
from chargehand.converter import invalid_input
from chargehand.plugins import SHIPPED, installed
from chargehand.record import Record, SessionBegun
from chargehand.search_attributes import missing_attributes
from chargehand.wire import ActivityType

_DOCUMENT_CHARACTERS: Final = 30_000
"""Maximum total length of document names, which the history repeats for every turn and tool call."""
_LOOK_AGAIN_SECONDS: Final = 60.0
_MOST_UNREAD: Final = 100
_PROBLEM_CHARACTERS: Final = 400
_FIELDS_OF_PLUGINS: Final = {"webhook": "webhooks"}


@dataclass
class SearchAttributesCheck:
    """Checks whether the namespace has the search attributes of sessions; setting an unknown one blocks a workflow.

    The result is cached unless attributes are missing.
    """

    _are_there: bool = False
    _looked_at: float | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_possible(self, client: Client) -> bool:
        """Whether sessions may set search attributes; concurrently opening sessions share the lookup."""
        async with self._looking:
            now = time.monotonic()
            if not self._are_there and (self._looked_at is None or now - self._looked_at > _LOOK_AGAIN_SECONDS):
                try:
                    self._are_there = not await missing_attributes(client)
                    self._looked_at = now
                except RPCError:
                    self._looked_at = None
            return self._are_there


@dataclass(frozen=True)
class SessionActivities:
    crews: CrewVersions
    tools: Mapping[str, Tool]
    ceilings: Limits
    turns_queue: str | None = None
    library: DocumentLibrary | None = None
    output_caps: OutputCaps = field(default_factory=OutputCaps)
    stores_payloads: bool = False
    request_checks: Sequence[Callable[[SessionRequest], Sequence[str]]] = ()
    """Plug-ins' checks, which return the problems of a request."""
    document_checks: Sequence[Callable[[str], bool]] = ()
    """Checks from plug-ins: whether a tool reads a named document, even one without words."""
    listing: SearchAttributesCheck | None = None
    """Looks up the search attributes of sessions; None to not use them."""
    tool_queues: ToolQueues = field(default_factory=ToolQueues)
    recall_for: timedelta = timedelta(hours=1)
    opening_steps: Sequence[Callable[[SessionRequest, SessionFacts], Awaitable[SessionFacts]]] = ()
    """Plug-ins' steps that extend the facts of an accepted session."""

    @activity.defn(name=ActivityType.OPEN_SESSION)
    async def open_session(self, opening: OpenSessionRequest) -> SessionFacts:
        """Look up the crew, check the request against the operator's ceilings, and index the documents."""
        request = opening.request
        pinned = await self.crews.pin(request.crew, request.delegation.crew_version if request.delegation else "")
        if pinned is None:
            known = ", ".join(self.crews.names)
            raise invalid_input("SessionRequest", [f"crew: there is no crew '{request.crew}'; there are {known}"])
        earlier = await read_earlier_work(activity.client(), request) if request.follows else None
        if earlier:
            request = request.replace(documents=(*request.documents, *earlier.documents))
        crew, caps = pinned.crew, self.output_caps
        terms, schema = settle_terms(request, crew), request.output_schema
        problems = [
            *self._ceiling_problems(terms),
            *_tier_problems(request, crew),
            *_document_problems(request.documents),
            *_absent_plugins(request),
            *(problem for check in self.request_checks for problem in check(request)),
            *(await asyncio.to_thread(schema_problems, schema, "output_schema") if schema is not None else ()),
        ]
        if problems:
            raise invalid_input("SessionRequest", problems)
        facts = SessionFacts(
            crew=self._card(pinned, request, terms, ConverseTask if opening.converses else WorkTask),
            models=dict(pinned.models),
            terms=terms,
            ceilings=self.ceilings,
            turns_queue=self.turns_queue,
            tool_queues=self.tool_queues,
            recall_for=self.recall_for,
            unread=await self.unread(request.documents, [card.name for card in pinned.models.values()]),
            output_caps=caps.replace(work=max(caps.work, caps.report)) if terms.profile == "deep" else caps,
            earlier=earlier,
            is_listed=request.delegation is None
            and self.listing is not None
            and await self.listing.is_possible(activity.client()),
            stores_payloads=self.stores_payloads,
        )
        for step in self.opening_steps:
            facts = await step(request, facts)
        return facts

    @activity.defn(name=ActivityType.ADD_AGENTS)
    async def add_agents(self, asked: AddAgentsRequest) -> AddedAgents:
        """Add agents designed by a model to a session's crew, if the crew allows them."""
        pinned = await self.crews.find(asked.crew)
        agents, problems = custom_agents(pinned.crew, asked.agents, tool_capabilities(self.tools))
        if problems:
            return AddedAgents(problems=tuple(problems))
        extended = await self.crews.with_agents(pinned, agents)
        return AddedAgents(crew=self._card(extended, asked.request, settle_terms(asked.request, pinned.crew)))

    async def unread(self, documents: tuple[str, ...], models: Sequence[str] = ()) -> tuple[str, ...]:
        """Return a gap for each unreadable document; refuse the request if no document can be read."""
        if self.library is None or not documents:
            return ()
        catalog = (await self.library.open(documents)).catalog
        if not any(can_see(model) for model in models):
            catalog = _without_pictures(catalog)
        read = self._read_documents(catalog)
        unread = _unread_documents(catalog, read)
        if not read:
            why = unread or ["the folder has no files that can be read"]
            raise invalid_input("SessionRequest", ["documents: none of them can be read", *why])
        parts = tuple(f"{name}: " for name in read)
        labels = {True: "Not all of a document was read for certain", False: "A document was not read"}
        return tuple(f"{labels[each.startswith(parts)]}: {each}" for each in unread)

    def _read_documents(self, catalog: Catalog) -> set[str]:
        """List the documents that have words or rows, or that a tool can read."""
        with_rows = {table.document for table in catalog.tables if table.rows}
        return with_rows | {
            entry.name
            for entry in catalog.documents
            if not entry.problem
            and (entry.opening or entry.headings or any(check(entry.name) for check in self.document_checks))
        }

    def _ceiling_problems(self, terms: SessionTerms) -> list[str]:
        usual, by = PROFILES[terms.profile], "" if terms.profile == "standard" else f" of the profile {terms.profile}"
        return [
            f"limits.{name}: {limit}{by if limit == getattr(usual, name) else ''} is above this installation's ceiling "
            f"of {getattr(self.ceilings, name)}; ask for less"
            for name in terms.limits.above(self.ceilings)
            for limit in [getattr(terms.limits, name)]
        ]

    def _capabilities(self, spec: ToolSpec, request: SessionRequest) -> frozenset[Capability]:
        """Return a tool's capabilities in a session, in which trusted documents do not count as private."""
        is_public = request.vouches_for_documents and not spec.reads_elsewhere
        return self.tools[spec.name].capabilities.difference(READS_DOCUMENTS if is_public else ())

    def _card(
        self, pinned: PinnedCrew, request: SessionRequest, terms: SessionTerms, work: type[WorkTask] = WorkTask
    ) -> CrewCard:
        crew, specs, profile = pinned.crew, pinned.specs, terms.profile
        offered = crew.custom.tools if crew.custom else ()
        own = max(_longest_text(task_type, crew, "", profile) for task_type in SUPERVISOR_TASK_TYPES)
        return crew.make(
            CrewCard,
            reference=pinned.reference,
            digest=pinned.digest,
            tier=request.tiers.supervisor or crew.tier,
            agents=tuple(self._agent_card(pinned, agent, request, terms, work) for agent in crew.agents),
            effort=crew.effort or EFFORTS.get(profile),
            custom_tools=tuple(OfferedTool(name=each, description=specs[each].description) for each in offered),
            most_custom=crew.custom.most if crew.custom else 0,
            prompt_bytes=own + SCHEMA_BYTES,
        )

    def _agent_card(
        self, pinned: PinnedCrew, agent: Agent, request: SessionRequest, terms: SessionTerms, work: type[WorkTask]
    ) -> AgentCard:
        crew, specs, threshold = pinned.crew, pinned.specs, agent.confidence_threshold
        apart = {each for each in agent.tools if (own := specs[each]).own_step or own.acts or own.credentials}
        able = {tool: self._capabilities(specs[tool], request) for tool in agent.tools}
        return agent.make(
            AgentCard,
            tier=request.tiers.agents.get(agent.name, agent.tier),
            effort=agent.effort or crew.effort or EFFORTS.get(terms.profile),
            profile=terms.profile,
            rounds=min(terms.limits.max_rounds, agent.rounds or terms.limits.max_rounds),
            # A tier that the request sets for the agent takes precedence over the agent's model.
            model=None if agent.name in request.tiers.agents else pinned.named.get(agent.model or ""),
            capabilities=tuple(sorted(capabilities_of(agent, able))),
            private=tuple(tool for tool in agent.tools if "reads_private" in able[tool]),
            outward={tool: specs[tool].stays_here for tool in agent.tools if "reaches_out" in able[tool]},
            acting=tuple(tool for tool in agent.tools if specs[tool].acts),
            repeatable=tuple(tool for tool in agent.tools if specs[tool].repeatable),
            # Tools that can send something out are included: the workflow decides when they may run at once.
            at_once=tuple(each for each in agent.tools if each not in apart),
            approvals=tuple(tool for tool in agent.tools if tool in agent.approve or specs[tool].approval),
            policy=obligations_of(crew, agent),
            watched=watched_of(crew, agent),
            confidence_threshold=crew.confidence_threshold if threshold is None else threshold,
            prompt_bytes=_prompt_bytes(pinned, agent, terms.profile, work),
        )


async def record_session(record: Record, request: SessionRequest, facts: SessionFacts) -> SessionFacts:
    """Record a root session before it does anything, in case a restored database forgets it."""
    if request.delegation is None:
        info = activity.info()
        begun = SessionBegun(
            session=info.workflow_id or "", run=info.workflow_run_id or "", at=info.current_attempt_scheduled_time
        )
        await asyncio.to_thread(record.begin_session, begun)
    return facts


def _prompt_bytes(pinned: PinnedCrew, agent: Agent, profile: Profile, work: type[WorkTask]) -> int:
    offered = [*(pinned.specs[tool] for tool in agent.tools), *((NOTE,) if agent.tools else ())]
    specs = sum(len(json.dumps(spec.model_dump())) + spec.reserved_bytes for spec in offered)  # in ASCII
    return _longest_text(work, pinned.crew, agent.name, profile) + specs + SCHEMA_BYTES


def _longest_text(task_type: type[TurnTask], crew: Crew, agent: str, profile: Profile) -> int:
    """Return the maximum size of a system text in bytes, over all settings."""
    settings = (Setting(web, documents, profile) for web in (True, False) for documents in (True, False))
    return max(len(task_type.system_text(crew, agent, setting).encode()) for setting in settings)


def settle_terms(request: SessionRequest, crew: Crew) -> SessionTerms:
    """Settle the terms that a request leaves to its crew; a crew's required approval always applies."""
    profile = request.profile or crew.profile or "standard"
    limits = request.limits
    if request.profile is None:
        overrides = {name: getattr(limits, name) for name in limits.model_fields_set}
        own = {name: getattr(crew.limits, name) for name in crew.limits.model_fields_set}
        limits = PROFILES[profile].replace(**(own | overrides))
    return SessionTerms(
        profile=profile,
        limits=limits,
        approval=crew.approval if request.approval == "none" and request.delegation is None else request.approval,
        review=crew.review if request.review == "auto" else request.review,
    )


def _without_pictures(catalog: Catalog) -> Catalog:
    """Mark the documents that only a vision model can read as unreadable."""
    seen = [
        entry.replace(problem="It is a picture, and no model of this worker sees: use text.")
        if entry.pictures and len(entry.pictures) >= entry.units
        else entry
        for entry in catalog.documents
    ]
    return catalog.replace(documents=tuple(seen))


def _unread_documents(catalog: Catalog, read: Collection[str]) -> list[str]:
    unread = [
        f"{entry.name}: {entry.problem or 'It has no text.'}" for entry in catalog.documents if entry.name not in read
    ]
    unread += catalog.skipped
    named = [printable(each, _PROBLEM_CHARACTERS) for each in unread[:_MOST_UNREAD]]
    more = len(unread) - len(named)
    return [*named, f"{more:,} more documents"] if more else named


def _absent_plugins(request: SessionRequest) -> list[str]:
    return [
        f"{field}: this worker does not have the plug-in '{plugin}'; its operator installs it with {SHIPPED}"
        for field, plugin in _FIELDS_OF_PLUGINS.items()
        if getattr(request, field) is not None and plugin not in installed().names
    ]


def _document_problems(documents: Sequence[str]) -> list[str]:
    characters = sum(len(document) for document in documents)
    if characters <= _DOCUMENT_CHARACTERS:
        return []
    problem = f"their names have {characters:,} characters together; at most {_DOCUMENT_CHARACTERS:,} are allowed"
    return [f"documents: {problem}; upload a folder instead of its files"]


def _tier_problems(request: SessionRequest, crew: Crew) -> list[str]:
    return [
        f"tiers.agents.{name}: crew '{crew.name}' has no such agent"
        for name in request.tiers.agents
        if crew.agent(name) is None
    ]
