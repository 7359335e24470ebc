"""Estimates: a model turn's purpose, how much it may write, its maximum cost, and its usual cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import Final, Literal

from pydantic_core import to_json

from activities.contracts.cards import LEAST_TURNS_OF_SESSION, AgentCard, CrewCard, ModelCard, OutputCaps
from activities.contracts.rounds import PICTURE_TOKENS, Round
from activities.contracts.session import SessionFacts
from activities.turn.contracts import Counted
from activities.turn_kinds.protocol import REQUEST_TOKENS
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Effort, JsonSchema, round_up_dollars
from workflows.budget.ledger import Amount
from workflows.rules.inputs import DECISION_TOKENS
from workflows.rules.report_content import sections_for

CATALOG_BYTES: Final = 12_000
"""Upper bound for the document catalog in a prompt that can name the session's documents."""
_MARGIN_BYTES: Final = 2_000
_ITEM_BYTES: Final = 6
"""Maximum extra bytes of a line in a prompt compared with the same item in a JSON list."""
_ROUND_BYTES: Final = 150
"""Maximum extra bytes of a conversation round in a prompt over its JSON; a person's messages count separately."""
_TOLD_BYTES: Final = 20
_END_OF_DATA: Final = "</data>"
"""Escaped in prompts, which adds one byte."""
_REPORT_TASK_BYTES: Final = 20_000
"""Reserved for the writer's input in addition to the outcomes: the goal and the list of sources."""
_USUAL_TASK_BYTES: Final = 4_000
"""Assumed size of a first task, beyond its fixed parts, when computing the smallest workable limits."""
_USUAL_BYTES_PER_TOKEN: Final = 3
"""Typical of prompts: English has more on average, other scripts about this many."""
LIKELY_BYTES_PER_TOKEN: Final = 3
"""Few prompts are denser. A denser one is refused before it is paid for, and reserved again as counted."""
_USUAL_OUTPUT_TOKENS: Final = 1_000
NEXT_ROUND_BYTES: Final = 10_000
"""Typical growth of a conversation per round of tool calls."""
OUTPUT_SHARE: Final = Decimal("0.5")
"""Share of the unspent budget that a supervisor turn may reserve for output beyond the minimum."""
ROOM_TO_WORK: Final = 8_000
"""Minimum output cap of a turn with tools, thinking included, unless the limits are nearly used up."""
_ROOM_TO_ANSWER: Final = 6_000
"""Minimum output tokens reserved for an agent's answer before it takes another turn with tools."""
_STEP: Final = 500
"""Output caps between the minimum and the maximum are multiples of this many tokens."""


@dataclass(frozen=True)
class Purpose:
    """One row of `OutputCaps`."""

    name: Literal["plan", "work", "report", "decision"]
    effort: Effort
    least_output: int
    """With fewer output tokens, a turn of this purpose is not worth its input."""

    def effort_in(self, crew_effort: Effort | None) -> Effort:
        """Choose the effort of a turn from its crew's or agent's; decisions always use their own effort."""
        return self.effort if self is DECISION else crew_effort or self.effort


PLAN: Final = Purpose("plan", "high", 4_000)
WORK: Final = Purpose("work", "medium", 4_000)
REPORT: Final = Purpose("report", "high", 6_000)
OUTPUT: Final = Purpose("report", "medium", 4_000)
DECISION: Final = Purpose("decision", "low", 1_000)
_BY_KIND: Final[Mapping[str, Purpose]] = {
    "plan": PLAN,
    "design": PLAN,
    "expand": PLAN,
    "work": WORK,
    "compact": WORK,
    "converse": WORK,
    "synthesis": REPORT,
    "outline": PLAN,
    "output": OUTPUT,
}
"""Task kinds that are not decisions. Changing the effort mid-conversation would miss the prompt cache."""


def purpose_of(task: Task) -> Purpose:
    """Return the purpose of a task; summarising a part counts as a decision."""
    if isinstance(task, SynthesisTask) and task.is_part:
        return DECISION
    return _BY_KIND.get(task.kind, DECISION)


def lower(effort: Effort) -> Effort:
    return "medium" if effort == "high" else "low"


@dataclass(frozen=True)
class OutputRange:
    """Output tokens of one turn: the minimum it needs, and the maximum its purpose and model allow."""

    least: int
    most: int

    def affordable(self, price: Callable[[int], Decimal], usd: Decimal) -> int:
        """Return the largest cap whose turn costs at most `usd`, but never less than the minimum.

        `price` is the worst case of the turn at a cap, linear in the cap.
        """
        least, most = price(self.least), price(self.most)
        if most <= usd or most == least:
            return self.most
        tokens = self.least + int((self.most - self.least) * max(usd - least, Decimal(0)) / (most - least))
        return max(self.least, (tokens - 1) // _STEP * _STEP)  # one less, since prices are rounded up


def output_range(purpose: Purpose, caps: OutputCaps, model: ModelCard) -> OutputRange:
    most = _within(getattr(caps, purpose.name), model)
    return OutputRange(min(purpose.least_output, most), most)


def double_range(cap: int, model: ModelCard) -> OutputRange:
    """Return the output range of a turn that repeats one truncated at `cap`."""
    return OutputRange(cap, max(cap, _within(2 * cap, model)))


def _within(tokens: int, model: ModelCard) -> int:
    return tokens if model.max_output_tokens is None else min(tokens, model.max_output_tokens)


def input_bound(task: Task, prompt_bytes: int) -> int:
    """Bound the input tokens of a turn by the bytes of its prompt.

    Every tokeniser in use encodes at least one byte per token, so no prompt has more tokens than bytes. The
    worker checks the rendered prompt against this bound before the call, and refuses a longer one.
    `prompt_bytes` covers everything that does not depend on the task, including the catalog.
    """
    return prompt_bytes + _task_bytes(task) + _MARGIN_BYTES


def conversation_bound(counted: Counted, rounds: Sequence[Round]) -> int:
    """Bound the input tokens of a conversation's next turn: the provider's count so far, plus the bytes added since.

    Args:
        counted: the provider's count of an earlier prompt and its reply.
        rounds: the round that began with this reply, and all later ones.
    """
    answered = rounds[0].replace(calls=(), provider_items=())
    new = WorkTask(goal="", instruction="", rounds=(answered, *rounds[1:]))
    return counted.tokens + _task_bytes(new) + REQUEST_TOKENS + _MARGIN_BYTES


def _task_bytes(task: Task) -> int:
    text = task.model_dump_json()
    marks = text.count('","') * _ITEM_BYTES + text.count(_END_OF_DATA)
    if isinstance(task, WorkTask):
        messages = (task.told, *(past.told for past in task.rounds))
        marks += len(task.rounds) * _ROUND_BYTES + sum(map(len, messages)) * _TOLD_BYTES
        pictures = sum(len(result.pictures) for past in task.rounds for result in past.results)
        marks += pictures * PICTURE_TOKENS
    return len(text.encode()) + marks


def fixed_bytes(card: AgentCard | CrewCard, documents: Sequence[str]) -> int:
    """Bound the bytes of a prompt other than its task: its fixed parts, and the document catalog if it has one."""
    may_name = isinstance(card, CrewCard) or (bool(card.tools) and "reaches_out" not in card.capabilities)
    return card.prompt_bytes + (CATALOG_BYTES if documents and may_name else 0)


def usual_tokens(input_bound: int, counted: Counted | None) -> int:
    """Estimate the tokens of a prompt from its bound; the counted part is exact."""
    tokens = counted.tokens if counted else 0
    return tokens + (input_bound - tokens) // _USUAL_BYTES_PER_TOKEN


def likely_input(model: ModelCard, bound: int, counted: Counted | None) -> int:
    """Choose how many input tokens to reserve when the byte bound costs too much.

    If the provider can count prompts, the worker has it count this one, and refuses the prompt if it is longer.
    """
    if not model.counts_input:
        return bound
    tokens = min(counted.tokens if counted else 0, bound)
    return tokens + (bound - tokens) // LIKELY_BYTES_PER_TOKEN


def worst_case(model: ModelCard, input_tokens: int, output_tokens: int) -> Amount:
    """Price a turn at its maximum, whichever price tier it ends in."""
    reachable = [step for step in model.prices if step.above_input_tokens <= input_tokens]
    dearest_input = max(step.input_usd_per_million for step in reachable)
    dearest_output = max(step.output_usd_per_million for step in reachable)
    million = Decimal(1_000_000)
    usd = (input_tokens * dearest_input + output_tokens * dearest_output) / million
    return Amount(1, round_up_dollars(usd * Decimal(str(model.overcharge))))


def likely_cost(model: ModelCard, bound: int, output: int, counted: Counted | None = None) -> Amount:
    """Price a turn at its likely input and its full output cap."""
    return worst_case(model, likely_input(model, bound, counted), output)


@dataclass(frozen=True)
class SetAside:
    """Dollars that a turn leaves in the ledger for the turn that answers."""

    most: Decimal = Decimal(0)
    """Covers an answer at its full cap; stays in the ledger if the current turn still has `room`."""
    least: Decimal = Decimal(0)
    room: int | None = ROOM_TO_WORK
    """Output tokens that the current turn should have; None for its purpose's full cap."""


NOTHING_ASIDE: Final = SetAside(room=None)
"""Used for the turn that answers."""


@dataclass(frozen=True)
class GoingOn:
    """The cost of taking one more turn with tools and then answering."""

    roomy: Amount
    least: Amount
    set_aside: SetAside


@dataclass(frozen=True)
class TurnCosts:
    """Turn costs of an agent, from its model and the average length of its replies."""

    model: ModelCard
    caps: OutputCaps
    counted: Counted | None
    written: int
    """Average tokens of its replies so far."""

    def going_on(self, bound: int) -> GoingOn:
        """Estimate the cost of one more turn with tools and of the answer after it."""
        model, following = self.model, usual_tokens(bound + NEXT_ROUND_BYTES, self.counted)
        most = output_range(WORK, self.caps, model).most
        answer = worst_case(model, following, min(_ROOM_TO_ANSWER, most))
        return GoingOn(
            roomy=likely_cost(model, bound, min(ROOM_TO_WORK, most), self.counted) + answer,
            least=self._least(bound, most),
            set_aside=SetAside(worst_case(model, following, most).usd, answer.usd),
        )

    def turns_paid_by(self, left: Amount, bound: int) -> int:
        """Estimate how many of the remaining turns the dollars pay for, including the one that answers."""
        turns, usd = 1, left.usd
        most = output_range(WORK, self.caps, self.model).most
        while turns < left.turns and usd >= self._least(bound, most).usd:
            usd -= self._usual(bound).usd
            bound += NEXT_ROUND_BYTES
            turns += 1
        return turns

    def _least(self, bound: int, most: int) -> Amount:
        work = likely_cost(self.model, bound, min(max(WORK.least_output, self.written), most), self.counted)
        return work + self._usual(bound + NEXT_ROUND_BYTES)

    def _usual(self, bound: int) -> Amount:
        return worst_case(self.model, usual_tokens(bound, self.counted), max(_USUAL_OUTPUT_TOKENS, self.written))


def early_turn(model: ModelCard, prompt_bytes: int, output: int = max(PLAN.least_output, WORK.least_output)) -> Amount:
    """Estimate the worst case of an agent's early turn, before there is a task to measure."""
    bound = prompt_bytes + _MARGIN_BYTES + _USUAL_TASK_BYTES
    return likely_cost(model, bound, output)


def worst_report(model: ModelCard, prompt_bytes: int, outcome_bytes: int = 0, words: int = 0) -> Amount:
    """Estimate the worst case of the turns that write a report of `words` words from `outcome_bytes` of outcomes."""
    shown = outcome_bytes + _REPORT_TASK_BYTES + _MARGIN_BYTES
    turn = likely_cost(model, prompt_bytes + shown, REPORT.least_output)
    turns = 1 + sections_for(words)
    return Amount(turns, turn.usd * turns)


def worst_output(model: ModelCard, prompt_bytes: int, schema: JsonSchema) -> Amount:
    """Estimate the worst case of the turn that fills the requested output schema."""
    shown = _REPORT_TASK_BYTES + _MARGIN_BYTES + 2 * len(to_json(schema))
    return likely_cost(model, prompt_bytes + shown, OUTPUT.least_output)


def worst_judge(model: ModelCard, prompt_bytes: int) -> Amount:
    """Estimate the worst case of the turn that judges the claims of a report."""
    return likely_cost(model, prompt_bytes + 4 * DECISION_TOKENS, DECISION.least_output)


def most_of_agent(
    agent: AgentCard, model: ModelCard, documents: Sequence[str], caps: OutputCaps, rounds: int
) -> Amount:
    """Estimate an agent's largest initial grant: all its rounds, at the usual cost of a turn.

    The rest stays in the session, where agents can borrow it.
    """
    usual = cost_of_turns(agent, model, documents, rounds if agent.tools else 1)
    roomy = early_turn(model, fixed_bytes(agent, documents), output_range(WORK, caps, model).most)
    return Amount(rounds if agent.tools else 1, max(usual.usd, 2 * roomy.usd))


def cost_of_turns(agent: AgentCard, model: ModelCard, documents: Sequence[str], turns: int) -> Amount:
    """Estimate the cost of an agent's turns: the first at its worst case, the others at the usual cost."""
    prompt_bytes = fixed_bytes(agent, documents)
    amount = early_turn(model, prompt_bytes)
    for number in range(1, turns):
        tokens = usual_tokens(prompt_bytes + _USUAL_TASK_BYTES + number * NEXT_ROUND_BYTES, None)
        amount += worst_case(model, tokens, _USUAL_OUTPUT_TOKENS)
    return amount


def least_workable(facts: SessionFacts, documents: Sequence[str]) -> Amount:
    """Estimate the smallest limits that pay for a plan, the minimum turns of one agent, and the report."""
    own = facts.models[facts.crew.tier]
    plan = early_turn(own, fixed_bytes(facts.crew, documents))
    report = worst_report(own, fixed_bytes(facts.crew, documents))
    agents = facts.crew.agents
    least = min(cost_of_turns(each, facts.model_of(each), documents, each.least_turns).usd for each in agents)
    cents = (plan.usd + report.usd + least).quantize(Decimal("0.01"), rounding=ROUND_UP)
    return Amount(LEAST_TURNS_OF_SESSION, cents)
