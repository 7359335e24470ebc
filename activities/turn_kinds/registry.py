"""All kinds of turns. A new kind is a task and its answer in this folder, and a row in each union below."""

from collections.abc import Mapping
from typing import Annotated, Final, get_args

from pydantic import Field

from activities.turn_kinds import judgements, plan, synthesis, work
from activities.turn_kinds.protocol import TurnTask

Task = Annotated[
    plan.PlanTask
    | plan.DesignTask
    | plan.RouteTask
    | plan.ExpandTask
    | work.WorkTask
    | work.ConverseTask
    | work.CompactTask
    | synthesis.SynthesisTask
    | plan.RefineTask
    | plan.ReviewTask
    | judgements.JudgeTask
    | judgements.JudgeClaimsTask
    | judgements.JudgeCallTask
    | judgements.CritiqueTask
    | judgements.GradeTask
    | synthesis.CompressTask
    | synthesis.OutlineTask
    | synthesis.OutputTask,
    Field(discriminator="kind"),
]

Answer = Annotated[
    plan.PlanAnswer
    | plan.DesignAnswer
    | plan.RouteAnswer
    | plan.ExpandAnswer
    | work.WorkAnswer
    | work.WorkWithIssuesAnswer
    | work.ReplyAnswer
    | work.CompactAnswer
    | synthesis.SynthesisAnswer
    | plan.RefineAnswer
    | plan.ReviewAnswer
    | judgements.JudgeAnswer
    | judgements.JudgeClaimsAnswer
    | judgements.JudgeCallAnswer
    | judgements.CritiqueAnswer
    | judgements.GradeAnswer
    | synthesis.CompressAnswer
    | synthesis.OutlineAnswer
    | synthesis.OutputAnswer,
    Field(discriminator="kind"),
]

TASK_TYPES: Final[Mapping[str, type[TurnTask]]] = {
    task_type.model_fields["kind"].default: task_type for task_type in get_args(get_args(Task)[0])
}

SUPERVISOR_TASK_TYPES: Final = tuple(
    task_type for task_type in TASK_TYPES.values() if not issubclass(task_type, work.WorkTask)
)
"""The supervisor's own tasks."""
