"""The tools `recall`, which returns outcomes of earlier subtasks in full (a task shows what fits), and `note`.

An agent can recall the outcomes on which its subtask depends, directly or indirectly; the tool gets no others.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from activities.contracts.rounds import InputOutcome
from activities.contracts.tool import READING_CHARACTERS, CallContext, ToolAnswer, ToolContext, ToolSpec, object_schema
from activities.documents.artifacts import ArtifactError, Artifacts
from chargehand.contracts import Artifact, Capability, Source, left_out
from chargehand.tools import failed

RECALL: Final = "recall"
_PAGE_CHARACTERS: Final = READING_CHARACTERS - 1_000
_LARGEST_FILE: Final = 1_000_000
_TEXT_TYPES: Final = ("text/", "application/json")


class RecallContext(CallContext):
    """The context of a call of `recall`."""

    outcome: InputOutcome | None = left_out(None)
    """The requested outcome; None if the agent may not recall an outcome with that id."""
    known: tuple[str, ...] = left_out(())
    """Ids of the outcomes that the agent may recall."""


class Recall:
    """Reads an outcome page by page: its text, findings and data, then its sources, then the text of its files."""

    capabilities = frozenset[Capability]()
    """None, because the sources of an outcome already count as given to its reader."""
    spec = ToolSpec(
        name=RECALL,
        own_step=True,  # the workflow passes it the outcome
        description=(
            "Read the outcome of an earlier subtask in full: its text, findings, data and gaps, then its sources "
            "with the passages kept of them, then the text of its files. Use it when your task shows an outcome "
            "shortened, or when you need its evidence. Only subtasks that yours depends on, directly or not."
        ),
        parameters=object_schema(
            id={"type": "string", "description": "Id of the subtask, such as T1."},
            page={"type": "integer", "description": "1 for the first page; the answer says how many there are."},
        ),
    )

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        if not isinstance(context, RecallContext) or context.outcome is None:
            known = ", ".join(context.known) if isinstance(context, RecallContext) else ""
            return failed(
                f"There is no such outcome for this subtask, or it is no longer kept; there are: {known or 'none'}."
            )
        pages = await asyncio.to_thread(self._pages, context.outcome)
        number = arguments.get("page")
        if not isinstance(number, int) or not 1 <= number <= len(pages):
            return failed(f"page: the outcome has the pages 1 to {len(pages)}.")
        text, sources = pages[number - 1]
        output: dict[str, JsonValue] = {"id": context.outcome.id, "page": number, "pages": len(pages), "text": text}
        return ToolAnswer(output=output, sources=sources)

    def _pages(self, given: InputOutcome) -> list[tuple[str, tuple[Source, ...]]]:
        pages: list[tuple[str, tuple[Source, ...]]] = []
        text, sources, room = "", list[Source](), _PAGE_CHARACTERS
        for part in self._parts(given):
            size = len(part) if isinstance(part, str) else sum(map(len, (part.ref, part.title, part.quote)))
            if size > room and room < _PAGE_CHARACTERS:
                pages.append((text, tuple(sources)))
                text, sources, room = "", [], _PAGE_CHARACTERS
            room -= size
            if isinstance(part, str):
                text += part
            else:
                sources.append(part)
        return [*pages, (text, tuple(sources))]

    def _parts(self, given: InputOutcome) -> Iterator[str | Source]:
        outcome = given.outcome
        record = outcome.model_dump(mode="json", include={"findings", "data", "gaps", "issues", "reason", "message"})
        whole = f"{given.agent}: {outcome.kind}, confidence {outcome.confidence}\nAsked: {given.instruction}\n\n"
        yield from _pieces(f"{whole}{outcome.content}\n\n{to_json(record).decode()}")
        yield from outcome.sources
        for artifact in outcome.artifacts:
            yield from _pieces(f"\n\nFile {artifact.name} ({artifact.media_type}, {artifact.bytes} bytes)")
            yield from _pieces(self._text_of(artifact))

    def _text_of(self, artifact: Artifact) -> str:
        if not artifact.media_type.startswith(_TEXT_TYPES) or artifact.bytes > _LARGEST_FILE:
            return f": {artifact.title}"
        try:
            content = self._artifacts.read(artifact.uri.removeprefix("artifact:").partition("/")[0])
        except ArtifactError:
            return ": this worker cannot read it."
        return f":\n{content.decode(errors='replace')}"


def _pieces(text: str) -> Iterator[str]:
    yield from (text[start : start + _PAGE_CHARACTERS // 4] for start in range(0, len(text), _PAGE_CHARACTERS // 4))


NOTE: Final = ToolSpec(
    name="note",
    description=(
        "Keep a finding, beside your other calls: a claim that is clear on its own, the ref of its source, such as p1 "
        "(empty for a conclusion), and at most 600 characters copied from there, or empty."
    ),
    parameters=object_schema(claim={"type": "string"}, ref={"type": "string"}, quote={"type": "string"}),
)
