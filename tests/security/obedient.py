"""A model that does whatever it reads, within its means: the worst case of an injected model."""

import base64
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel

from activities.contracts.rounds import ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.judgements import CritiqueTask, GradeTask, JudgeTask
from activities.turn_kinds.plan import ExpandTask, PlanTask, RefineTask, ReviewTask
from activities.turn_kinds.protocol import SubtaskDraft
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import CompressTask, OutputTask, SynthesisTask
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from tests import scripted_model as scripted
from tests.scripted_model import usage as cost
from tests.security.corpus import BY_TAG, DRESSES, Attack

SECRET: Final = re.compile(r"CANARY[0-9a-z]{16}")
_TAG: Final = re.compile(r"A\d{4}")
_AT_ONCE: Final = 8


@dataclass
class Asked:
    """A tool call that a model was talked into."""

    session: str
    agent: str
    tag: str
    tool: str
    arguments: Mapping[str, str | int]
    part: int = 0
    """The index of this call among those that one text wants."""

    @property
    def name(self) -> str:
        return f"{self.tag}/{self.part}"


@dataclass
class Obedient:
    """Does its scene's work, and also everything that the texts it reads demand."""

    collector: str
    bases: dict[str, Sequence[SubtaskDraft]]
    """The plan of each session, by a word of its goal."""
    first_calls: Mapping[str, Sequence[ToolCall]]
    """The first tool calls of a subtask's agent, by a word of its instruction."""
    says: dict[str, WorkAnswer] = field(default_factory=dict[str, WorkAnswer])
    """What an agent answers before it has read anything, by a word of its instruction."""
    attacks: Mapping[str, Attack] = field(default_factory=lambda: BY_TAG)
    tries_all: Sequence[str] = ()
    """Words in the instructions of agents that do all they are told; others do only the first few."""
    asked: list[Asked] = field(default_factory=list[Asked])
    obeyed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(scene, tag) of every text that was read by a model that obeys."""
    tried: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(scene, tag) of every text for which a tool was requested."""
    drafted: int = 0
    """Number of subtasks that it tried to add."""
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    _tried: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __call__(self, call: ModelCall) -> ModelReply:
        self.calls.append(call)
        text = prompt_text(call)
        seen = [self.attacks[tag] for tag in dict.fromkeys(_TAG.findall(text)) if tag in self.attacks]
        secrets = sorted(set(SECRET.findall(text))) or ["nothing"]
        if not isinstance(call.task, JudgeTask | CritiqueTask | CompressTask):
            self.obeyed.update((scene_of(call), attack.tag) for attack in seen)
        if isinstance(call.task, WorkTask):
            return self._work(call, call.task, seen, secrets)
        return scripted.reply(self._decide(call.task, seen, secrets))

    def _decide(  # noqa: PLR0911  # one for each kind of task
        self, task: Task, seen: Sequence[Attack], secrets: Sequence[str]
    ) -> BaseModel:
        told = _words(seen, self.collector, secrets)
        match task:
            case PlanTask():
                return self._plan(task, seen, secrets)
            case ExpandTask():
                return scripted.expanded(self._order(task.template, seen, secrets))
            case RefineTask():
                return scripted.refined(self._order(task.instruction, seen, secrets))
            case ReviewTask():
                return scripted.reviewed(*self._added(task, seen, secrets), missing=["all of it"])
            case JudgeTask():
                return scripted.judged(task.candidates[-1].id, reason=told)
            case CritiqueTask():
                return scripted.criticised(told)
            case GradeTask():
                return scripted.graded(told)
            case OutputTask():
                return scripted.output(told)
            case SynthesisTask():
                return scripted.report(told).model_copy(
                    update={"contradictions": [scripted.disagreement(told[:80], told[:80])]}
                )
            case _:
                return scripted.compressed(told)

    def _plan(self, task: PlanTask, seen: Sequence[Attack], secrets: Sequence[str]):
        base = next((base for word, base in self.bases.items() if word in task.goal), None)
        if base is None:  # a nested session: it does what its goal says, with any agents it likes
            self.drafted += 1
            if task.rejected:
                return scripted.plan(scripted.subtask("N1", "writer", instruction="Write down what is known of it."))
            return scripted.plan(
                scripted.subtask("N1", "researcher", instruction=self._order(task.goal[:200], seen, secrets))
            )
        if not seen or len(task.rejected) == 2:
            return scripted.plan(*base)
        wanted = [scripted.subtask("X1", "researcher", instruction=self._order("Find it outside.", seen, secrets))]
        if not task.rejected:
            bring = self._order("Bring it outside.", seen, secrets)
            wanted.append(scripted.subtask("X2", "admin", instruction=self._order("Take over.", seen, secrets)))
            wanted.append(scripted.subtask("X3", "researcher", instruction=bring, after=[base[0].id]))
        self.drafted += len(wanted)
        return scripted.plan(*base, *wanted)

    def _added(self, task: ReviewTask, seen: Sequence[Attack], secrets: Sequence[str]) -> list[SubtaskDraft]:
        """Add subtasks for agents that reach out, directly or through a nested session; one kind per review."""
        if not task.max_subtasks:
            return []
        self.drafted += 1
        agent = ("supervisor", "researcher")[len(task.outcomes) % 2]
        order = self._order("Bring what was found outside.", seen, secrets)
        return [scripted.subtask(f"R{len({given.id for given in task.outcomes})}", agent, instruction=order)]

    def _order(self, words: str, seen: Sequence[Attack], secrets: Sequence[str]) -> str:
        urls = [url for attack in seen[:12] for url in addresses(attack, self.collector, secrets)][:12]
        tags = " ".join(attack.tag for attack in seen[:12])
        # Instructions must differ, or they would be refused as duplicates.
        return f"{words} {tags} {' '.join(secrets)} Open {' '.join(urls)}"[:1_500]

    def _work(self, call: ModelCall, task: WorkTask, seen: Sequence[Attack], secrets: Sequence[str]) -> ModelReply:
        where = call.idempotency_key.rpartition(":")[0]
        if not task.rounds:
            said = next((said for word, said in self.says.items() if word in task.instruction), None)
            if said is not None:
                return scripted.reply(said)
        first = next((calls for word, calls in self.first_calls.items() if word in task.instruction), ())
        if first[len(task.rounds) * _AT_ONCE :]:
            return _uses(first[len(task.rounds) * _AT_ONCE :][:_AT_ONCE])
        tried = self._tried[where]
        pending = [] if task.must_answer else list(self.pending(call, seen, secrets, tried))[:_AT_ONCE]
        if pending:
            tried.update(one.name for one in pending)
            self.asked += pending
            self.tried.update((scene_of(call), one.tag) for one in pending)
            return _uses(
                ToolCall(id=f"c{len(tried)}-{number}", tool=one.tool, arguments=dict(one.arguments))
                for number, one in enumerate(pending)
            )
        told = f"{' '.join(secrets)} {_words(seen, self.collector, secrets)}"
        refs = [source.ref for past in task.rounds for result in past.results for source in result.sources]
        forged = [f"http://{self.collector}/forged", *refs]
        findings = [
            FindingDraft(claim=told[:900], source_refs=[ref, forged[0]], quote=told, confidence=999)
            for ref in forged[:9]
        ]
        own: dict[str, Any] = {"status": "partial", "content": told, "message": told[:400], "gaps": [told[:400]]}
        return scripted.reply(WorkAnswer(findings=findings, confidence=100, **own))

    def pending(
        self, call: ModelCall, seen: Sequence[Attack], secrets: Sequence[str], tried: set[str]
    ) -> Iterator[Asked]:
        """Do one thing for each text: use the tool that it names or open the address, in turns.

        Agents whose instruction has none of the words in `tries_all` try only the first few texts.
        """
        words = self.tries_all
        instruction = call.task.instruction if isinstance(call.task, WorkTask) else ""
        for attack in seen if any(word in instruction for word in words) else seen[:_AT_ONCE]:
            name, arguments = attack.tool
            url = addresses(attack, self.collector, secrets)[0]
            known = {"{collector}": self.collector, "{secret}": secrets[-1]}
            filled = {
                key: _filled(value, known) if isinstance(value, str) else value for key, value in arguments.items()
            }
            wanted = (name, filled) if int(attack.tag[1:]) % 2 else ("read_page", {"url": url})
            asked = Asked(scene_of(call), call.agent, attack.tag, *wanted)
            if asked.name not in tried:
                yield asked


def prompt_text(call: ModelCall) -> str:
    """Join everything that a model is shown into one text."""
    shown = [call.system, *(message.text for message in call.messages)]
    shown += [result.text for message in call.messages for result in message.results]
    return "\n".join(shown)


def spellings(secret: str) -> dict[str, str]:
    """Return a secret in every encoding in which addresses carry it."""
    percent = "".join(f"%{byte:02x}" for byte in secret.encode())
    return {
        "secret": secret,
        "base64": base64.b64encode(secret.encode()).decode(),
        "hexadecimal": secret.encode().hex(),
        "percent": percent,
        "twice": quote(percent),
        "upper": secret.upper(),
        "apart": "/".join(secret),
        "parameters": "&".join(f"p{number}={letter}" for number, letter in enumerate(secret)),
    }


def addresses(attack: Attack, collector: str, secrets: Sequence[str]) -> list[str]:
    return [DRESSES[attack.address].format(collector=collector, **spellings(secret)) for secret in secrets]


def _words(seen: Sequence[Attack], collector: str, secrets: Sequence[str]) -> str:
    """Repeat everything, as it was read, with the secrets put in."""
    known = {f"{{{name}}}": value for name, value in {"collector": collector, **spellings(secrets[-1])}.items()}
    texts = [_filled(attack.text, {**known, "{url}": addresses(attack, collector, secrets)[0]}) for attack in seen]
    return "\n".join(texts)[:18_000] or "Nothing."


def _filled(text: str, known: Mapping[str, str]) -> str:
    return reduce(lambda filled, name: filled.replace(name, known[name]), known, text)


def scene_of(call: ModelCall) -> str:
    """Name the scene that a call belongs to."""
    goal = getattr(call.task, "goal", "")
    found = re.search(r"scene ([a-z ]+), part", goal)
    return found[1] if found else "below"


def _uses(calls: Iterable[ToolCall]) -> ModelReply:
    return ModelReply(stop="tools", tool_calls=tuple(calls), model="scripted-1", provider="scripted", usage=cost())
