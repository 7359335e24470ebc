"""What a request asks: its separate questions, and which of them are about sums, summaries or an earlier answer."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from activities.documents.catalog import Catalog, DocumentEntry
from activities.models.extractive.wording import Word, one_line, read_words, stem, word_set

_ASKING: Final = r"(?:how|what|which|who|whom|whose|when|where|why)"
_ORDERING: Final = (
    r"(?:list|show|give|find|compare|summari[sz]e|describe|explain|tell|count|calculate|compute|name|identify|rank|sum|add"
    r"|provide|outline|extract|quote|check|determine|report|write|draft|analy[sz]e|review|state|plot|break|search|look)"
)
_AUXILIARY: Final = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|may|must|should|will|would)"
_REQUEST: Final = re.compile(
    rf"(?:please\s+|can you\s+|could you\s+|and\s+|also,?\s+|then\s+)*(?:{_ASKING}|{_ORDERING}|{_AUXILIARY})\b",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+", re.MULTILINE)
_INLINE_ITEM: Final = re.compile(r"(?:^|(?<=[\s:;,.?]))\(?\d{1,2}[.)]\s+(?=\w)")
_SENTENCE_END: Final = re.compile(
    r"(?<=[?!])[\"”’)]*\s+"
    r"|(?<!\b[A-Za-z]\.)(?<!\bNo\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bMs\.)(?<!\bMrs\.)"
    r"(?<=\.)[\"”’)]*\s+(?=[\"“A-Z0-9])"
    r"|;\s*|\n\s*\n"
)
_JOINED: Final = re.compile(
    r"\s*,?\s+(?:and|as well as|but|then)\s+(?:also\s+|then\s+)?"
    rf"(?=(?:{_ASKING}|(?:on|in|by|at|for|to)\s+(?:which|what|whom)|{_ORDERING})\b)"
    r"|\s*,\s+(?=(?:how|what|who|when|where|why)\b)",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"\b(?:see|know|explain|describe|say|says|show|tell me|depending on|of|about|between"
    r"|how|what|which|who|when|where|why)$",
    re.IGNORECASE,
)
"""Ends of what cannot be a question yet."""
_LEAD: Final = re.compile(
    r"^(?:(?:and|also|then|finally|lastly|secondly|additionally|plus|next)\b,?\s+)+", re.IGNORECASE
)
_SUMMARY: Final = re.compile(
    r"\b(?:summari[sz]e|summary|overview|outline|gist|tl;?dr|main points?|key points?|key takeaways|main topics?"
    r"|main findings"
    r"|what(?:'s|’s| is| are)\s+(?:this|these|that|the|it|all)\b.{0,60}\babout)\b",
    re.IGNORECASE | re.DOTALL,
)
_CONTENTS: Final = re.compile(
    r"\bwhat(?:'s|’s| is| does| do| are)\b.{0,40}\b(?:in|inside|contain|contents?|columns?|fields?)\b"
    r"|\b(?:what|which|list|show|describe)\b.{0,20}\bcolumns?\b|\b(?:describe|profile)\b",
    re.IGNORECASE | re.DOTALL,
)
_TABLE_WORDS: Final = word_set("table tables sheet sheets spreadsheet workbook csv xlsx dataset file data")
_CONTENT_WORDS: Final = frozenset(
    stem(word) for word in word_set("contain contains content contents column columns field fields profile describe")
)
_SUMMARY_WORDS: Final = frozenset(
    stem(word)
    for word in word_set(
        """
    summarise summarize summary summaries overview outline gist tldr main point points key takeaways topic
    topics findings short brief briefly contents content folder paper papers article text texts document
    documents file files report reports important everything whole page pages entire sentences bullet bullets
    sheet table tables data dataset quick
    """
    )
)
_POINTERS: Final = re.compile(
    r"\b(?:its|it|their|they|them|his|her|(?:that|this|those|these|the same)\s+(?!is\b|are\b|was\b)\w+)\b",
    re.IGNORECASE,
)
_RULE_WORDS: Final = re.compile(
    r"\b(?:should|must|shall|allowed|permitted|required?|policy|procedures?|rules?|instructions?|steps?|supposed|say|says|said|stated?"
    r"|according|handbook|manual|why|how (?:do|does|can|to))\b",
    re.IGNORECASE,
)


_STORY: Final = re.compile(r"\bwhat happened\b|\bwhy\b|\bshould (?:we|i|you|they|one)\b|\brecommend", re.IGNORECASE)
_ARRANGEMENT: Final = re.compile(
    r"\bhow (?:often|long) (?:is|are|does|do|can|may|must|should)\b|\bhow (?:many|much)\b.{0,60}?\b(?:can|may)\b",
    re.IGNORECASE,
)
_OVER_ALL: Final = re.compile(r"\b(?:average|mean|total|most|least|longest|shortest|in all)\b", re.IGNORECASE)
_WRITING: Final = re.compile(
    r"(?:please\s+|can you\s+|could you\s+)*(?:draft|write|compose|prepare|create|make)\s+"
    r"(?:(?:me|us|up)\s+)?(?:an?|the|some)\s+(?:\w+\s+){0,3}?"
    r"(?:email|e-mail|mail|letter|memo|text|article|post|speech|press release|announcement|message|presentation|brief"
    r"|briefing|report|statement|story|essay|paragraph|proposal)\b.{0,60}?"
    r"\b(?:about|on|regarding|concerning|explaining|describing|that says|which says)\s+(?P<topic>.{3,})",
    re.IGNORECASE | re.DOTALL,
)


def split_questions(goal: str) -> tuple[str, ...]:
    """Cut a request into the questions that can be answered one by one, in the user's own words."""
    pieces: list[str] = []
    are_items = False
    for part in _items(goal):
        are_items = are_items or part[1]
        pieces += [piece for piece in _SENTENCE_END.split(part[0]) if piece and read_words(piece)]
    is_list = ";" in goal or (are_items and not any(_is_request(piece) for piece in pieces))
    requests = pieces if is_list else [piece for piece in pieces if _is_request(piece)] or pieces
    questions = [question for piece in requests for question in _parts(one_line(piece))]
    unique = dict.fromkeys(question for question in questions if read_words(question))
    return tuple(unique) or (one_line(goal),)


def _items(goal: str) -> list[tuple[str, bool]]:
    """Cut lists into items; what stands before the first item only announces them."""
    for pattern in (_ITEM, _INLINE_ITEM):
        starts = [match.span() for match in pattern.finditer(goal)]
        if len(starts) >= 2:
            lead = goal[: starts[0][0]].strip()
            ends = [start for start, _ in starts[1:]] + [len(goal)]
            items = [(goal[start:end].strip(" \n;,"), True) for (_, start), end in zip(starts, ends, strict=True)]
            is_announcement = not lead or lead.endswith(":") or not _is_request(lead)
            return items if is_announcement else [(lead, False), *items]
    return [(goal, False)]


def _is_request(piece: str) -> bool:
    return piece.rstrip(' "”’)').endswith("?") or bool(
        _REQUEST.match(piece.strip()) or re.search(rf"(?i),\s*{_ASKING}\b", piece)
    )


def _parts(piece: str) -> list[str]:
    """Cut `which vessel …, and how many …` where a new question begins."""
    parts: list[str] = []
    rest = piece
    searched = 0
    while match := _JOINED.search(rest, searched):
        before, after = rest[: match.start()].strip(" ,"), rest[match.end() :].strip()
        is_clear = len(read_words(before)) >= 3 and len(read_words(after)) >= 3 and _is_request(before)
        if not is_clear or _OPEN.search(before):
            searched = match.end()
            continue
        parts.append(before)
        rest, searched = after, 0
    cut = [_LEAD.sub("", part) or part for part in (*parts, rest.strip(" ,"))]
    # "and what happened then?" says nothing alone: it is asked together with what stands before it.
    return [part if any(word.is_content for word in read_words(part)) else piece for part in cut]


def is_summary(question: str, catalog: Catalog) -> bool:
    """Whether a question wants to know what documents are about, rather than something in them."""
    asks_for_contents = bool(_CONTENTS.search(question)) and any(
        word.lower in _TABLE_WORDS for word in read_words(question)
    )
    if not _SUMMARY.search(question) and not asks_for_contents:
        return False
    names = {word.stem for entry in catalog.documents for word in read_words(entry.name)}
    left = [
        word
        for word in read_words(question)
        if word.is_content
        and word.stem not in _SUMMARY_WORDS
        and word.stem not in names
        and not (asks_for_contents and word.stem in _CONTENT_WORDS)
    ]
    return not left


def is_about_rules(question: str) -> bool:
    """Whether a question asks what is written, rather than what is recorded."""
    return bool(_RULE_WORDS.search(question))


def asks_for_a_story(question: str) -> bool:
    """Whether no figure can answer: what happened, why, what to do."""
    return bool(_STORY.search(question))


def asks_for_an_arrangement(question: str) -> bool:
    """Whether a question is about how things are meant to be: tables record how they were."""
    return bool(_ARRANGEMENT.search(question)) and not _OVER_ALL.search(question)


def asks_to_write(question: str) -> str:
    """Find what a text that is to be written is about; empty if none is to be written."""
    match = _WRITING.match(question)
    return match["topic"].strip() if match else ""


def points_back(question: str) -> bool:
    """Whether a question says `its` or `that vessel` of something it does not name."""
    return bool(_POINTERS.search(question))


def pointed(question: str, label: str) -> str:
    """Put a name where a question points back."""

    def named(match: re.Match[str]) -> str:
        return f"{label}'s" if match.group().lower() in {"its", "their", "his", "her"} else label

    return _POINTERS.sub(named, question, count=1)


def named_documents(question: str, documents: Sequence[DocumentEntry]) -> tuple[DocumentEntry, ...]:
    """Find the documents that a question names: by file name, or by what the name calls it: `the manual`."""
    lower = question.lower()
    exact = [
        entry for entry in documents if entry.name.lower() in lower or entry.name.lower().rsplit("/", 1)[-1] in lower
    ]
    if exact:
        return tuple(exact)
    words = read_words(question)
    scores = [(_naming(words, entry), entry) for entry in documents]
    best = max((score for score, _ in scores), default=0)
    return tuple(entry for score, entry in scores if score == best > 0)


def _naming(words: Sequence[Word], entry: DocumentEntry) -> int:
    """Count the words by which a question names a document: `the maintenance manual`, `safety bulletin`."""
    own = _telling_name(entry.name)
    if own.isdisjoint(word.stem for word in words):
        return 0
    best = 0
    for head, word in enumerate(words):
        following = words[head + 1].lower if head + 1 < len(words) else ""
        is_named = word.stem in _KINDS or following in _SAYING or (following in _TABLE_WORDS and is_table(entry))
        if word.stem not in own or not is_named:
            continue
        first = head
        while first and words[first - 1].stem in own:
            first -= 1
        is_led = first > 0 and words[first - 1].lower in word_set("the our this that my your their which")
        if is_led or head > first:
            best = max(best, head - first + 1)
    return best


_KINDS: Final = frozenset(
    stem(word)
    for word in word_set(
        """
    manual handbook guide guidelines bulletin minutes policy contract agreement report notice letter memo
    register plan specification spec proposal brochure thesis paper article book readme changelog licence
    license terms regulations rules faq presentation agenda protocol budget invoice
    lease charter syllabus datasheet cookbook
    """
    )
)


_SAYING: Final = word_set(
    "say says state states mention mentions require requires define defines describe describes tell tells"
)


def is_table(entry: DocumentEntry) -> bool:
    """Whether a document is a table, or a workbook of tables."""
    return entry.kind in {"csv", "tsv", "xlsx", "xls", "ods", "parquet"}


def without_names(question: str, documents: Sequence[DocumentEntry]) -> str:
    """Leave out the words that only say in which document to look."""
    for entry in documents:
        question = re.sub(re.escape(entry.name), " ", question, flags=re.IGNORECASE)
        stems = {word.stem for word in _name_words(entry.name)}
        words = read_words(question)
        heads = [
            i
            for i, word in enumerate(words)
            if word.stem in stems and (word.stem in _KINDS or (i + 1 < len(words) and words[i + 1].lower in _SAYING))
        ]
        for head in reversed(heads):
            first = head
            while first and words[first - 1].stem in stems:
                first -= 1
            question = question[: words[first].start] + question[words[head].end :]
    return one_line(question)


def called(question: str, documents: Sequence[DocumentEntry]) -> str:
    """Find the one document all words of whose name stand in a question: `gpl-3.txt` for `the GPL version 3`.

    A name that is an everyday word counts where the next word says what it is: `while.txt` for `the while statement`.
    """
    words = read_words(question)
    said = {word.lower for word in words if word.is_content}
    said |= {word.lower for word, following in pairwise(words) if following.stem in _THINGS}
    found: dict[int, list[str]] = {}
    for entry in documents:
        own = {word.lower for word in _name_words(entry.name)}
        if not entry.problem and own <= said and not all(word.isdigit() for word in own):
            found.setdefault(len(own), []).append(entry.name)
    longest = found[max(found)] if found else []
    return longest[0] if len(longest) == 1 else ""


_THINGS: Final = frozenset(
    stem(word)
    for word in word_set(
        "statement operator keyword command package library module plugin tool function program utility project product"
    )
)


@lru_cache(maxsize=4_000)
def _name_words(name: str) -> tuple[Word, ...]:
    """Words of a document's name without its folders and its ending."""
    return read_words(name.rsplit("/", 1)[-1].rsplit(".", 1)[0])


@lru_cache(maxsize=4_000)
def _telling_name(name: str) -> frozenset[str]:
    return frozenset(word.stem for word in _name_words(name) if word.lower.isalpha() and len(word.lower) > 2)
