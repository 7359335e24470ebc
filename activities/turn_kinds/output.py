"""A turn that puts a report into the shape that its user asked for."""

from typing import ClassVar, Final, Literal

from activities.contracts.crew import Agent
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnTask, TypedAnswer
from activities.turn_kinds.rendering import bullet_list, findings_section, request_section, schema_section
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import Contract, JsonSchema

_INSTRUCTIONS: Final = """You put a finished report into the shape that a program expects.

- data: a JSON value that is valid against the JSON Schema of the task, and says what the report and the findings say.
  Copy figures, names, dates and units as they stand there. Add nothing from memory. Where the schema leaves a choice,
  prefer to leave out, or to set null, what neither report nor findings give.
- missing: each value that the schema requires and that neither report nor findings give, in a sentence of its own.
  Never invent one: name it here, and data may then be null. Usually empty."""


class RejectedOutput(Contract):
    output: str
    """The beginning of what the model wrote."""
    errors: str


class OutputAnswer(TypedAnswer):
    kind: Literal["output"] = "output"
    missing: list[str] = []

    @property
    def requires_data(self) -> bool:
        """Whether nothing is missing that the schema requires."""
        return not self.missing


class OutputTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = OutputAnswer

    kind: Literal["output"] = "output"
    goal: str
    data_schema: JsonSchema
    answer: str
    gaps: tuple[str, ...] = ()
    outcomes: tuple[InputOutcome, ...] = ()
    """Whose findings the report was written from."""
    rejected: tuple[RejectedOutput, ...] = ()

    def data_schema_for(self, agent: Agent | None) -> JsonSchema | None:
        return self.data_schema

    def sections(self, catalog: Catalog | None) -> list[str]:
        report = f"{self.answer}\n\nGaps:\n{bullet_list(self.gaps)}"
        return [
            request_section(self.goal, context_only=True),
            schema_section(self.data_schema),
            f"Report:\n{data_block(report)}",
            *(findings_section(result) for result in self.outcomes),
            *(
                f"Your data was rejected:\n{data_block(attempt.output)}\nfor these reasons:\n"
                f"{data_block(attempt.errors)}\nFix all of them."
                for attempt in self.rejected[-1:]
            ),
        ]
