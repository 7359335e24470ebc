"""Code reviews with golden comments, in the format of Martian's benchmark; a judge decides which ones a review makes.

The comments and changes are not part of this repository. Take the folder `offline/golden_comments` (MIT) of
https://github.com/withmartian/code-review-benchmark, and add each change as a diff next to its files, under the name
in the error about a missing one: `curl -L URL.diff -o NAME`.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

from benchmarks.evaluation.dataset import Case, Dataset


class MissingDiffs(FileNotFoundError):  # noqa: N818  # reads as a statement
    """Some reviewed changes are missing."""


def read_review_comments(folder: Path) -> Dataset:
    """Read the changes in a folder whose diffs are present.

    Raises:
        MissingDiffs: there are no diffs or no comments.
    """
    files = sorted(folder.glob("*.json"))
    changes = [change for file in files for change in cast("list[dict[str, Any]]", json.loads(file.read_text()))]
    cases = tuple(_case(change, folder) for change in changes if _diff(change, folder).exists())
    if not cases:
        first = f" The first: curl -L {changes[0]['url']}.diff -o {_diff(changes[0], folder)}." if changes else ""
        raise MissingDiffs(f"{folder} has {len(changes)} changes with comments, and no diff.{first} {__doc__}")
    return Dataset(
        name="review-comments",
        about=f"{len(cases)} of {len(changes)} changes with golden comments (Martian, MIT); each needs a judge.",
        offline="configured",
        cases=cases,
    )


def _case(change: dict[str, Any], folder: Path) -> Case:
    return Case(
        id=_diff(change, folder).stem,
        goal=f"Review this change: {change['pr_title']}",
        crew="code-review",
        documents=str(_diff(change, folder)),
        answer=tuple(each["comment"] for each in change["comments"]),
    )


def _diff(change: dict[str, Any], folder: Path) -> Path:
    owner, name, number = re.findall(r"[^/]+", change["url"].partition("github.com/")[2].replace("/pull/", "/"))[:3]
    return folder / f"{owner}-{name}-{number}.diff"
