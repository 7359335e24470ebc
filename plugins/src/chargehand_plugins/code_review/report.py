"""The report of a code review crew, consisting of checked findings and written without a model."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from temporalio import workflow

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.synthesis import SynthesisAnswer
from chargehand_plugins.code_review.activity import CodeReviewActivities
from chargehand_plugins.code_review.contracts import CodeReviewRequest, FoundIssue
from workflows import options
from workflows.rules.graph import USABLE
from workflows.state.session import Session
from workflows.steps.writer import Draft, PluginReport

_UNCHECKED: Final = (
    "The findings could not be checked against the change, and are written up as the reviewers gave them."
)


async def write_review(session: Session, outcomes: Sequence[InputOutcome]) -> PluginReport | None:
    """Check the reviewers' findings; None for other crews or on failure."""
    rules = session.facts.crew.code_review
    if rules is None:
        return None
    looked = [entry.outcome for entry in outcomes if entry.agent == rules.checker and entry.outcome.kind in USABLE]
    found_issues = [
        FoundIssue(id=name, agent=entry.agent, issue=issue)
        for entry in outcomes
        if entry.agent != rules.checker
        for name, issue in entry.issues_by_id.items()
    ]
    gaps = (*session.progress.gaps, *(gap for outcome in looked for gap in outcome.gaps))
    is_cut = any(gap.startswith(f"{rules.checker}: issues ") for gap in gaps)
    is_whole = bool(looked) and not is_cut and all(outcome.kind == "success" for outcome in looked)
    checking = workflow.execute_activity_method(
        CodeReviewActivities.write_review,
        CodeReviewRequest(
            documents=session.request.documents,
            found=tuple(found_issues),
            confirmed=tuple(issue for outcome in looked for issue in outcome.issues),
            second_look="whole" if is_whole else "part" if looked else "none",
            threshold=rules.threshold,
            added_lines_only=rules.added_lines_only,
        ),
        activity_id="review",
        summary="check the findings against the change; write Markdown and SARIF",
        **options.tool(timedelta.max),
    )
    review = await options.unless_failed(checking)
    if review is None:
        session.progress.add_gaps([_UNCHECKED])
        return None
    sure = min((entry.outcome.confidence for entry in outcomes if entry.outcome.kind in USABLE), default=0)
    text = SynthesisAnswer(answer=review.answer, gaps=list(review.gaps), contradictions=[], confidence=sure)
    return PluginReport(Draft(text, is_delivered=True, is_computed=True), review.issues, review.artifacts)
