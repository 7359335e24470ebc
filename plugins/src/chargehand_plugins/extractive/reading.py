"""What a question asks of one table, as its parts have it: marks, comparisons, and what rows are put together by."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from activities.documents.catalog import Column
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.conditions import Condition, Limit, title_of
from chargehand_plugins.extractive.lexicon import Token
from chargehand_plugins.extractive.periods import Calendar, calendar_of, is_day, read_calendar
from chargehand_plugins.extractive.vocabulary import Part, Vocabulary

SUPPOSED: Final = 4
"""What it costs to take a column for what no word names."""
LENGTHS: Final = {"days": 10, "months_of": 7, "years": 4}
"""How long moments are by which rows are put together."""
_NEAR: Final = 3
"""How many words may stand between a number and the column that it compares."""


class Group(NamedTuple):
    """What rows are put together by: a column, or the days, months or years of one."""

    column: Column
    sql: str
    is_period: bool = False
    word: str = ""
    """The stem of the word that names it."""


class Reading:
    """How the parts of a question make figures of one table."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._parts = _without_joints(vocabulary.parts)
        self._columns = vocabulary.table.columns
        marks = [part.mark for part in self._parts if part.mark]
        self._openers = [lexicon.OPENERS[mark] for mark in marks if mark in lexicon.OPENERS]
        self._is_amount = "amount" in marks
        self._wants_names = "which" in marks and vocabulary.language in {"en", "de"}
        self._aggregates = [mark for mark in marks if mark in lexicon.AGGREGATES]
        if {"which", "count"} <= set(self._openers):
            # `what is the average number of …` asks for the average, and `what is the number of …` counts.
            self._openers.remove("count" if self._aggregates else "which")
        if "list" in self._openers:
            self._openers = ["list"]
        if "share" in self._aggregates:
            self._openers, self._is_amount = [], False
        self._opener = self._openers[0] if self._openers else ""
        self._is_total = "sum" in self._aggregates and len(self._aggregates) > 1
        ranked = [mark for mark in self._aggregates if mark != "sum" or not self._is_total]
        self._aggregate = ranked[0] if ranked else ""
        self._per = next((at for at, part in enumerate(self._parts) if part.mark == "per" and self._divides(at)), None)
        self._is_distinct = "distinct" in marks
        self._parts = [part for part in self._parts if part.mark != "distinct"]
        bare = [part for part in self._parts if part.mark in {"and", "or"}]
        self._is_clear = (
            len(self._openers) <= 1
            and len(ranked) <= 1
            and not bare
            and bool(self._opener or self._aggregate)
            and sum(part.period is not None for part in self._parts) <= 1
            and self._are_relations_true()
        )
        self.words = [
            token
            for part in self._parts
            if part.is_word
            for token in part.tokens
            if part.column or not (vocabulary.is_empty(token) or self._points_back(part))
        ]

    @property
    def asks(self) -> bool:
        """Whether a question is one of tables by its form: `what` and `how much` may well ask a text."""
        marks = {part.mark for part in self._vocabulary.parts}
        return not marks.isdisjoint(lexicon.AGGREGATES | {"count", "times", "list", "which"})

    @property
    def unknown(self) -> str:
        """The first word that names nothing of the table; empty if all of them do."""
        marks = [part.tokens[0].text for part in self._parts if part.mark in {"and", "or"}]
        unknown = [token.text for token in self.words if not self._vocabulary.is_known(token)]
        return next(iter([*unknown, *marks]), "")

    def _points_back(self, part: Part) -> bool:
        """Whether a word is the `her` of a person whom the question names."""
        is_pointer = lexicon.matches("pointers", part.tokens[0].word)
        return is_pointer and any(each.condition for each in self._parts[: self._parts.index(part)])

    def _divides(self, at: int) -> bool:
        """Whether `per` asks for groups, rather than being part of the name of a price."""
        following = next((part for part in self._parts[at + 1 :] if not self._is_plain(part)), None)
        if following is None or not following.is_word:
            return False
        said, word = self._parts[at].tokens[0].word, following.tokens[0].stem
        titles = [
            {each.word for each in lexicon.read_tokens(title_of(c).replace("_", " "), self._vocabulary.language)}
            for c in self._columns
        ]
        stems = [{each.stem for each in self._vocabulary.title(column)} for column in self._columns]
        return not any(said in title and word in stem for title, stem in zip(titles, stems, strict=True))

    def _is_plain(self, part: Part) -> bool:
        return part.is_word and not part.column and all(map(self._vocabulary.is_empty, part.tokens))

    def _are_relations_true(self) -> bool:
        """Whether `from` and `to` stand before values of columns that say where something comes from, and goes."""
        for at, part in enumerate(self._parts):
            held = part.condition
            before = [each for each in self._parts[max(0, at - 2) : at] if self._is_plain(each)]
            said = {token.word for each in before for token in each.tokens} & {"from", "to"}
            if held and held.is_value and self._vocabulary.language == "en":
                is_origin = self._vocabulary.has(held.column, "origins")
                if ("from" in said and not self._vocabulary.has(held.column, "from")) or ("to" in said and is_origin):
                    return False
        return True

    def _limits(self) -> list[Condition] | None:
        """Write the comparisons; None if it is not clear what is compared."""
        found: list[Condition] = []
        for at, part in enumerate(self._parts):
            if limit := part.limit:
                column = self._compared(at, limit)
                if column is None:
                    return None
                name = f'CAST("{column.name}" AS TIME)' if limit.is_time else f'"{column.name}"'
                sql = " AND ".join(f"{name} {sign} {end}" for sign, end in limit.sides)
                found.append(Condition(column, sql, f"{title_of(column)} {limit.text}"))
        return found

    def _compared(self, at: int, limit: Limit) -> Column | None:
        """Find the column that the words at a comparison name, those after it first."""
        vocabulary = self._vocabulary
        able = [
            column
            for column in self._columns
            if column != limit.against
            and (column.type.startswith("TIME") if limit.is_time else vocabulary.is_number(column))
        ]
        for places in (self._parts[at + 1 : at + 1 + _NEAR], self._parts[max(0, at - _NEAR) : at]):
            tokens = [t for part in [self._parts[at], *places] if part.is_word or part.limit for t in part.tokens]
            tokens = [token for token in tokens if token.word[0].isalpha() or token.word in "%€$£"]
            costs = {
                column.name: min((self._cost_of(column, token) for token in tokens), default=SUPPOSED)
                + self._unsaid(column, tokens)
                for column in able
            }
            nearest = [column for column in able if costs[column.name] == min(costs.values()) < SUPPOSED]
            if len(nearest) == 1:
                return nearest[0]
        if limit.against:
            units = vocabulary.units(limit.against)
            alike = [column for column in able if vocabulary.units(column) == units]
            able = [column for column in alike if not vocabulary.has(column, "priced")]
        if limit.is_time:
            return able[0] if able and (len(able) == 1 or able[0] == vocabulary.key) else None
        able = [column for column in able if not vocabulary.has(column, "identifiers")]
        following = self._parts[at + 1 : at + 2]
        if any(part.condition and part.condition.column == vocabulary.currency for part in following):
            return vocabulary.amount
        is_named = limit.against or any(part.limit for part in following)
        return able[0] if len(able) == 1 and is_named else None

    def _cost_of(self, column: Column, token: Token) -> int:
        cost = self._vocabulary.cost(column, token)
        return SUPPOSED if cost is None else cost

    def _unsaid(self, column: Column, tokens: Sequence[Token]) -> float:
        """Count half a step for a title that is not said in full."""
        said = {token.stem for token in tokens}
        return 0 if all(word.stem in said for word in self._vocabulary.title(column)) else 0.5

    def _groups(self) -> list[Group]:
        """List what the words after `which`, `list` or `per` may name: columns, the rows, or a unit of time."""
        vocabulary = self._vocabulary
        if self._per is None and self._opener in {"who", "where"}:
            name = "persons" if self._opener == "who" else "places"
            named = {group.sql: group for part in self._parts if part.is_word for group in self._named_by(part)}
            able = [_group_of(each) for each in self._columns if vocabulary.has(each, name) and self._is_name(each)]
            able = [group for group in able if not vocabulary.is_identifier(group.column)] or able
            asked = [group for group in able if group.sql in named]
            named_all = [group for group in named.values() if self._opener == "who" and not group.is_period]
            return asked or able or named_all
        if self._per is None and self._opener not in {"which", "list", "when"}:
            return []
        start = self._per
        if start is None:
            start = next(at for at, part in enumerate(self._parts) if lexicon.OPENERS.get(part.mark) == self._opener)
        following = [part for part in self._parts[start + 1 :] if not part.mark and not self._is_plain(part)]
        found: dict[str, Group] = {}
        if following and following[0].condition and vocabulary.key:
            found[vocabulary.key.name] = _group_of(vocabulary.key)
            following = following[1:]
        for part in following[:1] if self._opener != "when" else following:
            for group in self._named_by(part):
                found[group.sql] = group
        return list(found.values())

    def _is_name(self, column: Column) -> bool:
        return not self._vocabulary.is_number(column)

    def _named_by(self, part: Part) -> Iterator[Group]:
        vocabulary = self._vocabulary
        if part.column:
            yield _group_of(part.column)
        elif part.is_word:
            [token] = part.tokens
            for column in self._columns:
                is_named = vocabulary.cost(column, token) is not None
                if is_named and (self._is_name(column) or self._per is not None) and not vocabulary.is_money(column):
                    yield _group_of(column, token.stem)
            if vocabulary.key and vocabulary.cost_of_rows(token) is not None:
                yield _group_of(vocabulary.key, token.stem)
            length = next((long for name, long in LENGTHS.items() if lexicon.matches(name, token.word)), 0)
            calendar = self._calendar(None)
            is_column = any(vocabulary.cost(column, token) == 0 for column in self._columns)
            if calendar and 0 < length < calendar.length and not is_column:
                yield Group(calendar.column, calendar.part(1, length), is_period=True, word=token.stem)

    def _calendar(self, measure: Column | None) -> Calendar | None:
        """Find the column that dates the rows: the one that the question names, or the only one of what happened."""
        vocabulary = self._vocabulary
        said = {token.stem for part in self._parts for token in part.tokens if part.is_word or part.mark}
        for column in self._columns:
            if vocabulary.is_time(column) and any(vocabulary.cost(column, token) is not None for token in self.words):
                said |= {token.stem for token in vocabulary.title(column)}
        if found := calendar_of(vocabulary.table, frozenset(said), vocabulary.language):
            return found
        days = [column for column in self._columns if is_day(column)]
        begun = [column for column in days if vocabulary.has(column, "begun")]
        is_flow = measure is not None and vocabulary.adds_up(measure) and not vocabulary.has(measure, "states")
        only = begun if len(begun) == 1 else days if is_flow else []
        return read_calendar(only[0]) if len(only) == 1 else None


def _group_of(column: Column, word: str = "") -> Group:
    return Group(column, f'CAST("{column.name}" AS VARCHAR)', read_calendar(column) is not None, word)


def _without_joints(parts: Sequence[Part]) -> list[Part]:
    """Leave out each `and` between two conditions neither of which is a period."""
    return [
        part
        for at, part in enumerate(parts)
        if part.mark != "and" or not (_is_condition(parts[:at][::-1]) and _is_condition(parts[at + 1 :]))
    ]


def _is_condition(parts: Sequence[Part]) -> bool:
    following = next((part for part in parts if not part.is_word), None)
    return following is not None and bool(following.condition or following.limit)
