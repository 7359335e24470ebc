"""All kinds of turns: a new kind is a file of this folder and its row in each union below."""

from collections.abc import Mapping
from typing import Annotated, Final, get_args

from pydantic import Field

from activities.turn_kinds.compact_conversation import CompactAnswer, CompactTask
from activities.turn_kinds.compress_outcomes import CompressAnswer, CompressTask
from activities.turn_kinds.converse import ConverseTask, ReplyAnswer
from activities.turn_kinds.critique_report import CritiqueAnswer, CritiqueTask
from activities.turn_kinds.design_agents import DesignAnswer, DesignTask
from activities.turn_kinds.expand_subtask import ExpandAnswer, ExpandTask
from activities.turn_kinds.grade_report import GradeAnswer, GradeTask
from activities.turn_kinds.judge_call import JudgeCallAnswer, JudgeCallTask
from activities.turn_kinds.judge_claims import JudgeClaimsAnswer, JudgeClaimsTask
from activities.turn_kinds.judge_outcomes import JudgeAnswer, JudgeTask
from activities.turn_kinds.outline_report import OutlineAnswer, OutlineTask
from activities.turn_kinds.output import OutputAnswer, OutputTask
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.protocol import TurnTask
from activities.turn_kinds.refine_instruction import RefineAnswer, RefineTask
from activities.turn_kinds.review_outcomes import ReviewAnswer, ReviewTask
from activities.turn_kinds.route_request import RouteAnswer, RouteTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkAnswer, WorkTask, WorkWithIssuesAnswer

Task = Annotated[
    PlanTask
    | DesignTask
    | RouteTask
    | ExpandTask
    | WorkTask
    | ConverseTask
    | CompactTask
    | SynthesisTask
    | RefineTask
    | ReviewTask
    | JudgeTask
    | JudgeClaimsTask
    | JudgeCallTask
    | CritiqueTask
    | GradeTask
    | CompressTask
    | OutlineTask
    | OutputTask,
    Field(discriminator="kind"),
]

Answer = Annotated[
    PlanAnswer
    | DesignAnswer
    | RouteAnswer
    | ExpandAnswer
    | WorkAnswer
    | WorkWithIssuesAnswer
    | ReplyAnswer
    | CompactAnswer
    | SynthesisAnswer
    | RefineAnswer
    | ReviewAnswer
    | JudgeAnswer
    | JudgeClaimsAnswer
    | JudgeCallAnswer
    | CritiqueAnswer
    | GradeAnswer
    | CompressAnswer
    | OutlineAnswer
    | OutputAnswer,
    Field(discriminator="kind"),
]

TASK_TYPES: Final[Mapping[str, type[TurnTask]]] = {
    task_type.model_fields["kind"].default: task_type for task_type in get_args(get_args(Task)[0])
}

SUPERVISOR_TASK_TYPES: Final = tuple(
    task_type for task_type in TASK_TYPES.values() if not issubclass(task_type, WorkTask)
)
"""Tasks that are the supervisor's own."""
