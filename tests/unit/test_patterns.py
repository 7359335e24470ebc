"""Every regular expression of the product takes linear time, whatever its input.

Each is run on texts made of the characters that it mentions, which cause the most backtracking. The processor time at
one length is decisive: a linear pattern takes a twentieth of the limit, a quadratic one a multiple.
"""

import ast
import re
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

# The standard library's own parser, which has no public name and no types.
codes: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

_ROOT = Path(__file__).parents[2]
_ROOTS = (*(_ROOT / folder / "src" for folder in ("client", "cli", "plugins")), _ROOT)
_FOLDERS = ("activities", "workflows", "worker", "client/src", "cli/src", "plugins/src")
_LENGTH = 3_000
_MOST_SECONDS = 0.005
_SEARCHES = frozenset({"search", "sub", "subn", "split", "findall", "finditer"})
_METHODS = _SEARCHES | {"match", "fullmatch"}
_BY_CATEGORY = {"DIGIT": "1", "NOT_DIGIT": "a", "SPACE": " ", "NOT_SPACE": "a", "WORD": "a", "NOT_WORD": "."}


_INNER = {
    codes.SUBPATTERN: 3,
    codes.MAX_REPEAT: 2,
    codes.MIN_REPEAT: 2,
    codes.POSSESSIVE_REPEAT: 2,
    codes.ASSERT: 1,
    codes.ASSERT_NOT: 1,
}
"""Index of the nested part in each operand that has one."""


class Use(NamedTuple):
    place: str
    pattern: re.Pattern[Any]
    method: str


def _uses() -> Iterator[Use]:
    files = (each for folder in _FOLDERS for each in (_ROOT / folder).rglob("*.py"))
    for path in sorted(each for each in files if "tests" not in each.parts):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        methods: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _METHODS:
                methods.setdefault(node.value.id, set()).add(node.attr)
        assigned = [each for each in nodes if isinstance(each, ast.AnnAssign | ast.Assign)]
        names = {id(each.value): ast.unparse(_target(each)) for each in assigned}
        calls = [each for each in nodes if isinstance(each, ast.Call) and ast.unparse(each.func).startswith("re.")]
        for call in calls:
            called = ast.unparse(call.func).removeprefix("re.")
            pattern = _compiled(call, path, called) if called in {"compile", *_METHODS} else None
            if pattern is None:
                continue
            used = {called} if called != "compile" else methods.get(names.get(id(call), ""), set())
            method = "search" if not used or used & _SEARCHES else "fullmatch" if used == {"fullmatch"} else "match"
            yield Use(f"{path.relative_to(_ROOT)}:{call.lineno}", pattern, method)


def _target(assignment: ast.AnnAssign | ast.Assign) -> ast.expr:
    return assignment.target if isinstance(assignment, ast.AnnAssign) else assignment.targets[0]


def _compiled(call: ast.Call, path: Path, called: str) -> re.Pattern[Any] | None:
    """Compile a pattern with its module's constants; None if it depends on values known only at run time."""
    flags = call.args[1] if called == "compile" and len(call.args) > 1 else None
    flags = next((each.value for each in call.keywords if each.arg == "flags"), flags)
    arguments = ast.unparse(call.args[0]) + (f", {ast.unparse(flags)}" if flags else "")
    constants = {name: value for name, value in vars(_module(path)).items() if not callable(value)}
    try:
        return eval(f"re.compile({arguments})", constants)  # our own code
    except NameError:
        return None


def _module(path: Path) -> ModuleType:
    parts = path.relative_to(next(each for each in _ROOTS if path.is_relative_to(each))).with_suffix("").parts
    return import_module(".".join(parts).removesuffix(".__init__"))


def _characters(parsed: Any) -> Iterator[str]:
    """List characters that the parts of a pattern accept."""
    for code, value in parsed:
        match code:
            case codes.LITERAL | codes.NOT_LITERAL:
                yield chr(value)
            case codes.RANGE:
                yield chr(value[0])
            case codes.CATEGORY:
                yield next(text for name, text in _BY_CATEGORY.items() if str(value) == f"CATEGORY_{name}")
            case codes.ANY:
                yield "a"
            case codes.BRANCH:
                yield from (each for branch in value[1] for each in _characters(branch))
            case codes.IN | codes.ATOMIC_GROUP:
                yield from _characters(value)
            case _ if code in _INNER:
                yield from _characters(value[_INNER[code]])
            case _:
                pass


def _texts(pattern: re.Pattern[Any], length: int = _LENGTH) -> Iterator[str]:
    """Make texts that a pattern accepts up to near the end."""
    parsed = parser.parse(pattern.pattern, pattern.flags)
    characters = list(dict.fromkeys([*_characters(parsed), "a", " "]))
    begin = "".join(chr(value) if code is codes.LITERAL else "" for code, value in parsed)
    few = characters[:6]
    pumps = [*characters[:30], *(first + second for first, second in islice(product(few, few), 36) if first != second)]
    for start in dict.fromkeys(("", begin)):
        for pump in pumps:
            yield start + pump * (length // len(pump)) + "\x00"


def _seconds(use: Use, text: Any, tries: int = 5) -> float:
    took: list[float] = []
    for _ in range(tries):
        began = time.thread_time()
        run = getattr(use.pattern, use.method)
        run(text)
        took.append(time.thread_time() - began)
        if took[-1] < _MOST_SECONDS:
            break
    return min(took)


@pytest.mark.slow
def test_every_regular_expression_runs_in_linear_time() -> None:
    """None takes over 5 ms of CPU time for 3,000 characters that were designed to slow it down."""
    uses = list(_uses())
    slow: dict[str, str] = {}
    for use in uses:
        for text in _texts(use.pattern):
            given: Any = text.encode("latin-1", "replace") if isinstance(use.pattern.pattern, bytes) else text
            if (took := _seconds(use, given)) >= _MOST_SECONDS:
                slow[use.place] = f"{use.pattern.pattern!r:.60} {took:.2f} s for {text[:12]!r}"
                break

    assert len(uses) > 100
    assert slow == {}


@pytest.mark.slow
def test_quadratic_regular_expressions_are_detected() -> None:
    for pattern in (r"\w{3,}ed", r"\s+$", r"(?:\. ?){5,}\d$", r"://[^/]+:[^/]+@", r"(?:\w+,?)x"):
        use = Use("", re.compile(pattern), "search")
        texts = _texts(use.pattern, length=2 * _LENGTH)
        assert any(_seconds(use, text, tries=1) >= _MOST_SECONDS for text in texts), pattern
