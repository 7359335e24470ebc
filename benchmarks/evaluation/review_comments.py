"""Code reviews with golden comments, as Martian's benchmark keeps them; a judge says which a review makes.

Neither comments nor changes are part of this repository. Take the folder `offline/golden_comments` (MIT) of
https://github.com/withmartian/code-review-benchmark, and beside its files each change as a diff, under the name
that the message about a missing one says: `curl -L URL.diff -o NAME`.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

from benchmarks.evaluation.dataset import Case, Dataset


class MissingDiffs(FileNotFoundError):  # noqa: N818  # reads as a statement
    """Changes that are reviewed are not there."""


def read_review_comments(folder: Path) -> Dataset:
    """Read the changes of a folder whose diffs are there.

    Raises:
        MissingDiffs: none is there, or no comments are.
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
