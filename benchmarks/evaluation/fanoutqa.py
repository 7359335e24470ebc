"""FanOutQA: 310 questions over Wikipedia with gold decompositions, as a dataset.

The file is not part of this repository: https://github.com/zhudotexe/fanoutqa, `fanoutqa/data/fanout-final-dev.json`,
CC BY-SA 4.0. Any edition is accepted, since the answers are corrected from time to time; the dataset's name says
which edition it is. datasets/fanoutqa-sample.yaml holds a few of its questions.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.evaluation.dataset import Case, Dataset, GoldSubtask
from benchmarks.evaluation.results import WrongFile

EDITIONS: Final = {
    "359300b029c6891567816f351bf8786e9b018d7af8a1a44b7da9ba5ef4651288": "2023-11",
    "b62a9797732c716e6b17ba4086f277d154d747ce2fa01614cb76a3372e7fb88c": "2026-07",
}
"""The released editions, by their SHA-256."""
_Node = dict[str, Any]


def read_fanoutqa(file: Path) -> Dataset:
    """Read the development questions of any edition.

    Raises:
        WrongFile: its questions have no answers and decompositions, as is the case for the test questions.
    """
    data = file.read_bytes()
    digest = hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()
    edition = EDITIONS.get(digest, digest[:12])
    try:
        cases = tuple(_case(question) for question in cast("list[_Node]", json.loads(data)))
        return Dataset(
            name=f"fanoutqa-{edition}",
            about=f"FanOutQA, development set (Zhu et al. 2024), edition {edition}, CC BY-SA 4.0",
            offline="oracle",
            cases=cases,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise WrongFile(f"{file} does not have the development questions ({error!r:.200}). {__doc__}") from error


def _case(question: _Node) -> Case:
    golden = question["answer"]
    plan = list(_subtasks(question["decomposition"], ()))
    if len(plan) == 1:
        plan = [plan[0].model_copy(update={"answer": ", ".join(_words(golden))})]
    return Case(id=question["id"], goal=question["question"], plan=_distinct(plan), answer=golden, whole=True)


def _subtasks(nodes: Sequence[_Node], above: tuple[str, ...]) -> Iterator[GoldSubtask]:
    """List nodes before those that need them; a node with subquestions is assembled from their answers."""
    for node in nodes:
        needs = (*above, *(str(each) for each in node["depends_on"]))
        parts = [*_subtasks(node["decomposition"], needs)]
        yield from parts
        yield GoldSubtask(
            id=f"T{node['id']}",
            instruction=node["question"],
            agent="writer" if parts else "researcher",
            depends_on=tuple(f"T{each}" for each in (*needs, *(part["id"] for part in node["decomposition"]))),
            answer=", ".join(_words(node["answer"])) or "None.",
        )


def _distinct(plan: Sequence[GoldSubtask]) -> tuple[GoldSubtask, ...]:
    """Make subtasks with identical instructions distinct, because a plan may not repeat one."""
    seen: dict[str, int] = {}
    found: list[GoldSubtask] = []
    for gold in plan:
        seen[gold.instruction] = count = seen.get(gold.instruction, 0) + 1
        wording = gold.instruction if count == 1 else f"{gold.instruction} (number {count})"
        found.append(gold.model_copy(update={"instruction": wording}))
    return tuple(found)


def _words(answer: object) -> Iterator[str]:
    """List the strings in an answer: its keys and values, individually."""
    match answer:
        case dict():
            for key, value in cast("dict[object, object]", answer).items():
                yield from _words(key)
                yield from _words(value)
        case list():
            for each in cast("list[object]", answer):
                yield from _words(each)
        case bool():
            yield "yes" if answer else "no"
        case _:
            yield str(answer)
