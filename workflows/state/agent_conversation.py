"""An agent's conversation with its model: its rounds, where parts of them are stored, and compaction."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from pydantic import PrivateAttr

from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.contracts.tool import knows_documents
from activities.tools.recall import RECALL
from activities.turn.contracts import TurnResult
from activities.turn_kinds.work import CompactAnswer, CompactTask, ConverseTask, WorkTask
from chargehand.contracts import Artifact, Source
from workflows.budget.estimates import conversation_bound, usual_tokens
from workflows.contracts import ConversationState, SubtaskRequest
from workflows.rules.evidence import QUOTE_CHARACTERS, Notes, sources_read

_LONGEST: Final = 600_000
"""Bytes after which a conversation is compacted: with one more round, it still fits into one payload."""
_LONGEST_SHARE: Final = 0.6
"""Share of the model's context window after which a conversation is compacted."""
_LEAST_SHARE: Final = 0.2
"""Minimum share of the window taken by rounds, the only part that compaction shortens."""
_SUMMARY_CHARACTERS: Final = 20_000
_MOST_SOURCES: Final = 300
"""Maximum sources of earlier conversations that can still be cited."""
_DOUBT_CHARACTERS: Final = 300
_UNKNOWN: Final = "Outcome unknown: whether {} was applied has to be checked by a person."
NOT_MADE: Final = "Not made because of a fault of the worker: {}."
_MOST_ADDRESSES: Final = 500
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"')\]]{1,2000}")


class Conversation(ConversationState):
    """The rounds of a subtask, and which of them a worker keeps and the provider has counted."""

    _request: SubtaskRequest = PrivateAttr()
    _noted: Notes = PrivateAttr()
    _kept_round: Round | None = None
    """The round of the latest reply, if the worker that keeps the conversation has it too."""

    def __init__(self, request: SubtaskRequest, before: ConversationState) -> None:
        super().__init__(**dict(before))
        self._request, self._noted = request, Notes(before.notes)

    def state(self) -> ConversationState:
        self.is_private = self.has_private_text
        return self

    @property
    def recent(self) -> tuple[Round, ...]:
        """The rounds since the person's last message in a conversation with one; otherwise all."""
        begins = max((at for at, past in enumerate(self.rounds, start=1) if past.said), default=0)
        return self.rounds[begins:]

    @property
    def said(self) -> tuple[str, ...]:
        messages = (*self.opening_told, *(text for past in self.rounds for text in past.told))
        return tuple(text for text in (self.opening, *(past.said for past in self.rounds), *messages) if text)

    @property
    def has_private_text(self) -> bool:
        """Whether the agent has read private text, was given it, or knows of the documents."""
        agent, request = self._request.agent, self._request
        read = (result.is_private or result.tool in agent.private for past in self.rounds for result in past.results)
        is_told = bool(request.documents) and knows_documents(agent.capabilities)
        return self.is_private or request.has_private_inputs or is_told or any(read)

    @property
    def all_artifacts(self) -> tuple[Artifact, ...]:
        """Files created by tools, one per URI."""
        created = (artifact for past in self.recent for result in past.results for artifact in result.artifacts)
        return tuple({artifact.uri: artifact for artifact in (*self.artifacts, *created)}.values())

    @property
    def all_addresses(self) -> tuple[str, ...]:
        """Addresses returned by tools, those of the latest conversation first."""
        # Recalled text was found by other agents, possibly in private text.
        results = [result for past in self.rounds for result in past.results if result.tool != RECALL]
        sources = [source for result in results for source in result.sources]
        linked = (address for source in sources for address in _ADDRESS.findall(source.quote))
        named = (source.url for source in sources if source.url)
        return tuple(islice(dict.fromkeys((*named, *linked, *self.addresses)), _MOST_ADDRESSES))

    @property
    def read(self) -> Mapping[str, Source]:
        """Sources read in this subtask, by `ref`; of earlier conversations only the beginning of each."""
        return sources_read(self.rounds, self.sources)

    @property
    def citable(self) -> Mapping[str, Source]:
        """Sources that a claim may cite, by `ref`: read by the agent, or part of its inputs or notes."""
        entry = (source for each in self._request.inputs for source in each.outcome.sources)
        noted = (note.source for note in self.notes if note.source is not None)
        return sources_read(self.rounds, (*entry, *self.sources, *noted))

    def task(self) -> WorkTask:
        noted = (note.source for note in self._request.notes if note.source)
        return self._request.make(
            ConverseTask if self._request.converses else WorkTask,
            goal=self._request.goal if self._request.agent.sees_goal else "",
            instruction=self.opening or self._request.subtask.instruction,
            input=self._request.subtask.input,
            summary=self.summary,
            notes=self.opening_notes,
            known=tuple(source.ref for source in (*noted, *self.sources)),
            told=self.opening_told,
            rounds=self.rounds,
        )

    def compact_task(self) -> CompactTask:
        return self.task().make(CompactTask, kind="compact", must_answer=True)

    def is_long(self, task: WorkTask, bound: int) -> bool:
        """Return whether to compact the conversation before its next turn, whose input is at most `bound`."""
        rounds = sum(len(past.model_dump_json()) for past in task.rounds)
        window = self._request.model.context_window
        fills_window = usual_tokens(bound, self.counted) > window * _LONGEST_SHARE
        return rounds > _LONGEST or (fills_window and usual_tokens(rounds, None) > window * _LEAST_SHARE)

    def count_tool_call(self) -> None:
        self.tool_calls += 1

    def count_outgoing(self) -> int:
        """Count a call that reaches out after private text was read; return the count before it."""
        self.outgoing += 1
        return self.outgoing - 1

    def note(self, call: ToolCall, read: Mapping[str, Source]) -> ToolResult:
        """Answer a call of the tool `note`."""
        result = self._noted.answer(call, read)
        self.notes = self._noted.kept
        return result

    def doubt(self, call: ToolCall, gap: str = _UNKNOWN) -> None:
        """Record that a call may or may not have been applied, or that it was not made."""
        self.doubts += (_gap(call, gap),)

    def settle(self, call: ToolCall) -> None:
        """Record that a call was applied, or that a person has settled whether it was."""
        gaps = {_gap(call, gap) for gap in (_UNKNOWN, NOT_MADE)}
        self.doubts = tuple(each for each in self.doubts if each not in gaps)

    def add(self, past: Round) -> None:
        if past == self._kept_round:
            self.kept_rounds = len(self.rounds) + 1
        self.rounds += (past,)

    def hear(self, told: Sequence[str]) -> None:
        """Add a person's messages after the latest round."""
        if not self.rounds:
            self.opening_told += tuple(told)
        elif told:
            self._change_latest(told=(*self.rounds[-1].told, *told))

    def tell_turns(self, own: int, spare: int) -> None:
        """Record in the latest round how many turns are left."""
        if self.rounds and self.rounds[-1].results:
            self._change_latest(turns_left=own, spare_turns=spare)

    def bound(self, whole: int, task: WorkTask) -> int:
        """Bound the input of the next turn, using the provider's count of the conversation if that is lower."""
        if self.counted is None:
            return whole
        return min(whole, conversation_bound(self.counted, task.rounds[self.counted_rounds :]))

    def new_in(self, task: WorkTask) -> WorkTask:
        """Omit the part of the conversation that a worker keeps."""
        if not self.kept:
            return task
        old, new = task.rounds[: self.kept_rounds], task.rounds[self.kept_rounds :]
        since = Round().told_since(old[-1]) if old else None
        own = type(task)(goal="", instruction="", rounds=new, must_answer=task.must_answer, since=since)
        return own.replace(earlier=self.kept, earlier_rounds=len(old))

    def keep(self, task: WorkTask, result: TurnResult) -> None:
        """Record after a turn what the worker keeps and what the provider has counted."""
        self.kept, self.kept_rounds = result.conversation, len(task.rounds)
        self._kept_round = result.round()
        if result.counted is not None:
            self.counted, self.counted_rounds = result.counted, len(task.rounds)

    def begin_anew(self, answer: CompactAnswer | None) -> None:
        """Compact: restart from the agent's summary and notes; without these, from a list of its sources."""
        read = self.citable
        for draft in answer.notes if answer else ():
            if self._noted.add(draft.claim, draft.ref, draft.quote, read):
                self._noted.add(draft.claim, draft.ref, "", read)
        sources = tuple(
            source.replace(quote=source.quote[:QUOTE_CHARACTERS])
            for source in list(self.read.values())[-_MOST_SOURCES:]
        )
        anew = ConversationState(
            opening=next((past.said for past in reversed(self.rounds) if past.said), self.opening),
            summary=(answer.summary if answer else _list_of(sources))[:_SUMMARY_CHARACTERS],
            opening_notes=self._noted.kept,
            notes=self._noted.kept,
            opening_told=(*self.opening_told, *(text for past in self.rounds for text in past.told)),
            sources=sources,
            artifacts=self.all_artifacts,
            addresses=self.all_addresses,
            tool_calls=self.tool_calls,
            doubts=self.doubts,
            is_private=self.has_private_text,
            outgoing=self.outgoing,
        )
        self.take_over(anew)

    def _change_latest(self, **changes: object) -> None:
        self.rounds = (*self.rounds[:-1], self.rounds[-1].replace(**changes))


def _gap(call: ToolCall, gap: str) -> str:
    return gap.format(f"{call.tool} {json.dumps(call.arguments, ensure_ascii=False)[:_DOUBT_CHARACTERS]}")


def _list_of(sources: Sequence[Source]) -> str:
    lines: Iterable[str] = (f"- [{source.ref}] {source.title}: {source.quote[:200]}" for source in reversed(sources))
    return "It could not be summed up. What was read last, with its beginning:\n" + "\n".join(islice(lines, 40))
