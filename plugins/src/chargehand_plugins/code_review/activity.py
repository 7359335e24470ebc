"""The activity that checks reviewers' findings and writes the review as Markdown and SARIF."""

import asyncio
from dataclasses import dataclass

from temporalio import activity

from activities.documents.artifacts import Artifacts
from activities.tools.outputs import ToolOutput, store_outputs
from chargehand.wire import ActivityType
from chargehand_plugins.code_review.change import Change, ChangeReader, NoChangeError, is_of_review
from chargehand_plugins.code_review.contracts import CodeReview, CodeReviewRequest
from chargehand_plugins.code_review.documents import dismissed_in, gaps_in, markdown_of, sarif_of
from chargehand_plugins.code_review.findings import Sifted, sift
from chargehand_plugins.code_review.tool import CodeHistory, ReadCode, ReadDiff, ReviewComments
from worker.parts import WorkerParts


@dataclass(frozen=True)
class CodeReviewActivities:
    changes: ChangeReader
    store: Artifacts

    @activity.defn(name=ActivityType.WRITE_REVIEW)
    async def write_review(self, request: CodeReviewRequest) -> CodeReview:
        """Check the findings of a session, and store the review as files for the user."""
        try:
            change = await self.changes.read(request.documents)
        except NoChangeError as error:
            return CodeReview(answer=str(error))
        sifted, answer, sarif = await asyncio.to_thread(_write, request, change)
        outputs = [
            ToolOutput(name="review.md", content=answer.encode(), title="The review"),
            ToolOutput(name="review.sarif", content=sarif.encode(), title="The review as SARIF 2.1.0"),
        ]
        artifacts, _ = await store_outputs(self.store, outputs)
        issues = tuple(reported.issue for reported in sifted.reported)
        gaps = gaps_in(sifted, request.found, request.second_look)
        return CodeReview(answer=answer, issues=issues, gaps=tuple(gaps), artifacts=artifacts)


def _write(request: CodeReviewRequest, change: Change) -> tuple[Sifted, str, str]:
    dismissed = {each for text in change.dismissed for each in dismissed_in(text)}
    sifted = sift(request, change.files, dismissed)
    return sifted, markdown_of(sifted, change.files, request.second_look), sarif_of(sifted)


async def add_parts(parts: WorkerParts) -> None:
    changes = ChangeReader(parts.library)
    parts.closing.push_async_callback(changes.close)
    for tool in (ReadDiff(changes), ReadCode(changes), CodeHistory(changes), ReviewComments(changes)):
        parts.add_tool(tool)
    parts.document_checks.append(is_of_review)
    parts.activities.append(CodeReviewActivities(changes, parts.artifacts).write_review)
