"""A customer played by a model other than the one being evaluated."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from activities.turn_kinds.judgements import GradeTask
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.rendering import data_block
from benchmarks.evaluation.desks.desk import Task
from benchmarks.evaluation.judge import Judge

_PROMPT: Final = """You play a customer who talks with a clerk. Stay in the part: you want what is said below, you know
only what is said below, and you never make anything up. Say one thing at a time, shortly, as people write in a chat. Do
not say everything at once. Agree to what you want, and refuse what you do not want.

- text: what you say next.
- is_over: whether you have got what you wanted, or were refused it for good, or are handed over to a person, so that
  nothing is left to say; the text is then empty."""


class Said(TurnAnswer):
    kind: Literal["said"] = "said"
    text: str
    is_over: bool


@dataclass
class ModelUser:
    """A customer whose replies come from a model."""

    judge: Judge
    task: Task
    usd: Decimal = Decimal(0)
    lines: list[str] = field(default_factory=list[str])

    @property
    def opening(self) -> str:
        """Open the conversation with the customer's request, as every customer does."""
        self.lines.append("customer: Hello.")
        return "Hello."

    async def reply(self, said: str) -> str | None:
        """Answer the clerk; return None if there is nothing left to say.

        Raises:
            ProviderError: the model call fails.
            ValueError: its reply has another form.
        """
        self.lines.append(f"clerk: {said}")
        part = f"Your part:\n{data_block(self.task.says)}\n{data_block(self.task.knows)}"
        text = f"{part}\n\nWhat was said:\n{data_block(chr(10).join(self.lines))}"
        task = GradeTask(goal=self.task.id, criteria=(), answer=said)
        reply = await self.judge.model.complete(self.judge.call(_PROMPT, text, Said, task))
        self.usd += reply.usage.cost_usd if reply.usage else Decimal(0)
        answer = Said.model_validate_json(reply.text)
        self.lines.append(f"customer: {answer.text}")
        return None if answer.is_over else answer.text
