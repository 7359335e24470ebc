"""Right and wrong ways to state a golden answer, written without the code that judges them."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from benchmarks.evaluation.answers.verdict import check_answer
from benchmarks.evaluation.dataset import Dataset
from benchmarks.tables import Row

Golden = str | int | float | bool | list[object] | Mapping[str, object]

_PREAMBLES = (
    "",
    "Based on the documents I have read, here is the answer.\n\n",
    "I searched 4 sources and compared them. The result, as of 2025:\n",
    "## Answer\n\nAfter a closer look at each of the items in question, this is what the sources say:\n\n",
)
_LISTS = ("bullets in another order", "numbered", "lines", "table", "json", "value first")
"""Layouts in which code detects an extra item; in sentences, that takes a judge."""
_ENDINGS = ("", "\n\nSources: [S1], [S2].", "\n\nNothing else was found, and no gaps are left.")


def try_scoring(dataset: Dataset) -> Row:
    """Score right and wrong forms of every golden answer: the right ones should pass, the wrong ones fail."""
    counts = Counter[str]()
    golden = [(number, case, case.answer) for number, case in enumerate(dataset.cases) if case.answer is not None]
    for seed, case, answer in golden:
        plain = list[object](answer) if isinstance(answer, tuple) else answer
        for name, forms in (("right", right_answers(plain, seed)), ("wrong", wrong_answers(plain, seed))):
            for _, body in forms:
                verdict = check_answer(answer, body, question=case.goal, wrong=case.wrong, whole=True)
                counts[f"{name} answers"] += 1
                counts[f"{name} ones passed"] += verdict.right
    return {"": dataset.name, "cases": len(golden), **counts}


def said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)


def right_answers(golden: Golden, seed: int) -> Iterator[tuple[str, str]]:
    """Write the whole answer in many forms."""
    draw = random.Random(seed)
    for name, body in _bodies(golden, draw):
        for number, preamble in enumerate(_PREAMBLES):
            yield f"{name}, preamble {number}", f"{preamble}{body}{_ENDINGS[number % len(_ENDINGS)]}"


def _bodies(golden: Golden, draw: random.Random) -> Iterator[tuple[str, str]]:
    match golden:
        case Mapping():
            pairs = list(golden.items())
            mixed = draw.sample(pairs, len(pairs))
            yield "flat", ", ".join(f"{key}, {said(value)}" for key, value in pairs) + "."
            yield "lines", "\n".join(f"{key} - {said(value)}" for key, value in pairs)
            yield "bullets in another order", "\n".join(f"- **{key}**: {said(value)} [S1]" for key, value in mixed)
            yield "numbered", "\n".join(f"{n}. {key}: {said(value)}" for n, (key, value) in enumerate(pairs, 1))
            rows = "\n".join(f"| {key} | {said(value)} |" for key, value in mixed)
            yield "table", f"| Item | Value |\n|---|---|\n{rows}"
            yield "sentences", " ".join(f"For {key} it is {said(value)} [S1.1]." for key, value in pairs)
            yield (
                "json",
                "{" + ", ".join(f'"{key}": "{value}"' for key, value in ((k, said(v)) for k, v in mixed)) + "}",
            )
            yield "value first", "\n".join(f"- {said(value)} ({key})" for key, value in pairs)
            yield "headings", "\n\n".join(f"### {key}\n\n{said(value)}." for key, value in mixed)
        case list():
            mixed = draw.sample(golden, len(golden))
            yield "commas", f"They are {', '.join(said(each) for each in mixed)}."
            yield "bullets", "\n".join(f"- {said(each)} [S1]" for each in mixed)
            yield (
                "and",
                f"{', '.join(said(each) for each in mixed[:-1])} and {said(mixed[-1])}."
                if mixed[1:]
                else said(mixed[0]),
            )
        case _:
            yield "alone", said(golden)
            yield "sentence", f"The answer is **{said(golden)}** [S1]."
            yield "capital", f"{said(golden).capitalize()}."
    yield from _other_numbers(golden)


def _other_numbers(golden: Golden) -> Iterator[tuple[str, str]]:
    """Write whole numbers in other formats."""
    formats: Mapping[str, Callable[[int], str]] = {
        "points": lambda number: f"{number:,}".replace(",", "."),
        "thin spaces": lambda number: f"{number:,}".replace(",", "\u202f"),
        "no separators": str,
        "people": lambda number: f"{number:,} in total",
    }
    match golden:
        case Mapping():
            if golden and all(type(each) is int and each > 99_999 for each in golden.values()):
                numbers = cast("Mapping[str, int]", golden)
                for name, form in formats.items():
                    yield name, "\n".join(f"- {key}: {form(value)}" for key, value in numbers.items())
        case int() if type(golden) is int and golden > 99_999:
            for name, form in formats.items():
                yield name, f"It is {form(golden)}."
        case _:
            return


def wrong_answers(golden: Golden, seed: int) -> Iterator[tuple[str, str]]:
    """Write answers with exactly one thing wrong."""
    draw = random.Random(seed)
    yield "refusal", "I could not find this out, since the sources do not say."
    yield "empty", ""
    whole = next(body for _, body in _bodies(golden, draw))
    yield "denied", f"It is not true that {whole}"
    yield "denied before a list", f"It is not the case that the following holds:\n\n{whole}"
    yield "taken back", f"{whole}\n\nAll of this is wrong."
    match golden:
        case Mapping():
            for name, changed in _changed_pairs(dict(golden), draw):
                for form, body in _bodies(changed, draw):
                    if name != "one more" or form in _LISTS:
                        yield f"{name}, {form}", body
            key = draw.choice(list(golden))
            yield (
                "one denied",
                ". ".join(f"{each} is {'not ' if each == key else ''}{said(value)}" for each, value in golden.items()),
            )
            other = next((value for value in golden.values() if value != golden[key]), "another one")
            yield (
                "hedged",
                "\n".join(
                    f"- {each}: {said(value)}{f' or {said(other)}' if each == key else ''}"
                    for each, value in golden.items()
                ),
            )
        case list():
            place = draw.randrange(len(golden))
            for name, changed in (
                ("near", [*golden[:place], near(golden[place]), *golden[place + 1 :]]),
                ("one less", [*golden[:place], *golden[place + 1 :]]),
                ("one more", [*golden, near("other")] if golden[1:] else []),
            ):
                if changed:
                    for form, body in _bodies(changed, draw):
                        yield f"{name}, {form}", body
            yield (
                "one denied",
                "\n".join(f"- {'not ' if n == place else ''}{said(each)}" for n, each in enumerate(golden)),
            )
        case _:
            yield "near", f"The answer is {said(near(golden))}."
            yield (
                "one of several",
                f"These were considered:\n- Thornwick Lune\n- {said(golden)}\n- {said(near(golden))}",
            )
            yield "not", f"The answer is not {said(golden)}."
            yield "hedged", f"The answer is {said(golden)} or {said(near(golden))}."
            yield "range", f"The answer is {said(golden)}-{said(near(golden))}." if type(golden) is int else ""


def _changed_pairs(golden: dict[str, object], draw: random.Random) -> Iterator[tuple[str, dict[str, object]]]:
    key = draw.choice(list(golden))
    yield "near", {**golden, key: near(golden[key])}
    yield "one less", {each: value for each, value in golden.items() if each != key}
    if len(golden) > 1:
        yield "one more", {**golden, "Quarnolf Bexleigh": "Thornwick Lune"}
    yield "another key", {(f"Quarnolf {each[:3]}z" if each == key else each): value for each, value in golden.items()}
    others = [each for each in golden if golden[each] != golden[key]]
    if others:
        other = draw.choice(others)
        yield "swapped", {**golden, key: golden[other], other: golden[key]}
        values = list(golden.values())
        if len(set(map(str, values))) == len(values) > 2:
            yield "turned", dict(zip(golden, [*values[1:], values[0]], strict=True))


def near(value: object) -> object:
    """Change the last digit, or replace the whole text."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            text = str(value)
            return float(f"{text[:-1]}{(int(text[-1]) + 1) % 10}")
        case _:
            text = str(value)
            digits = [place for place, each in enumerate(text) if each.isdigit()]
            if digits:
                return f"{text[: digits[0]]}{int(text[digits[0]]) % 9 + 1}{text[digits[0] + 1 :]}"
            return "Quarnolf Bexleigh"
