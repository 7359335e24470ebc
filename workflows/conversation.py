"""The conversation of a subtask: its rounds, and what a worker and the provider already have of them."""

from collections.abc import Mapping

from activities.contracts import Round
from activities.model_turn.contracts import Counted, TurnResult
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Artifact, Source
from workflows.budget.estimates import conversation_bound
from workflows.rules.evidence import sources_read


class Conversation:
    """The rounds of a subtask, and which part of them is kept by a worker and counted by the provider."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self.tool_calls = 0
        """Calls that reached a tool."""
        self._kept = ""
        """Digest of the part of the conversation that a worker keeps."""
        self._kept_rounds = 0
        """Rounds in that part."""
        self.counted: Counted | None = None
        """The part of the conversation that the provider has counted."""
        self._counted_rounds = 0
        """Rounds in the prompt of that part."""

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files that tools made, one for each address."""
        created = (artifact for past in self.rounds for result in past.results for artifact in result.artifacts)
        return tuple({artifact.uri: artifact for artifact in created}.values())

    def read(self) -> Mapping[str, Source]:
        """Collect what was read in this conversation, by `ref`."""
        return sources_read(self.rounds, ())

    def add(self, past: Round) -> None:
        """Add a round."""
        self.rounds.append(past)

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
        return WorkTask(goal="", instruction="", rounds=new, must_answer=task.must_answer, earlier=self._kept)

    def keep(self, task: WorkTask, result: TurnResult) -> None:
        """Note what a worker keeps, and what the provider has counted, after a turn."""
        self._kept, self._kept_rounds = result.conversation, len(task.rounds)
        if result.counted is not None:
            self.counted, self._counted_rounds = result.counted, len(task.rounds)
