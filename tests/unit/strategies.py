"""Hypothesis strategies that are derived from contracts: every field, within its constraints."""

from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import chain
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from hypothesis import Phase, find, reject, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from chargehand.errors import InvalidInput
from chargehand.messages import Row

Model = TypeVar("Model", bound=BaseModel)
Strategy = st.SearchStrategy[Any]

TEXT = st.sampled_from(["", "a", "Größe\n\t夏🚢", "\x00\x1b", '"\\"', "</data>"]) | st.text(max_size=10)
_ANY = settings(phases=[Phase.generate], derandomize=True, database=None)
"""Take the first example that fits; shrinking would take seconds."""
_TYPED = st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), max_size=20)


def contracts(model: type[Model], text: st.SearchStrategy[str] = TEXT) -> st.SearchStrategy[Model]:
    """Build a contract with all of its fields; `text` draws the strings that have no constraint."""
    fields = {name: _values(field.annotation, field.metadata, text) for name, field in model.model_fields.items()}
    return st.builds(partial(_build, model), **fields)


def _build(model: type[Model], /, **fields: Any) -> Model:
    try:
        return model(**fields)
    except InvalidInput as error:
        if not isinstance(error.__cause__, ValidationError) or {each["type"] for each in error.__cause__.errors()} != {
            "value_error"
        }:
            raise
        return reject()  # a rule that relates several fields


def below(kind: type[Model]) -> Iterator[type[Model]]:
    """List the subclasses of a class, at any depth."""
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def example(model: type[Model]) -> Model:
    return find(contracts(model), lambda _: True, settings=_ANY)


def examples(message: Row) -> list[BaseModel]:
    """Build the arguments of an update's handler."""
    return [example(message.takes)] if message.takes else []


def filled(kind: Any, text: str, which: int = 0, ours: Collection[str] = ()) -> Any:  # noqa: PLR0911  # one for each kind of type
    """Build a value of a type with all of its parts, and this text wherever text is allowed.

    `which` chooses among the contracts of each union; fields named in `ours` get one of our own words.
    """
    inner = partial(filled, text=text, which=which, ours=ours)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in {str, JsonValue}:
        return text
    if origin is Annotated:
        return inner(arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin in {Union, UnionType}:
        known = [each for each in arguments if each is not NoneType]
        return inner(known[which % len(known)])
    if origin is not None:
        return origin([[inner(each) for each in arguments] if origin is dict else inner(arguments[0])])
    if issubclass(kind, BaseModel):
        fields = {name: field.annotation for name, field in kind.model_fields.items()}
        texts = {name: "ours" if name in ours else text for name in fields}
        return kind.model_construct(**{name: inner(each, text=texts[name]) for name, each in fields.items()})
    if issubclass(kind, Enum):
        return next(iter(kind))
    return {datetime: datetime(2026, 1, 1, tzinfo=UTC), timedelta: timedelta(minutes=1)}.get(kind) or kind(1)


def json_values(text: st.SearchStrategy[str] = TEXT) -> Strategy:
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
    )


def _values(annotation: Any, metadata: list[Any], text: st.SearchStrategy[str]) -> Strategy:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is JsonValue:
        return json_values(text)
    if origin is Annotated:
        added = (each.metadata if isinstance(each, FieldInfo) else [each] for each in arguments[1:])
        return _values(arguments[0], [*metadata, *chain.from_iterable(added)], text)
    if origin is not None:
        return _generic(origin, arguments, metadata, text)
    if issubclass(annotation, BaseModel):
        return contracts(annotation, text)
    if issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    return _scalars(annotation, metadata, text)


def _generic(origin: Any, arguments: tuple[Any, ...], metadata: list[Any], text: st.SearchStrategy[str]) -> Strategy:
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in {Union, UnionType}:
        return st.one_of([_values(each, metadata, text) for each in arguments])
    if origin is dict:
        return st.dictionaries(*(_values(each, [], text) for each in arguments), max_size=2)
    least = max((each.min_length for each in metadata if getattr(each, "min_length", None)), default=0)
    return st.lists(_values(arguments[0], [], text), min_size=least, max_size=2).map(origin)


def _scalars(kind: type, metadata: list[Any], text: st.SearchStrategy[str]) -> Strategy:
    def limit(*names: str) -> list[Any]:
        return [getattr(each, name) for each in metadata for name in names if getattr(each, name, None) is not None]

    if kind is str:
        return _strings(limit("pattern"), limit("min_length"), metadata, text)
    low, high, above = max(limit("ge", "gt"), default=None), min(limit("le", "lt"), default=None), bool(limit("gt"))
    if kind is Decimal:
        # Two of them can be added, and are exact on the wire up to a million.
        nanodollars = st.integers(int(low or 0) * 10**9 + above, min(int(high or 10**6), 10**6) * 10**9 // 2)
        return nanodollars.map(lambda amount: Decimal(amount).scaleb(-9))
    if kind is timedelta:
        return st.timedeltas((low or timedelta(0)) + above * timedelta(microseconds=1), high or timedelta(days=30))
    if kind is datetime:
        return st.timedeltas(timedelta(0), timedelta(days=36_500)).map(
            lambda age: datetime(1990, 1, 1, tzinfo=UTC) + age
        )
    if kind is int:
        return st.integers((low or 0) + above, 10**9 if high is None else high)
    floats = st.floats(low or 0, high or 1e9, exclude_min=above)
    return {bool: st.booleans(), float: floats, NoneType: st.none(), date: st.dates()}[kind]


def _strings(
    patterns: list[str], shortest: list[int], metadata: list[Any], text: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    if patterns:
        plain = patterns[0].replace(".+", "[a-zé ]+").replace(".*", "[a-zé ]*").replace(r"[^/\s]", "[a-zé]")
        return st.from_regex(plain, fullmatch=True)
    if not any(isinstance(each, AfterValidator) for each in metadata):
        return text.map(lambda drawn: drawn or "a") if shortest else text
    return _TYPED.map(lambda typed: f"goal {typed} end") if shortest else _TYPED
