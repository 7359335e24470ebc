"""Restrictions in a question: times, known values, comparisons with numbers, yes and no."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from activities.models.extractive.periods import MONTHS, Period, find_periods, find_relative
from activities.models.extractive.reading import Condition, Reading
from activities.models.extractive.tables import Field, literal
from activities.models.extractive.wording import STOPWORDS, listed, stem, stems, word_set

_NEGATIONS: Final = word_set("not except excluding exclude without besides non apart isn't wasn't aren't weren't")
_NUMBER: Final = r"[$€£]?\s*(?P<{0}>\d[\d,]*(?:\.\d+)?)\s*(?P<{0}_times>k\b|thousand\b|m\b(?!in)|million\b)?"
_COMPARISONS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), operator)
    for pattern, operator in (
        (r"\bbetween\s+" + _NUMBER.format("low") + r"\s+and\s+" + _NUMBER.format("high"), "between"),
        (r"\b(?:at least|no less than|not less than|minimum of|>=|≥)\s*" + _NUMBER.format("low"), ">="),
        (r"\b(?:at most|no more than|not more than|up to|maximum of|<=|≤)\s*" + _NUMBER.format("low"), "<="),
        (r"(?:\b(?:\w+er|more)\s+than|\bover|\babove|\bexceed\w*|>)\s*" + _NUMBER.format("low"), ">"),
        (r"(?:\b(?:less|fewer)\s+than|\bunder|\bbelow|<)\s*" + _NUMBER.format("low"), "<"),
        (_NUMBER.format("low") + r"(?:\s+[a-z]+)?\s+or\s+(?:more|longer|higher|above|over)\b", ">="),
        (_NUMBER.format("low") + r"(?:\s+[a-z]+)?\s+or\s+(?:less|fewer|shorter|lower|below|under)\b", "<="),
    )
)
_SMALLER: Final = word_set("shorter lower smaller cheaper earlier lighter younger slower")
_WRITTEN: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_IN_MINUTES: Final = {"seconds": 1 / 60, "minutes": 1.0, "hours": 60.0, "days": 1440.0}
_TIME_WORDS: Final = {
    stem(name[:-1]): name for name in _IN_MINUTES
} | {"min": "minutes", "hr": "hours", "h": "hours", "s": "seconds"}  # fmt: skip


def find_conditions(reading: Reading) -> tuple[Condition, ...]:
    """Read all restrictions that the view's columns can carry."""
    return (*_periods(reading), *_comparisons(reading), *_booleans(reading), *_values(reading))


def leftover_conditions(reading: Reading) -> tuple[Condition, ...]:
    """Look for words that nothing answers to in texts of which the catalog shows only a part."""
    texts = [
        field for field in reading.view.fields if field.kind == "text" and (field.is_free_text or not field.is_complete)
    ]
    found: list[Condition] = []
    for i in reading.left_over[:3] if texts and len(reading.left_over) <= 3 else ():
        word = reading.words[i]
        pattern = literal("%" + word.stem.replace("%", "").replace("_", "") + "%")
        sql = " OR ".join(f"{field.sql} ILIKE {pattern}" for field in texts)
        names = listed(field.label for field in texts).replace(" and ", " or ")
        found.append(Condition(f"({sql})", f"{names} contains “{word.text}”", position=i))
    return tuple(found)


def _periods(reading: Reading) -> list[Condition]:
    for start, end in find_relative(reading.text):
        reading.use_span(start, end)
        reading.unplaced.append(reading.text[start:end])
    periods = find_periods(reading.text)
    field = _named_date(reading)
    found: list[tuple[str, Period]] = []
    years: list[Condition] = []
    for period in periods:
        if year := _on_year(reading, period):
            years.append(year)
            continue
        sql = _on_date(field.sql, period) if field else _on_parts(reading, period)
        if sql:
            reading.use_span(period.start, period.end)
            found.append((sql, period))
    if not found:
        return years
    said = listed(period.text for _, period in found).replace(" and ", " or ")
    joined = " OR ".join(sql for sql, _ in found)
    preposition = "" if re.match(r"(?i)since|after|before|until|till|up|from|start|prior|through|by", said) else "in "
    dates = sum(field.kind == "date" for field in reading.view.fields)
    name = f"{field.label} " if field and dates > 1 else ""
    period = Condition(f"({joined})" if len(found) > 1 else joined, f"{name}{preposition}{said}", is_period=True)
    return [period, *years]


def _on_year(reading: Reading, period: Period) -> Condition | None:
    """Read `built before 2010`, where a column of numbers holds years."""
    first = next((i for i, word in enumerate(reading.words) if word.end > period.start), 0)
    for field in reading.view.fields:
        named = [i for i in range(max(0, first - 3), first) if reading.words[i].stem in field.tokens]
        is_year = all(value.isdigit() and 1800 <= int(value) <= 2100 for value in field.column.examples)
        if not named or field.kind != "number" or not field.column.examples or not is_year:
            continue
        parts = [f"{field.sql} >= {period.since.year}"] if period.since else []
        parts += [f"{field.sql} < {period.before.year}"] if period.before else []
        if parts:
            reading.use(named)
            reading.use_span(period.start, period.end)
            said = period.text if period.text[:1].isalpha() else f"in {period.text}"
            return Condition(" AND ".join(parts), f"{field.label} {said}", position=named[0])
    return None


def _named_date(reading: Reading) -> Field | None:
    dates = [field for field in reading.view.fields if field.kind == "date"]
    said = frozenset(word.stem for word in reading.words)
    return max(dates, key=lambda field: field.score(said), default=None)


def _on_date(sql: str, period: Period) -> str:
    if period.since or period.before:
        parts = [f"{sql} >= DATE '{period.since}'"] if period.since else []
        parts += [f"{sql} < DATE '{period.before}'"] if period.before else []
        return "(" + " AND ".join(parts) + ")" if len(parts) > 1 else parts[0]
    if period.month:
        return f"month({sql}) = {period.month}"
    return f"quarter({sql}) = {period.quarter}" if period.quarter else ""


def _on_parts(reading: Reading, period: Period) -> str:
    """Restrict columns that hold only a year, a quarter or a month."""
    wanted = {stem for stem in stems(period.text) if stem not in STOPWORDS}
    for field in reading.view.fields:
        whole = [value for value, value_stems in field.values if field.kind == "text" and set(value_stems) == wanted]
        if whole:
            return f"{field.sql} IN ({', '.join(literal(value) for value in whole)})"
    parts: list[str] = []
    for name, value in (("year", period.year), ("quarter", period.quarter), ("month", period.month)):
        field = next((field for field in reading.view.fields if stem(name) in field.tokens), None)
        if value is None:
            continue
        if field is None:
            return ""
        if field.kind == "number":
            parts.append(f"{field.sql} = {value}")
        else:
            texts = [text for text, value_stems in field.values if _is_part(value_stems, name, value)]
            parts.append(f"{field.sql} IN ({', '.join(literal(text) for text in texts) or 'NULL'})")
    return " AND ".join(parts)


def _is_part(value_stems: tuple[str, ...], name: str, value: int) -> bool:
    said = "".join(value_stems)
    is_month = name == "month" and said[:3] == MONTHS[value - 1][:3]
    return is_month or said in {str(value), f"{value:02}", f"{name[0]}{value}"}


@dataclass(frozen=True)
class _Match:
    position: int
    length: int
    field: Field
    value: str
    is_whole: bool


def _values(reading: Reading) -> list[Condition]:
    matches = sorted(_value_matches(reading), key=lambda match: (-match.is_whole, -match.length, match.position))
    taken: dict[int, list[_Match]] = defaultdict(list)
    for match in matches:
        span = range(match.position, match.position + match.length)
        same = taken.get(match.position, [])
        if same and same[0].length == match.length and same[0].is_whole == match.is_whole:
            same.append(match)
        elif all(reading.is_free(i) for i in span):
            reading.use(span)
            reading.values.update(span)
            taken[match.position].append(match)
    by_fields: dict[tuple[tuple[str, ...], bool], list[_Match]] = defaultdict(list)
    for position in sorted(taken):
        group = _nearest_field(reading, taken[position])
        names = tuple(dict.fromkeys(match.field.sql for match in group))
        by_fields[names, _is_negated(reading, position)].extend(group)
    return [_value_condition(group, is_negated) for (_, is_negated), group in by_fields.items()]


def _value_matches(reading: Reading) -> list[_Match]:
    found: list[_Match] = []
    said = {word.stem for word in reading.words}
    for field in reading.view.fields:
        if field.kind == "number" and field.is_key:
            found += _key_matches(reading, field)
        if field.kind != "text":
            continue
        for value, value_stems in field.values:
            if said.isdisjoint(value_stems) or all(part in STOPWORDS for part in value_stems):
                continue
            for i in range(len(reading.words)):
                words = tuple(word.stem for word in reading.words[i : i + len(value_stems)])
                if words == value_stems and _may_be_value(reading, field, i, len(words), value):
                    found.append(_Match(i, len(words), field, value, is_whole=True))
                elif _is_distinctive(reading, field, i, value_stems):
                    found.append(_Match(i, 1, field, value, is_whole=False))
    return found


def _key_matches(reading: Reading, field: Field) -> list[_Match]:
    return [
        _Match(i + 1, 1, field, str(int(following.lower.replace(",", ""))), is_whole=True)
        for i, (word, following) in enumerate(zip(reading.words, reading.words[1:], strict=False))
        if following.lower.replace(",", "").isdigit() and field.likeness(word.stem) == 1.0 and reading.is_free(i + 1)
    ]


def _may_be_value(reading: Reading, field: Field, position: int, length: int, value: str) -> bool:
    """Keep `type`, `5` or `a` from being taken for values by accident."""
    if not all(reading.is_free(i) for i in range(position, position + length)):
        return False
    word = reading.words[position]
    if length > 1:
        return True
    if field.is_free_text:
        return False
    before = reading.words[position - 1] if position else None
    is_named = before is not None and field.likeness(before.stem) > 0
    if word.lower.isdigit() or len(word.lower) == 1:
        return is_named
    names_column = any(word.stem in other.tokens and len(other.tokens) == 1 for other in reading.view.fields)
    return is_named or word.text == value or not names_column


def _is_distinctive(reading: Reading, field: Field, position: int, value_stems: tuple[str, ...]) -> bool:
    """Whether a single word picks out a longer value: `Northgate` for `Northgate Terminal`."""
    word = reading.words[position]
    if len(value_stems) < 2 or len(word.lower) < 4 or word.stem not in value_stems or not word.is_content:
        return False
    if field.is_free_text or len(value_stems) > 5 or not reading.is_free(position) or reading.is_subject(position):
        return False
    if any(other.likeness(word.stem) == 1.0 for other in reading.view.fields):
        return False
    bearers = sum(1 for _, other in field.values if word.stem in other)
    return bearers <= max(1, len(field.values) // 2)


def _nearest_field(reading: Reading, matches: list[_Match]) -> list[_Match]:
    """Prefer the column that is named beside the value; without one, any of the columns may hold it."""
    position, length = matches[0].position, matches[0].length
    around = (position - 1, position - 2, position + length)
    for i in around:
        if 0 <= i < len(reading.words):
            named = [match for match in matches if match.field.likeness(reading.words[i].stem) == 1.0]
            if named:
                return named
    return matches


def _is_negated(reading: Reading, position: int) -> bool:
    before = reading.lower[max(0, position - 3) : position]
    negated = not _NEGATIONS.isdisjoint(before) or before[-2:] == ("other", "than") or before[-1:] == ("no",)
    if negated:
        reading.use(
            i for i in range(max(0, position - 3), position) if reading.lower[i] in {*_NEGATIONS, "other", "no"}
        )
    return negated


def _value_condition(matches: list[_Match], is_negated: bool) -> Condition:  # noqa: FBT001  # a value, not a switch
    fields = {match.field.sql: match.field for match in matches}
    values = tuple(dict.fromkeys(match.value for match in matches))
    parts: list[str] = []
    for sql, field in fields.items():
        held = [match.value for match in matches if match.field.sql == sql]
        written = ", ".join(value if field.kind == "number" else literal(value) for value in dict.fromkeys(held))
        parts.append(f"({sql} IS NULL OR {sql} NOT IN ({written}))" if is_negated else f"{sql} IN ({written})")
    joined = (" AND " if is_negated else " OR ").join(parts)
    names = listed(field.label for field in fields.values()).replace(" and ", " or ")
    said = f"{names} is {'not ' if is_negated else ''}{listed(values).replace(' and ', ' or ')}"
    sole = next(iter(fields.values())).column.name if len(fields) == 1 else ""
    return Condition(f"({joined})" if len(parts) > 1 else joined, said, position=matches[0].position, field=sole)


def _comparisons(reading: Reading) -> list[Condition]:
    found: list[Condition] = []
    spans: list[tuple[int, int]] = []
    for pattern, operator in _COMPARISONS:
        for match in pattern.finditer(reading.text):
            if any(match.start() < end and start < match.end() for start, end in spans):
                continue
            condition = _comparison(reading, match, operator)
            if condition:
                spans.append(match.span())
                found.append(condition)
    return found


def _comparison(reading: Reading, match: re.Match[str], operator: str) -> Condition | None:
    inside = [i for i, word in enumerate(reading.words) if word.start < match.end() and match.start() < word.end]
    if not inside or any(i in reading.used for i in inside):
        return None
    after = inside[-1] + 1
    field = _compared_field(reading, inside[0], after)
    if field is None:
        return None
    unit = _TIME_WORDS.get(reading.words[after].stem if after < len(reading.words) else "", "")
    if unit and field.counts_in not in _IN_MINUTES:
        return None
    factor = _IN_MINUTES[unit] / _IN_MINUTES[field.counts_in] if unit else 1.0
    if not _SMALLER.isdisjoint(reading.lower[i] for i in inside) and operator == ">":
        operator = "<"
    low = _amount(match, "low") * factor
    reading.use(inside)
    if unit:
        reading.use([after])
    reading.use(i for i in range(after, min(after + 3, len(reading.words))) if reading.words[i].stem in field.tokens)
    name, at = field.label + (f" ({field.unit})" if field.unit else ""), inside[0]
    if operator == "between":
        high = _amount(match, "high") * factor
        said = f"{name} between {low:,.12g} and {high:,.12g}"
        return Condition(f"{field.sql} BETWEEN {low:.12g} AND {high:.12g}", said, position=at)
    return Condition(f"{field.sql} {operator} {low:.12g}", f"{name} {_WRITTEN[operator]} {low:,.12g}", position=at)


def _compared_field(reading: Reading, first: int, after: int) -> Field | None:
    measures = [field for field in reading.view.fields if field.is_measure]
    near = [i for i in (*range(first - 1, first - 5, -1), first, after, after + 1) if 0 <= i < len(reading.words)]
    for least in (1.0, 0.5):
        for i in near:
            named = [field for field in measures if field.likeness(reading.words[i].stem) >= least]
            if named:
                if i < first:
                    reading.use([i])
                return named[0]
    return measures[0] if len(measures) == 1 else None


def _amount(match: re.Match[str], name: str) -> float:
    times = (match.group(f"{name}_times") or "").lower()
    factor = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}.get(times, 1.0)
    return float(match.group(name).replace(",", "")) * factor


def _booleans(reading: Reading) -> list[Condition]:
    found: list[Condition] = []
    for field in reading.view.fields:
        if field.kind != "boolean":
            continue
        for i, word in enumerate(reading.words):
            opposite = word.stem.startswith("un") and word.stem[2:] in field.tokens
            if not reading.is_free(i) or not (word.stem in field.tokens or opposite):
                continue
            if i and reading.lower[i - 1] in {"by", "per", "each"}:
                continue
            is_true = opposite == _is_negated(reading, i)
            reading.use([i])
            said = f"{field.label}: {'yes' if is_true else 'no'}"
            found.append(
                Condition(f"{field.sql} = {'TRUE' if is_true else 'FALSE'}", said, position=i, field=field.column.name)
            )
            break
    return found
