"""Who does what to whom: finds claims that rearrange the words of their source. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

from chargehand_plugins.claim_checks.copies import MOST_TOKENS
from chargehand_plugins.claim_checks.words import SUBJECTS, sides_of
from workflows.rules.citation_checks import Objection
from workflows.rules.claim_words import TOKEN, languages, spoken_in

_STEM: Final = 5
_LEAST_NAME: Final = 3
_CASED: Final = frozenset({"den", "dem", "des"})
"""German articles that show the role of their noun in any position."""
_FIXED_PREPOSITIONS: Final = frozenset({"en", "nl"})
"""Languages in which articles do not change prepositions, as in `à` and `au`."""
_RELATIONS: Final = (("later", "earlier"), ("effect", "cause"), ("contrast",))
"""Phrases before what follows or is denied, and phrases before what comes first."""


@dataclass(frozen=True)
class _Token:
    written: str
    start: int
    is_content: bool
    is_article: bool

    @property
    def stem(self) -> str:
        return self.written.casefold()[:_STEM]


@dataclass(frozen=True)
class _Block:
    """A word with the content words next to it, and what precedes them."""

    stems: frozenset[str]
    article: str
    marker: str
    """Its preposition."""
    is_noun: bool


def role_objections(claim: str, sentences: Sequence[str]) -> Iterator[Objection]:
    """Find claims whose words have other roles than in their source: subject and object, cause and effect."""
    codes = spoken_in(claim, " ".join(sentences[:2]))
    own = _stems(_tokens(claim, codes[0]))
    if len(codes) != 1 or not own:
        return
    for sentence in sentences:
        there = _stems(_tokens(sentence, codes[0]))
        is_near = len(own & there) >= max(2, len(own) - 1) and not _is_flipped(claim, sentence, codes)
        if is_near and (swap := _swap(claim, sentence, codes[0], is_whole=own <= there)):
            # A new word may be a verb that reverses the roles: `A gave B`, so B received from A.
            yield Objection(f"It swaps “{swap[0]}” and “{swap[1]}”.", is_certain=own <= there)
        if _is_crossed(claim, sentence, codes[0]):
            yield Objection("It swaps what its source says before and after the conjunction.", is_certain=True)


def is_in_order(claim: str, sentence: str) -> bool:
    """Whether the words that a claim shares with a sentence are in the same order."""
    code = spoken_in(claim, sentence)[0]
    there, here = _sole(_tokens(sentence, code)), _sole(_tokens(claim, code))
    places = [there[stem] for stem in here if stem in there]
    return places == sorted(places)


def _is_crossed(claim: str, sentence: str, code: str) -> bool:
    """Whether a claim swaps the two sides of `after`, `because` or `but not` relative to a sentence."""
    for phrases in _RELATIONS:
        claim_events, sentence_events = _events(claim, phrases, code), _events(sentence, phrases, code)
        first, last = sentence_events[0] - sentence_events[1], sentence_events[1] - sentence_events[0]
        # A word of both sides may be the place: `The scanner is installed in the mill before the roof is replaced`.
        least = (
            1 if len(phrases) == 1 else max(len(claim_events[0] & first), 1)
        )  # for `but not`, the subject comes first
        if len(claim_events[0] & last) >= least and len(claim_events[1] & first) > len(claim_events[1] & last):
            return True
    return False


def _events(text: str, phrases: tuple[str, ...], code: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of the earlier and of the later event; none if the text does not state an order."""
    matches = ((number, languages()[code].phrases[phrase].search(text)) for number, phrase in enumerate(phrases))
    for number, match in matches:
        if match:
            before, behind = text[: match.start()], text[match.end() :]
            if len(before.split()) < 2:  # `After the fire, it closed`
                behind, _, before = behind.partition(",")
            one, other = _stems(_tokens(before, code)), _stems(_tokens(behind, code))
            return (other, one) if number else (one, other)
    return frozenset(), frozenset()


@lru_cache(maxsize=2048)
def _tokens(text: str, code: str) -> tuple[_Token, ...]:
    common, article = languages()[code].common, languages()[code].phrases["article"]
    than = languages()[code].phrases["than"]
    words = [(match[0], match.start()) for match in TOKEN.finditer(text)]
    if len(words) > MOST_TOKENS:
        return ()
    articles = [bool(article.fullmatch(word)) for word, _ in words]
    return tuple(
        _Token(
            word,
            start,
            len(word) > 1 and not (is_article or than.fullmatch(word) or word.casefold() in common),
            is_article,
        )
        for (word, start), is_article in zip(words, articles, strict=True)
    )


def _stems(tokens: Sequence[_Token]) -> frozenset[str]:
    return frozenset(each.stem for each in tokens if each.is_content)


def _sole(tokens: Sequence[_Token]) -> dict[str, int]:
    """List the position of each word that occurs once."""
    stems = [each.stem for each in tokens]
    return {each.stem: at for at, each in enumerate(tokens) if each.is_content and stems.count(each.stem) == 1}


def _is_flipped(claim: str, sentence: str, codes: tuple[str, ...]) -> bool:
    """Whether one says `more` and the other `less`, in which case the compared things have to be swapped."""
    sides = ((sides_of(each, claim, codes), sides_of(each, sentence, codes)) for each in SUBJECTS[:3])
    return any(claimed and stated and not claimed & stated for claimed, stated in sides)


def _swap(claim: str, sentence: str, code: str, *, is_whole: bool) -> tuple[str, str] | None:
    """Find two words that were swapped around unchanged ones, each now after the other's preposition."""
    own_tokens, source_tokens = _tokens(claim, code), _tokens(sentence, code)
    there, here = _sole(source_tokens), _sole(own_tokens)
    for front, back in combinations([stem for stem in here if stem in there], 2):
        if there[front] > there[back]:
            parts = (own_tokens, here[front], here[back]), (source_tokens, there[back], there[front])
            if _is_swap(*parts, code, is_whole=is_whole):
                return own_tokens[here[front]].written, own_tokens[here[back]].written
    return None


def _is_swap(
    mine: tuple[Sequence[_Token], int, int], theirs: tuple[Sequence[_Token], int, int], code: str, *, is_whole: bool
) -> bool:
    phrases, between = languages()[code].phrases, [part[first + 1 : last] for part, first, last in (mine, theirs)]
    is_compared = all(any(phrases["than"].fullmatch(each.written) for each in part) for part in between)
    common = _stems(between[0]) & _stems(between[1])
    (front, back), (their_front, their_back) = (
        (_block(part, first, common, code), _block(part, last, common, code)) for part, first, last in (mine, theirs)
    )
    named = front.stems | back.stems | their_front.stems | their_back.stems
    own, known = (_stems(part) - named for part in between)
    figures, their_figures = ({each.written for each in part if each.written.isdigit()} for part in between)
    are_nouns = (front.is_noun or their_back.is_noun) and (back.is_noun or their_front.is_noun)
    is_mutual = any(phrases["mutual"].fullmatch(each.written) for part in between for each in part)
    if (is_mutual and not (figures or is_compared)) or figures != their_figures or not (own <= known or known <= own):
        return False
    if not ((common and are_nouns) or (is_compared and (common or is_whole))):
        return False
    moved = ((front, their_back), (back, their_front))
    if code == "de" and any(one.article in _CASED and one.article == other.article for one, other in moved):
        return False
    length = None if code in _FIXED_PREPOSITIONS else 1  # both follow the same preposition
    pairs = ((front, their_front), (back, their_back))
    return all(one.marker[:length] == other.marker[:length] for one, other in pairs)


def _block(tokens: Sequence[_Token], at: int, kept: Collection[str], code: str) -> _Block:
    start = end = at
    while start and tokens[start - 1].is_content and tokens[start - 1].stem not in kept:
        start -= 1
    while end + 1 < len(tokens) and tokens[end + 1].is_content and tokens[end + 1].stem not in kept:
        end += 1
    before = start
    while before and tokens[before - 1].is_article:
        before -= 1
    word = tokens[at].written
    is_written_so = (word[0].isupper() and at > 0) or any(each.is_article for each in tokens[max(at - 2, 0) : at])
    is_other = any(sides_of(each, word, (code,)) for each in SUBJECTS if each != "compass")
    is_marked = before > 0 and not tokens[before - 1].is_content
    return _Block(
        _stems(tokens[start : end + 1]),
        tokens[before].written.casefold() if before < start else "",
        tokens[before - 1].written.casefold().replace("à", "a") if is_marked else "",
        is_noun=is_written_so and not is_other and (len(word) >= _LEAST_NAME or word.isupper()),
    )
