"""The conversation of a subtask: its rounds, what others have of them, and what stays of it when it begins anew."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from activities.contracts.rounds import Round, ToolCall
from activities.tools.recall import RECALL
from activities.turn.contracts import TurnResult
from activities.turn_kinds.compact_conversation import CompactAnswer, CompactTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Artifact, Source
from workflows.budget.estimates import conversation_bound, usual_tokens
from workflows.contracts import ConversationState, SubtaskRequest
from workflows.rules.evidence import QUOTE_CHARACTERS, sources_read
from workflows.rules.notes import Notes

_LONGEST: Final = 600_000
"""Bytes of a conversation after which it begins anew: with one more round it still fits into one payload."""
_LONGEST_SHARE: Final = 0.6
"""Share of the model's context window after which it begins anew."""
_LEAST_SHARE: Final = 0.2
"""Share of the window that its rounds have at least: beginning anew shortens nothing else."""
_SUMMARY_CHARACTERS: Final = 20_000
_MOST_SOURCES: Final = 300
"""Sources of earlier conversations that can still be cited."""
_DOUBT_CHARACTERS: Final = 300
_MOST_ADDRESSES: Final = 500
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"')\]]{1,2000}")


class Conversation:
    """The rounds of a subtask, and which part of them is kept by a worker and counted by the provider."""

    def __init__(self, request: SubtaskRequest) -> None:
        self._request = request
        before = (
            request.state.conversation
            if request.state
            else ConversationState(notes=request.notes, opening_notes=request.notes)
        )
        self.notes = Notes(before.notes)
        self._summary = before.summary
        self._opening_notes = before.opening_notes
        """The notes with which this conversation began."""
        self._opening_told = before.opening_told
        """What a person had written when this conversation began."""
        self.rounds = list(before.rounds)
        self.tool_calls = before.tool_calls
        """Calls that reached a tool."""
        self.doubts = before.doubts
        """A gap for each call that acts and may or may not have been applied."""
        self._sources = before.sources
        """What was read in earlier conversations."""
        self._artifacts = before.artifacts
        self._addresses = before.addresses
        self._kept = before.kept
        """Digest of the part of the conversation that a worker keeps."""
        self._kept_rounds = before.kept_rounds
        """Rounds in that part."""
        self.counted = before.counted
        """The part of the conversation that the provider has counted."""
        self._counted_rounds = before.counted_rounds
        """Rounds in the prompt of that part."""

    def state(self) -> ConversationState:
        """Return what a new run continues with."""
        return ConversationState(
            summary=self._summary,
            opening_notes=self._opening_notes,
            notes=self.notes.kept,
            opening_told=self._opening_told,
            rounds=tuple(self.rounds),
            sources=self._sources,
            artifacts=self._artifacts,
            addresses=self._addresses,
            tool_calls=self.tool_calls,
            doubts=self.doubts,
            kept=self._kept,
            kept_rounds=self._kept_rounds,
            counted=self.counted,
            counted_rounds=self._counted_rounds,
        )

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files that tools made, one for each address."""
        created = (artifact for past in self.rounds for result in past.results for artifact in result.artifacts)
        return tuple({artifact.uri: artifact for artifact in (*self._artifacts, *created)}.values())

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that tools have returned, of the latest conversation first."""
        # What is recalled was found by others, who may have read it in private.
        results = [result for past in self.rounds for result in past.results if result.tool != RECALL]
        sources = [source for result in results for source in result.sources]
        linked = (found for source in sources for found in _ADDRESS.findall(source.quote))
        named = (source.url for source in sources if source.url)
        return tuple(islice(dict.fromkeys((*named, *linked, *self._addresses)), _MOST_ADDRESSES))

    @property
    def read(self) -> Mapping[str, Source]:
        """What was read in this subtask, by `ref`; of earlier conversations, the beginning of each source."""
        return sources_read(self.rounds, self._sources)

    @property
    def citable(self) -> Mapping[str, Source]:
        """What a claim may rest on, by `ref`: what was read, and what came with the inputs or with notes."""
        entry = (source for each in self._request.inputs for source in each.outcome.sources)
        noted = (note.source for note in self.notes.kept if note.source is not None)
        return sources_read(self.rounds, (*entry, *self._sources, *noted))

    def task(self) -> WorkTask:
        """Build the task of the next turn."""
        return WorkTask(
            goal=self._request.goal if self._request.agent.sees_goal else "",
            instruction=self._request.subtask.instruction,
            input=self._request.subtask.input,
            inputs=self._request.inputs,
            final_instruction=self._request.final_instruction,
            length_words=self._request.length_words,
            summary=self._summary,
            notes=self._opening_notes,
            told=self._opening_told,
            rounds=tuple(self.rounds),
        )

    def compact_task(self) -> CompactTask:
        """Build the task of summing up this conversation."""
        return CompactTask.model_validate(dict(self.task()) | {"kind": "compact", "must_answer": True})

    def is_long(self, task: WorkTask, bound: int) -> bool:
        """Whether the conversation has to begin anew before its next turn, whose input has a bound."""
        rounds = sum(len(past.model_dump_json()) for past in task.rounds)
        window = self._request.model.context_window
        fills_window = usual_tokens(bound, self.counted) > window * _LONGEST_SHARE
        return rounds > _LONGEST or (fills_window and usual_tokens(rounds, None) > window * _LEAST_SHARE)

    def count_tool_call(self) -> None:
        """Note that a call reaches a tool."""
        self.tool_calls += 1

    def doubt(self, call: ToolCall) -> None:
        """Note that a call may or may not have been applied."""
        self.doubts += (_doubt(call),)

    def settle(self, call: ToolCall) -> None:
        """Note that a person knows whether a call was applied."""
        self.doubts = tuple(each for each in self.doubts if each != _doubt(call))

    def add(self, past: Round) -> None:
        """Add a round."""
        self.rounds.append(past)

    def hear(self, told: Sequence[str]) -> None:
        """Add what a person has written, after the latest round; no worker keeps that one yet."""
        if not self.rounds:
            self._opening_told += tuple(told)
        elif told:
            last = self.rounds[-1]
            self.rounds[-1] = last.model_copy(update={"told": (*last.told, *told)})

    def bound(self, whole: int, task: WorkTask) -> int:
        """Bound the input of the next turn by what the provider has counted of the conversation, if it is the less."""
        if self.counted is None:
            return whole
        return min(whole, conversation_bound(self.counted, task.rounds[self._counted_rounds :]))

    def new_in(self, task: WorkTask) -> WorkTask:
        """Leave out the part of the conversation that a worker keeps."""
        if not self._kept:
            return task
        new = task.rounds[self._kept_rounds :]
        return type(task)(goal="", instruction="", rounds=new, must_answer=task.must_answer, earlier=self._kept)

    def keep(self, task: WorkTask, result: TurnResult) -> None:
        """Note what a worker keeps, and what the provider has counted, after a turn."""
        self._kept, self._kept_rounds = result.conversation, len(task.rounds)
        if result.counted is not None:
            self.counted, self._counted_rounds = result.counted, len(task.rounds)

    def begin_anew(self, answer: CompactAnswer | None) -> None:
        """Begin a new conversation with what the agent keeps of this one; without an answer, with what it has read."""
        read = self.citable
        for draft in answer.notes if answer else ():
            if self.notes.add(draft.claim, draft.ref, draft.quote, read):
                self.notes.add(draft.claim, draft.ref, "", read)
        self._artifacts, self._addresses = self.artifacts, self.addresses
        self._sources = tuple(_beginning(source) for source in list(self.read.values())[-_MOST_SOURCES:])
        self._summary = (answer.summary if answer else _list_of(self._sources))[:_SUMMARY_CHARACTERS]
        self._opening_notes = self.notes.kept
        self._opening_told += tuple(told for past in self.rounds for told in past.told)
        self.rounds = []
        self._kept, self._kept_rounds = "", 0
        self.counted, self._counted_rounds = None, 0


def _doubt(call: ToolCall) -> str:
    asked = json.dumps(call.arguments, ensure_ascii=False)[:_DOUBT_CHARACTERS]
    return f"Outcome unknown: whether {call.tool} {asked} was applied has to be checked by a person."


def _beginning(source: Source) -> Source:
    return source.model_copy(update={"quote": source.quote[:QUOTE_CHARACTERS]})


def _list_of(sources: Sequence[Source]) -> str:
    lines: Iterable[str] = (f"- [{source.ref}] {source.title}: {source.quote[:200]}" for source in reversed(sources))
    return "It could not be summed up. What was read last, with its beginning:\n" + "\n".join(islice(lines, 40))
