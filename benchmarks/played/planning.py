"""How the model plans: rules, none specific to one request, that turn the words of a request into subtasks."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.played.sight import Sight

Draft = dict[str, Any]
Rule = Callable[[re.Match[str], Sight], Draft]

_QUOTE: Final = "Open the pages before you rely on them, and quote the sentence that states each, with its source."
ITEM: Final = "the item"
"""Placeholder in a template for the item."""
_TURNS: Final = 4
"""Turns that a researcher usually takes."""
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NAMES: Final = r"[A-Z]\w+(?:, [A-Z]\w+)* and [A-Z]\w+"


def plan(sight: Sight) -> Draft:
    """Plan by the first rule that matches the request, and omit what a refusal says there is no room for."""
    found, rule = next((match, rule) for pattern, rule in _RULES.items() if (match := re.search(pattern, sight.task)))
    draft = rule(found, sight)
    if allowed := re.findall(r"but (\d+) were left", sight.task):
        most = max(int(allowed[-1]) // 3, 1)
        draft["omitted"] = [subtask["instruction"].partition(" Open ")[0] for subtask in draft["subtasks"][most:]]
        draft["subtasks"] = draft["subtasks"][:most]
    return draft


def _listed(text: str) -> list[str]:
    return [part.strip() for part in re.split(r", and |, | and | und |和|、", text) if part.strip()]


def _subtask(number: int, agent: str, instruction: str, **more: Any) -> Draft:
    return {"id": f"T{number}", "agent": agent, "instruction": instruction, "depends_on": [], "required": [], **more}


def _research(number: int, subject: str, wanted: list[str], **more: Any) -> Draft:
    return _subtask(number, "researcher", f"Subject: {subject}. Wanted: {'; '.join(wanted)}. {_QUOTE}", **more)


def _plan(*subtasks: Draft, strategy: str = "merge", final: str = "") -> Draft:
    return {"subtasks": list(subtasks), "strategy": strategy, "final_instruction": final or "Briefly, with sources."}


def _one_each(found: re.Match[str], _: Sight) -> Draft:
    """Create one agent for each named thing."""
    wanted = _listed(found["what"])
    kind = found["kind"].removesuffix("s")
    subtasks = [
        _research(number, f"{name} {kind}", wanted) for number, name in enumerate(_listed(found["names"]), start=1)
    ]
    return _plan(*subtasks, final="A table with a row for each, then the differences that matter; cite every figure.")


def _list_then_detail(found: re.Match[str], sight: Sight) -> Draft:
    """Find the list first; its items become separate subtasks if the turns allow, or else work for one agent."""
    whole, what, detail = found["whole"], found["what"], found["detail"]
    first = _research(1, whole, [what])
    allowed = re.search(r"(\d+) turns", sight.task)
    items = next((number for number, word in enumerate(_NUMBERS) if word in what.split()), len(_NUMBERS))
    if allowed and int(allowed[1]) >= _TURNS * (1 + items) + 1 and sight.asks_for("subtasks", "for_each"):
        return _plan(first, _research(2, ITEM, [detail], for_each="T1", depends_on=["T1"]))
    first["instruction"] = first["instruction"].replace(f"Wanted: {what}.", f"Wanted: {what}. For each: {detail}.")
    return _plan(first)


def _from_documents(found: re.Match[str], _: Sight) -> Draft:
    wanted = [
        re.sub(r"^(?:and )?(?:what is|who pays for|which is) (?:the )?", "", part)
        for part in _listed(found["questions"])
    ]
    asked = f"Subject: {found['documents']}. Wanted: {'; '.join(wanted)}."
    return _plan(
        _subtask(1, "reader", f"{asked} Quote the sentence of each, from every document that says something on it.")
    )


def _figures_and_words(found: re.Match[str], _: Sight) -> Draft:
    asked = f"Measure: {found['measure']} {found['done']}. By: {found['group']}."
    measure = f"{asked} Compute the total over all rows of {found['year']}."
    words = f"Subject: {found['document']}. Wanted: {found['what']}. Quote the sentence that states it."
    return _plan(_subtask(1, "analyst", measure), _subtask(2, "reader", words))


def _long_report(found: re.Match[str], _: Sight) -> Draft:
    parts, wanted = _listed(found["parts"]), _listed(found["aspects"])
    subtasks = [_research(number, f"{part} {found['place']}", wanted) for number, part in enumerate(parts, start=1)]
    words = int(found["words"].replace(".", ""))
    return _plan(*subtasks, final="Auf Deutsch, mit Quellen.") | {"length_words": words}


def _two_sides(found: re.Match[str], _: Sight) -> Draft:
    sides = (found["one"], found["other"])
    return _plan(
        *(
            _research(number, f"{found['subject']} {side}", [found["verb"] + "ed"])
            for number, side in enumerate(sides, start=1)
        ),
        final="Say whether the two agree.",
    )


_RULES: Final[Mapping[str, Rule]] = {
    rf"(?:Compare|Survey) the (?P<kind>[a-z ]+) (?P<names>{_NAMES}) by (?P<what>[^.\n]+)\.": _one_each,
    r"Which are the (?P<what>[\w ]+) of the (?P<whole>[A-Z][\w ]+), and who is the (?P<detail>\w+) of each\?": (
        _list_then_detail
    ),
    r"From the (?P<documents>[^:\n]+): (?P<questions>[^?\n]+)\?": _from_documents,
    r"How many (?P<measure>\w+) were (?P<done>\w+) on each (?P<group>\w+) in (?P<year>\d{4}), and what does the "
    r"(?P<document>\w+) say about (?P<what>[^?\n]+)\?": _figures_and_words,
    r"Bericht von mindestens (?P<words>[\d.]+) Wörtern über [^:\n]+ in (?P<place>\w+): (?P<parts>[^.\n]+?), "
    r"jeweils mit (?P<aspects>[^.\n]+)\.": _long_report,
    r"How many (?P<what>\w+) used (?P<subject>[\w ]+?) in (?P<year>\d{4})\?": (
        lambda found, _: _plan(_research(1, found["subject"], [f"{found['what']} {found['year']}"]))
    ),
    r"When did the (?P<subject>[\w ]+?) (?P<verb>\w+), according to the (?P<one>[\w ]+) and according to the "
    r"(?P<other>[\w ]+)\?": _two_sides,
    r"What does the (?P<subject>[\w ]+) say about (?P<what>\w+)\?": (
        lambda found, _: _plan(_research(1, found["subject"], [found["what"]]))
    ),
    r"(?P<subject>[\u4e00-\u9fff]+)的(?P<what>[\u4e00-\u9fff]+)是什么": (
        lambda found, _: _plan(_research(1, found["subject"], _listed(found["what"])), final="用中文回答，并注明来源。")
    ),
}
