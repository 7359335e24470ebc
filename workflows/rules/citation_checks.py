"""What the statements of a text are based on: its citations, and whether its quotations are in the cited sources.

No source is guessed by comparing words: a statement has the sources that its author cited, or none. Code alone
does not prove anything right: it limits how well a statement can be verified, and a judge decides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from heapq import nlargest
from itertools import islice
from typing import Final, Literal, get_args

from activities.contracts.quotations import PASSAGE_GAP, as_compared
from chargehand.contracts import Claim, Finding, Source, Verification
from chargehand.plugins import Hook
from workflows.rules.citations import CITATION, cited_numbers, cited_quotations, is_cited, without_citations
from workflows.rules.claim_words import content, has_number, is_courtesy, not_ended, shared
from workflows.rules.plugin_results import each_of, hook_functions

_WEAKEST_FIRST: Final[Sequence[Verification]] = get_args(Verification)
_WORTH: Final[Mapping[Verification, int]] = {
    "contradicted": 0,
    "unsupported": 20,
    "cited": 60,
    "computed": 100,
    "supported": 100,
}
"""Maximum confidence of a report, by the verification of its weakest claim."""
_MOST_CLAIMS: Final = 300
_CLAIM_CHARACTERS: Final = 600
_LEAST_QUOTATION: Final = 12
"""Minimum characters of an inline quotation; shorter ones are terms or titles."""
_LEAST_BYTES: Final = 6
"""Fewer bytes occur in any text and do not count as a quotation."""
NO_SOURCE: Final = "*(no source)*"

_LIST_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_HEADING: Final = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]|$)|[ \t]*(\*\*|__)[^*_\d]{1,80}(?<![.!?…。])\1[ \t]*$")
"""A line with `#`, or a bold line that is not a sentence."""
_LEAD_IN: Final = re.compile(r"[ \t]*(\*\*|__)[^*_]{1,40}[.:]\1")
"""Bold words at the start of a paragraph, part of its first sentence."""
_RULE: Final = re.compile(r"(?:[-*_][ \t]*){3,}|[ \t:|-]+")
_FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")
_REMARK: Final = re.compile(r"(?:\*[^*]+\*|_[^_]+_|\([^()]+\))[.\s]*")
_SENTENCE_END: Final = re.compile(
    rf"(?<=[.!?…])[\"”’»)*_]*"
    rf"(?:[ \t]*{CITATION.pattern})*(?=[ \t]+[^\s\[])"
    rf"|[。！？][」』”]?(?:{CITATION.pattern})*"
)  # fmt: skip
_QUOTED: Final = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|»([^«»]+)«|「([^「」]+)」|\"([^\"\n]+)\"")
_ATTRIBUTION: Final = re.compile(rf"[—–-][ \t]*(?:{CITATION.pattern}[ \t]*)+$", re.MULTILINE)
_EMPHASIS: Final = re.compile(r"\*{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)|`")
_LOOSE_MARK: Final = re.compile(r" ([.,;:!?。，；：！？])")
_NEAREST: Final = 5
"""Maximum quotations considered for one claim from a source that is cited as a whole."""
_RUN: Final = 12
"""Minimum run of letters that two texts share if one quotes the other."""


@dataclass(frozen=True)
class _Statement:
    text: str
    """The text as written, with its citations."""
    numbers: tuple[int, ...]
    """Numbers of the sources cited for it."""
    is_quotation: bool = False


@dataclass(frozen=True)
class _Block:
    """A paragraph, list item, table row or block quotation, whose statements share its citations."""

    lines: tuple[str, ...]
    last_line: int
    """Its last line in the text."""
    inherits: tuple[int, ...] = ()
    """Source numbers cited by the line that introduces it."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_quotation(self) -> bool:
        return self.lines[0].lstrip().startswith(">")

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        return tuple(cited_numbers(self.text)) if is_cited(self.text) else self.inherits

    @property
    def is_statement(self) -> bool:
        """Whether it states something, rather than being a remark, an introduction or an address."""
        wording = without_citations(self.text).strip()
        is_remark = bool(_REMARK.fullmatch(wording)) or wording.endswith((":", "：", ",", "，"))
        return any(map(str.isalnum, wording)) and not is_remark


@dataclass(frozen=True)
class Evidence:
    """The evidence that a text can be based on."""

    sources: Sequence[Source]
    """In citation order: the first is `[S1]`."""
    quotations: Mapping[str, Sequence[str]]
    """Verified quotations by the source's `ref`: the first is cited as `[S1.1]`."""
    findings: Sequence[Finding] = ()
    """Checked claims of agents, recognised in a text by identical wording."""
    remarks: Sequence[str] = ()
    """Known gaps; stating one is not a claim."""


@dataclass(frozen=True)
class Objection:
    """An objection to a claim found by code, worded for the writer."""

    reason: str
    is_certain: bool = False
    """Whether it is final; any other objection goes to the judge as a separate statement."""


@dataclass(frozen=True)
class CheckedClaim:
    """A claim and its evidence."""

    claim: Claim
    """`unsupported`, or `cited` until a judge decides."""
    sources: Sequence[Source] = ()
    quotes: Sequence[tuple[Source, str]] = ()
    """Quotations that support it, each with its source."""
    missing: Sequence[str] = ()
    """Quoted words that are in none of its sources."""

    @property
    def rests_on(self) -> str:
        """The quotations and results that a judge has to read; empty if there are none."""
        results = [f"{source.title}\n{source.quote}" for source in self.sources if is_computed(source)]
        return PASSAGE_GAP.join(filter(None, [self.claim.quote, *results]))

    @cached_property
    def objections(self) -> tuple[Objection, ...]:
        """Objections raised by plug-ins, and quoted words that were not found."""
        quotations = [quote for source, quote in self.quotes if not is_computed(source)]
        results = [source.quote for source in self.sources if is_computed(source)]
        titles = [source.title for source in self.sources]
        checks = hook_functions(Hook.CLAIM_OBJECTIONS, each_of(Objection)) if quotations or results else ()
        from_plugins = (each for check in checks for each in check(self.claim.text, quotations, results, titles))
        missing = (Objection(f"The source does not contain “{words}”.", is_certain=True) for words in self.missing)
        return (*from_plugins, *missing)

    @property
    def doubts(self) -> str:
        """What a judge still has to decide before the claim counts as verified; empty if nothing."""
        is_open = not any(each.is_certain for each in self.objections)
        return " ".join(each.reason for each in self.objections) if is_open else ""

    @property
    def at_best(self) -> Verification:
        """Its status if a judge confirms it and rejects all objections."""
        if not self.sources or not self.rests_on or any(each.is_certain for each in self.objections):
            return self.claim.verification
        has_words = any(not is_computed(source) for source, _ in self.quotes)
        is_repeated = has_number(self.claim.text) and not has_words and not self.objections
        return "computed" if is_repeated else "supported"

    def as_judged(
        self, verdict: Literal["says", "does_not_say", "contradicts"], reason: str, *, is_doubted: bool
    ) -> Claim:
        """Return the claim as judged; an objection counts unless the judge rejected it."""
        if verdict == "contradicts":
            return self.claim.replace(verification="contradicted", problem=reason)
        if verdict == "does_not_say":
            return self.claim.replace(problem=reason)
        if is_doubted or self.at_best == self.claim.verification:
            problem = " ".join(each.reason for each in self.objections)
            return self.claim.replace(problem=problem[:_CLAIM_CHARACTERS])
        return self.claim.replace(verification=self.at_best)


def claims_of(text: str, evidence: Evidence) -> tuple[CheckedClaim, ...]:
    """List the statements of a text with numbered sources, each with its evidence."""
    findings = {plain(finding.claim): finding for finding in evidence.findings}
    remarks = {plain(remark) for remark in evidence.remarks}
    claims: list[CheckedClaim] = []
    for statement in (statement for block in _blocks(text) for statement in _statements(block)):
        wording = plain(statement.text)
        if wording in remarks or (wording not in findings and _says_nothing(statement)):
            continue
        if len(claims) == _MOST_CLAIMS:
            claims.append(CheckedClaim(Claim(text="The statements after these.")))
            break
        claims.append(_check(statement, evidence, findings.get(wording)))
    return tuple(claims)


def _says_nothing(statement: _Statement) -> bool:
    wording = plain(statement.text)
    return not is_cited(statement.text) and (is_courtesy(wording) or wording.endswith(("?", "？")))


def weakest(claims: Iterable[Claim]) -> Verification | None:
    """Return the weakest verification among claims; None if there are none."""
    there: list[Verification] = [claim.verification for claim in claims]
    return min(there, key=_WEAKEST_FIRST.index, default=None)


def most_confidence(claims: Sequence[Claim]) -> int:
    """Compute the maximum confidence, 0 to 100, of a report with these claims."""
    return sum(_WORTH[claim.verification] for claim in claims) // len(claims) if claims else 100


def is_code(text: str) -> bool:
    """Return whether a block is code, which does not state anything."""
    return any(map(_FENCE.match, text.split("\n")))


def list_uncited(text: str, evidence: Evidence) -> list[str]:
    """List the paragraphs, list items and rows that state something without a citation."""
    return [passage[:_CLAIM_CHARACTERS] for passage, _ in islice(_uncited_blocks(text, evidence), _MOST_CLAIMS)]


def mark_uncited(text: str, evidence: Evidence) -> str:
    """Mark each uncited statement as having no source."""
    lines = text.split("\n")
    for _, block in _uncited_blocks(text, evidence):
        line = lines[block.last_line].rstrip()
        is_row = line.startswith("|") and line.endswith("|") and len(line) > 1
        lines[block.last_line] = f"{line[:-1].rstrip()} {NO_SOURCE} |" if is_row else f"{line} {NO_SOURCE}"
    return "\n".join(lines)


def _uncited_blocks(text: str, evidence: Evidence) -> Iterator[tuple[str, _Block]]:
    known = {plain(finding.claim) for finding in evidence.findings if finding.sources}
    known.update(plain(remark) for remark in evidence.remarks)
    for block in _blocks(text):
        if block.numbers:
            continue
        # One that has more questions and greetings than anyone reads is taken to state something.
        statements = enumerate(_statements(block))
        if any(n == _MOST_CLAIMS or not (_says_nothing(each) or plain(each.text) in known) for n, each in statements):
            yield plain(block.text), block


def assign_by_words(problems: Iterable[str], texts: Sequence[str]) -> list[list[str]]:
    """Assign each problem to the texts that it quotes, or to all texts if it quotes none."""
    runs = [_runs(text) for text in texts]
    assigned: list[list[str]] = [[] for _ in texts]
    for problem in problems:
        own = _runs(problem)
        shared = [len(own & each) for each in runs]
        least = max(shared, default=0) / 2
        for each, count in zip(assigned, shared, strict=True):
            if count >= least:
                each.append(problem)
    return assigned


def _runs(text: str) -> frozenset[str]:
    """List every run of `_RUN` consecutive letters and digits of a text, ignoring all other characters."""
    letters = "".join(filter(str.isalnum, text.casefold()))
    return frozenset(letters[start : start + _RUN] for start in range(len(letters) - _RUN + 1))


def is_computed(source: Source) -> bool:
    """Return whether a source is the result of a query or a program."""
    return source.url is None and source.ref.startswith(("sql:", "code:"))


def stands_in(quote: str, text: str) -> bool:
    """Return whether a text contains a quotation, ignoring white space, hyphens, ligatures and quotes."""
    return len(quote.strip().encode()) >= _LEAST_BYTES and as_compared(quote) in _words(text)


@lru_cache(maxsize=8)
def _words(text: str) -> str:
    """Normalise a source text, cached for all quotations from it."""
    return as_compared(text)


def plain(text: str) -> str:
    """Return a statement without citations, emphasis and list marks."""
    lines = (_LIST_ITEM.sub("", line.strip().lstrip("> "), count=1) for line in without_citations(text).split("\n"))
    words = " ".join(_EMPHASIS.sub("", " ".join(lines)).strip("| \t").split())
    return _LOOSE_MARK.sub(r"\1", words)


def _check(statement: _Statement, evidence: Evidence, finding: Finding | None) -> CheckedClaim:
    sources = [evidence.sources[number - 1] for number in statement.numbers if number <= len(evidence.sources)]
    inline, missing = _inline_quotes(statement, sources, evidence)
    quotes = list(_cited_quotes(statement, evidence))
    if finding is not None and (not sources or not {source.ref for source in sources}.isdisjoint(finding.sources)):
        # A statement identical to an agent's finding has the finding's quotation.
        sources = sources or [source for source in evidence.sources if source.ref in finding.sources]
        quotes += [(source, finding.quote) for source in sources if source.ref in finding.sources[:1] and finding.quote]
    # A source cited as a whole represents what agents quoted from it; all cited sources are evidence.
    text = plain(_ATTRIBUTION.sub("", statement.text))
    named = {source.ref for source, _ in quotes}
    whole = [source for source in sources if source.ref not in named and not (inline and statement.is_quotation)]
    for source in whole:
        there = evidence.quotations.get(source.ref, ())
        nearest = nlargest(_NEAREST, there, key=lambda each: shared(content(text), content(each)))
        quotes += [(source, each) for each in nearest]
    quotes += inline
    claim = Claim(
        text=text[:_CLAIM_CHARACTERS],
        verification="cited" if sources else "unsupported",
        sources=tuple(source.ref for source in sources),
        quote=PASSAGE_GAP.join(dict.fromkeys(quote for _, quote in quotes)),
    )
    return CheckedClaim(claim, sources, quotes, missing)


def _cited_quotes(statement: _Statement, evidence: Evidence) -> Iterator[tuple[Source, str]]:
    for number, position in cited_quotations(statement.text):
        if number <= len(evidence.sources):
            source = evidence.sources[number - 1]
            yield from ((source, quote) for quote in evidence.quotations.get(source.ref, ())[position - 1 : position])


def _inline_quotes(
    statement: _Statement, sources: Sequence[Source], evidence: Evidence
) -> tuple[list[tuple[Source, str]], list[str]]:
    """Find the inline quotations of a statement, each with a source that contains it, and those found in none."""
    if statement.is_quotation:
        # Line by line: between quoted paragraphs or items, the source may contain other words and marks.
        lines = _ATTRIBUTION.sub("", statement.text).split("\n")
        quotes = ["\n".join(filter(None, map(plain, lines)))]
    else:
        quotes = ["".join(match.groups(default="")) for match in _QUOTED.finditer(without_citations(statement.text))]
    quotes = [quote for quote in quotes if len(quote) >= _LEAST_QUOTATION]
    texts = [
        (source, plain(text)) for source in sources for text in (source.quote, *evidence.quotations.get(source.ref, ()))
    ]
    standing = {quote: next((source for source, text in texts if stands_in(quote, text)), None) for quote in quotes}
    return (
        [(source, quote) for quote, source in standing.items() if source],
        [quote for quote, source in standing.items() if source is None],
    )


def _blocks(text: str) -> Iterator[_Block]:
    """Split Markdown into blocks that state something, without headings, rules and code."""
    inherited: tuple[int, ...] = ()
    for block in _cut(text):
        if block.is_statement:
            yield replace(block, inherits=inherited) if _is_introduced(block) else block
        if not _is_introduced(block):
            # Blocks under "All of it from [S1]:" inherit that citation.
            inherited = block.numbers if without_citations(block.text).rstrip().endswith((":", "：")) else ()


def _is_introduced(block: _Block) -> bool:
    return bool(_LIST_ITEM.match(block.lines[0])) or block.lines[0].lstrip().startswith("|")


def _cut(text: str) -> Iterator[_Block]:
    lines = text.split("\n")
    begun: list[str] = []
    in_code = False
    for position, line in enumerate([*lines, ""]):
        is_fence = bool(_FENCE.match(line))
        in_code ^= is_fence
        is_text = not (in_code or is_fence or _states_nothing(line, "".join(lines[position + 1 : position + 2])))
        if begun and (not is_text or _begins(line, begun[0])):
            yield _Block(tuple(begun), position - 1)
            begun = []
        if is_text:
            begun.append(line)


def _states_nothing(line: str, following: str) -> bool:
    """Return whether a line is empty, a heading, a rule or a table header."""
    bare, after = line.strip(), following.strip()
    is_table_head = bare.startswith("|") and "-" in after and bool(_RULE.fullmatch(after))
    return not bare or is_table_head or bool(_HEADING.match(line) or _RULE.fullmatch(bare))


def _begins(line: str, first: str) -> bool:
    """Return whether a line begins a new block after the one with this first line."""
    is_item = bool(_LIST_ITEM.match(line)) or line.lstrip().startswith("|")
    return is_item or line.lstrip().startswith(">") != first.lstrip().startswith(">")


def _statements(block: _Block) -> Iterator[_Statement]:
    if block.is_quotation or block.lines[0].lstrip().startswith("|"):
        yield _Statement(block.text, block.numbers, block.is_quotation)
        return
    start = 0
    text = _LIST_ITEM.sub("", " ".join(block.lines), count=1) if _is_introduced(block) else " ".join(block.lines)
    led_in = lead_in.end() if (lead_in := _LEAD_IN.match(text)) else 0
    inner = {match.end() for match in not_ended().finditer(text)}
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if match.end() > led_in and match.end() not in inner]
    for end in [*ends, len(text)]:
        sentence, start = text[start:end], end
        wording = without_citations(sentence).strip()
        if any(map(str.isalnum, wording)) and not _REMARK.fullmatch(wording):
            # A citation at the end of a paragraph covers the sentences before it, but does not quote them.
            yield _Statement(sentence, tuple(cited_numbers(sentence)) if is_cited(sentence) else block.numbers)
