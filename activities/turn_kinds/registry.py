"""All kinds of turns: a new kind is a file of this folder and its row in each union below."""

from typing import Annotated

from pydantic import Field

from activities.turn_kinds.compress import CompressAnswer, CompressTask
from activities.turn_kinds.critique import CritiqueAnswer, CritiqueTask
from activities.turn_kinds.judge import JudgeAnswer, JudgeTask
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.refine import RefineAnswer, RefineTask
from activities.turn_kinds.review import ReviewAnswer, ReviewTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkAnswer, WorkTask, WorkWithIssuesAnswer

Task = Annotated[
    PlanTask | WorkTask | SynthesisTask | RefineTask | ReviewTask | JudgeTask | CritiqueTask | CompressTask,
    Field(discriminator="kind"),
]
"""What one turn is for, told apart by `kind`."""

Answer = Annotated[
    PlanAnswer
    | WorkAnswer
    | WorkWithIssuesAnswer
    | SynthesisAnswer
    | RefineAnswer
    | ReviewAnswer
    | JudgeAnswer
    | CritiqueAnswer
    | CompressAnswer,
    Field(discriminator="kind"),
]
"""What a model answered, told apart by `kind`."""
