"""How the model works as an agent: which tools it uses next, and what it answers from what it was shown."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.played.prose import Claim
from benchmarks.played.sight import Evidence, Passage, Sight, sentences, speaks_of
from tests.scripted_provider import ScriptedReply, ToolUse

Step = Callable[["Sight", "Assignment"], list[ToolUse]]
Answer = Callable[["Sight", "Assignment"], ScriptedReply]

_ASSIGNMENT: Final = re.compile(
    r"Subject: (?P<subject>[^\n.]+)\. Wanted: (?P<wanted>[^\n.]+)\.(?: For each: (?P<each>[^\n.]+)\.)?"
)
_MEASURE: Final = re.compile(r"Measure: (?P<measure>[^\n.]+)\. By: (?P<group>[^\n.]+)\.")
_TABLE: Final = re.compile(r'^- table "(?P<name>[^"]+)" \([^)]*\): (?P<columns>.*)$', re.MULTILINE)
_NAMES: Final = re.compile(r"\b(?:are|sind) ((?:[A-Z]\w+, )+[A-Z]\w+ (?:and|und) [A-Z]\w+)")
_PLACE: Final = re.compile(r"^(?P<document>[^#]+)#L(?P<first>\d+)")
_ENDS: Final = ".!?。！？"
"""Ends of sentences; text without one, such as a heading, states nothing."""
_OPENED_FIRST: Final = 3
_MOST_OPENED: Final = 12
_MOST_SEARCHES: Final = 2


@dataclass(frozen=True)
class Assignment:
    """An instruction as its agent understands it."""

    subject: str
    wanted: tuple[str, ...]
    each: str = ""
    """What is wanted for each item that the first part lists."""


def assignment(sight: Sight) -> Assignment:
    """Read the instruction, which follows the material that it is based on."""
    if found := _ASSIGNMENT.search(sight.task, max(sight.task.rfind("Instruction:"), 0)):
        return Assignment(found["subject"], tuple(found["wanted"].split("; ")), found["each"] or "")
    return Assignment(sight.task, ())


def research(sight: Sight, task: Assignment) -> list[ToolUse]:
    """Search, open the best pages, read the rest of cut pages, and search again before giving up."""
    if not sight.used("search"):
        terms = task.wanted[:3] if not task.each else task.wanted
        return [sight.use("search", query=f"{task.subject} {term}") for term in terms]
    uses = _gather(sight, task, _OPENED_FIRST)
    return uses or (_details(sight, task) if task.each else [])


def _gather(sight: Sight, task: Assignment, first: int) -> list[ToolUse]:
    opened = _opened(sight)
    unopened = [url for url in _candidates(sight, task.subject) if url not in opened]
    missing = _missing(sight, task)
    if len(opened) < first and unopened:
        return [sight.use("read_page", url=url) for url in unopened[: first - len(opened)]]
    if not missing:
        return []
    if deeper := _continued(sight, task, missing):
        return deeper
    if unopened and len(opened) < _MOST_OPENED:
        return [sight.use("read_page", url=url) for url in unopened[:2]]
    queries = {str(arguments.get("query")) for arguments in sight.used("search")}
    if len(queries) < len(task.wanted) + _MOST_SEARCHES:
        again = [f"{task.subject} {missing[0]} history", f"{task.subject} statistics"]
        return [sight.use("search", query=query) for query in again if query not in queries][:1]
    return []


def _details(sight: Sight, task: Assignment) -> list[ToolUse]:
    """Look up what is wanted for each item in the list that was found."""
    names = listed_names(evidence(sight, task))
    searched = " ".join(str(arguments.get("query")) for arguments in sight.used("search"))
    if unsearched := [name for name in names if f"{name} {task.each}" not in searched]:
        return [sight.use("search", query=f"{name} {task.each} {task.subject}") for name in unsearched]
    uses: list[ToolUse] = []
    for name in names:
        part = Assignment(name, (task.each,))
        if _missing(sight, part):
            opened = _opened(sight)
            unopened = [url for url in _candidates(sight, name) if url not in opened]
            deeper = _continued(sight, part, [task.each])
            uses += deeper[:1] or [sight.use("read_page", url=url) for url in unopened[:1]]
    return uses


def listed_names(found: Sequence[Evidence]) -> list[str]:
    """Extract the names from a sentence that lists them."""
    for one in found:
        if listed := _NAMES.search(one.sentence):
            return re.split(r", | and | und ", listed[1])
    return []


def _name(subject: str) -> str:
    """Return the word of a subject that is its name."""
    return subject.partition(" ")[0]


def _opened(sight: Sight) -> set[str]:
    return {str(arguments.get("url")) for arguments in sight.used("read_page")}


def _candidates(sight: Sight, subject: str) -> list[str]:
    """Choose the addresses whose context mentions the subject."""
    name = _name(subject)
    return [url for url, around in sight.links if name in around]


def _continued(sight: Sight, task: Assignment, missing: Sequence[str]) -> list[ToolUse]:
    """Search within pages about the subject that were shown in part."""
    tried = {(str(arguments.get("url")), str(arguments.get("find"))) for arguments in sight.used("read_page")}
    parts = [url for url in _candidates(sight, task.subject) if url in sight.partly_shown]
    wanted = [(url, missing[0]) for url in parts if (url, missing[0]) not in tried]
    return [sight.use("read_page", url=url, find=term) for url, term in wanted[:3]]


def evidence(sight: Sight, task: Assignment) -> list[Evidence]:
    """Find the sentences of opened pages that answer the question, one per page for each thing."""
    opened = _opened(sight)
    found: dict[tuple[str, str], Evidence] = {}
    for passage, one in _stated(sight, task.wanted, _name(task.subject)):
        if passage.tool != "search" and passage.address in opened:
            found.setdefault((one.wanted, passage.address), one)
    return list(found.values())


def _stated(sight: Sight, wanted: Sequence[str], name: str = "") -> Iterator[tuple[Passage, Evidence]]:
    """Find the sentences that contain a name and mention something wanted."""
    for passage in sight.shown:
        for sentence in sentences(passage.text):
            if name in sentence and sentence[-1] in _ENDS:
                for term in wanted:
                    if speaks_of(sentence, term):
                        yield passage, Evidence(term, sentence, passage.ref)


def _missing(sight: Sight, task: Assignment) -> list[str]:
    known = {one.wanted for one in evidence(sight, task)}
    return [term for term in task.wanted if term not in known]


def research_answer(sight: Sight, task: Assignment) -> ScriptedReply:
    """Answer from the pages that were opened."""
    found = evidence(sight, task)
    missing = [f"{task.subject}: {term} is not stated on the pages that were read." for term in _missing(sight, task)]
    if task.each:
        for name in listed_names(found):
            part = Assignment(name, (task.each,))
            found += evidence(sight, part)
            missing += [f"{name}: no page names the {term}." for term in _missing(sight, part)]
    return conclude(sight, found, missing)


def read_documents(sight: Sight, task: Assignment) -> list[ToolUse]:
    """Search the documents for each thing, then read around the places found."""
    if not sight.used("search_documents"):
        return [sight.use("search_documents", query=term) for term in task.wanted]
    if sight.used("read_document"):
        return []
    places = [place for one in sight.shown if (place := _PLACE.match(one.whole))]
    best = {place["document"]: place for place in reversed(places)}
    first = {document: max(int(place["first"]) - 2, 1) for document, place in best.items()}
    return [
        sight.use("read_document", document=document, first=start, last=start + 40)
        for document, start in list(first.items())[:2]
    ]


def reader_answer(sight: Sight, task: Assignment) -> ScriptedReply:
    """Answer from the passages that were shown."""
    found = dict.fromkeys(one for _, one in _stated(sight, task.wanted))
    known = {one.wanted for one in found}
    missing = [f"The documents do not say anything on: {term}." for term in task.wanted if term not in known]
    return conclude(sight, list(found), missing)


def compute(sight: Sight, task: Assignment) -> list[ToolUse]:
    """Write one SELECT over the listed table whose columns contain the words of the measure."""
    del task
    asked = _MEASURE.search(sight.task)
    if asked is None or sight.used("query_data"):
        return []
    for table in _TABLE.finditer(sight.task):
        columns = re.findall(r"(\w+) [A-Z]{2,}", table["columns"])
        measure = next((name for name in columns if speaks_of(name.replace("_", " "), asked["measure"])), "")
        group = next((name for name in columns if speaks_of(name.replace("_", " "), asked["group"])), "")
        if measure and group:
            sql = f'SELECT {group}, SUM({measure}) AS total FROM "{table["name"]}" GROUP BY 1 ORDER BY 2 DESC'
            return [sight.use("query_data", sql=sql)]
    return []


def analyst_answer(sight: Sight, task: Assignment) -> ScriptedReply:
    """State every row, and the query that returned it."""
    del task
    asked = _MEASURE.search(sight.task)
    found: list[Evidence] = []
    for passage in sight.shown:
        rows = [line.split(" | ") for line in passage.text.strip().splitlines() if " | " in line]
        found += [
            Evidence(asked["measure"] if asked else "", " | ".join(row), passage.ref)
            for row in rows[1:]
            if len(row) == 2
        ]
    return conclude(sight, found, [] if found else ["No table holds the figures."])


def given_claims(text: str) -> list[Claim]:
    """Read the claims of outcomes: list lines that name a source in brackets."""
    lines = re.findall(r"^[-*] (.+?) \[([^\]\n]+)\]", text, flags=re.MULTILINE)
    return list(dict.fromkeys(Claim(claim, ref.split(", ")[0]) for claim, ref in lines if ref != "no source"))


def conclude(sight: Sight, found: Sequence[Evidence], missing: Sequence[str]) -> ScriptedReply:
    """Answer with what was found, each sentence with its ref, and name what is missing."""
    status = "success" if not missing else "partial" if found else "no_answer"
    return sight.answer(
        status=status,
        content="\n\n".join(f"{one.sentence} [{one.ref}]" for one in found) or "Nothing that was read answers this.",
        findings=[
            {"claim": one.sentence, "source_refs": [one.ref], "quote": one.sentence, "confidence": 90} for one in found
        ],
        confidence={"success": 90, "partial": 60, "no_answer": 20}[status],
        gaps=list(missing),
        message="" if status == "success" else " ".join(missing),
        issues=[],
    )


AGENTS: Final[Mapping[str, tuple[Step, Answer]]] = {
    "researcher": (research, research_answer),
    "reader": (read_documents, reader_answer),
    "analyst": (compute, analyst_answer),
}
"""By agent name in the system text: what the agent does next, and what it answers."""
