"""The tools of reviewers: the change, the files that it belongs to, and their history. They only read."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from activities.contracts.tool import (
    READING_CHARACTERS,
    READS_DOCUMENTS,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from chargehand.contracts import Source
from chargehand.tools import failed
from chargehand_plugins.code_review.change import Change, ChangeReader, NoChangeError
from chargehand_plugins.code_review.diff import ChangedFile, lines_of
from chargehand_plugins.code_review.git_folder import RepositoryError

_MOST_LISTED: Final = 400
_MOST_COMMITS: Final = 20


@dataclass(frozen=True)
class _Place:
    path: str
    first: int
    last: int


class _ReviewTool(ABC):
    capabilities = READS_DOCUMENTS
    spec: ToolSpec
    needs_file = True

    def __init__(self, changes: ChangeReader) -> None:
        self._changes = changes

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        path, first, last = (arguments.get(name) or usual for name, usual in (("file", ""), ("first", 0), ("last", 0)))
        if not isinstance(path, str) or not isinstance(first, int) or not isinstance(last, int):
            return failed("`file` must be a path, and `first` and `last` whole numbers.")
        if self.needs_file and not path:
            return failed("`file` must be the path of a file.")
        try:
            return await self._answer(await self._changes.read(context.documents), _Place(path, first, last))
        except NoChangeError as error:
            return failed(str(error))
        except RepositoryError as error:
            return failed(f"The repository cannot be read: {error}.")

    @abstractmethod
    async def _answer(self, change: Change, place: _Place) -> ToolAnswer: ...


class ReadDiff(_ReviewTool):
    needs_file = False
    spec = ToolSpec(
        name="read_diff",
        description=(
            "Read the change under review. With an empty `file`: the changed files, with how many lines each adds and "
            "removes. With a file: its changed lines with some around them, numbered as in the new version; `+` marks "
            "an added line, `-` a removed one. If there is more, `next` is the line to continue from."
        ),
        parameters=object_schema(
            file={"type": "string", "description": "Path of a changed file, or an empty string for the list."},
            first={"type": "integer", "description": "Line of the new version to begin at; 0 for the first."},
        ),
    )

    async def _answer(self, change: Change, place: _Place) -> ToolAnswer:
        if not place.path:
            return await asyncio.to_thread(
                lambda: _list_files([f"{file.path} +{len(file.added)} -{file.removed}" for file in change.files])
            )
        file = change.file(place.path)
        if file is None:
            return failed("This file is not changed. Read the list with an empty `file`, and name a path as it does.")
        return await asyncio.to_thread(_show, file, place.first)


class ReadCode(_ReviewTool):
    spec = ToolSpec(
        name="read_code",
        description=(
            "Read any file of the repository as it is after the change, numbered, to see what the change relies on. "
            "Not available if only a diff was given."
        ),
        parameters=object_schema(
            file={"type": "string", "description": "Path of the file in the repository."},
            first={"type": "integer", "description": "First line, from 1; 0 for the start."},
            last={"type": "integer", "description": "Last line; 0 for as many as fit."},
        ),
    )

    async def _answer(self, change: Change, place: _Place) -> ToolAnswer:
        if change.repository is None:
            return failed("There is only the diff, and no repository. Go by the lines that the diff shows.")
        text = await change.repository.read(place.path)
        if text is None:
            return failed("The repository has no text file of this path.")
        return await asyncio.to_thread(_show_code, place, text)


class CodeHistory(_ReviewTool):
    spec = ToolSpec(
        name="code_history",
        description=f"List the {_MOST_COMMITS} newest commits that changed a file: date, author, subject and notes.",
        parameters=object_schema(
            file={"type": "string", "description": "Path of the file, as read_diff lists it."},
        ),
    )

    async def _answer(self, change: Change, place: _Place) -> ToolAnswer:
        if change.repository is None:
            return failed("There is only the diff, and no repository with a history.")
        text = "\n".join(
            f"{commit.id} {datetime.fromtimestamp(commit.seconds, UTC):%Y-%m-%d} {commit.author}: {commit.subject}"
            + (f" (note: {commit.note})" if commit.note else "")
            for commit in await change.repository.history(place.path, _MOST_COMMITS)
        )
        if not text:
            return ToolAnswer(output={"note": "No commit that can be read changed this file."})
        return ToolAnswer(sources=(Source(ref=f"{place.path}#history", title=f"History of {place.path}", quote=text),))


class ReviewComments(_ReviewTool):
    needs_file = False
    spec = ToolSpec(
        name="review_comments",
        description=(
            "List what people wrote in earlier reviews. With an empty `file`: the files, with how many comments each "
            "has. With a file: its comments, the newest first, with line, author and date."
        ),
        parameters=object_schema(
            file={"type": "string", "description": "Path of a file of the repository, or an empty string for the list."}
        ),
    )

    async def _answer(self, change: Change, place: _Place) -> ToolAnswer:
        if not change.comments:
            return failed("There is no export of review comments among the documents; go by the notes of code_history.")
        if not place.path:
            counts = Counter(comment.path for comment in change.comments).most_common()
            return _list_files([f"{name} {count}" for name, count in counts])
        lines = [
            f"line {comment.line}, {comment.author}, {comment.date}: {comment.text}"
            for comment in change.comments
            if comment.path == place.path
        ]
        if not lines:
            return ToolAnswer(output={"note": "Earlier reviews made no comment on this file."})
        end = _fitting(lines)
        output: dict[str, JsonValue] = {"note": f"and {len(lines) - end} older ones"} if end < len(lines) else {}
        source = Source(ref=f"{place.path}#comments", title=f"Comments on {place.path}", quote="\n".join(lines[:end]))
        return ToolAnswer(output=output, sources=(source,))


def _list_files(files: list[str]) -> ToolAnswer:
    more = len(files) - _MOST_LISTED
    note: dict[str, JsonValue] = {"note": f"and {more} more files"} if more > 0 else {}
    return ToolAnswer(output={"files": [*files[:_MOST_LISTED]], **note})


def _show(file: ChangedFile, first: int) -> ToolAnswer:
    shown = [
        (line.number, f"{line.kind} {line.number if line.kind != '-' else '':>6} {line.text}")
        for line in file.lines
        if line.number >= first
    ]
    return _number_lines(file.path, shown)


def _show_code(place: _Place, text: str) -> ToolAnswer:
    lines = lines_of(text)
    wanted = range(max(place.first, 1), min(place.last or len(lines), len(lines)) + 1)
    return _number_lines(place.path, [(number, f"{number:>6} {lines[number - 1]}") for number in wanted])


def _number_lines(path: str, lines: list[tuple[int, str]]) -> ToolAnswer:
    count = _fitting([text for _, text in lines])
    if not count:
        return failed("There are no such lines.")
    output: dict[str, JsonValue] = {"next": lines[count][0]} if count < len(lines) else {}
    ref = f"{path}#L{lines[0][0]}-L{lines[count - 1][0]}"
    quote = "\n".join(text for _, text in lines[:count])
    return ToolAnswer(output=output, sources=(Source(ref=ref, title=path, quote=quote),))


def _fitting(lines: list[str]) -> int:
    """Count the lines that fit into one reading."""
    count = size = 0
    while count < len(lines) and size + len(lines[count]) < READING_CHARACTERS:
        size += len(lines[count]) + 1
        count += 1
    return count
