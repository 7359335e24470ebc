"""Every regular expression of the product takes linear time, whatever it is given.

Each is run on texts made of the characters that it mentions, which is what makes a pattern go back again and again. The
processor time at one length tells: a linear pattern takes a twentieth of the limit, a quadratic one a multiple.
"""

import ast
import re
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# The standard library's own parser, which has no public name and no types.
codes: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("activities", "workflows", "worker", "client/src", "cli/src", "plugins/src", "crews")
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
"""Where the operand of each part of a pattern holds the part within it."""


class Use(NamedTuple):
    """A pattern, and how it is used."""

    place: str
    pattern: re.Pattern[Any]
    method: str


def _uses() -> Iterator[Use]:
    files = (each for folder in _FOLDERS for each in (_ROOT / folder).rglob("*.py"))
    for path in sorted(each for each in files if "tests" not in each.parts):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        methods: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _METHODS:
                methods.setdefault(node.value.id, set()).add(node.attr)
        names = {id(value): name for name, value in _assigned(ast.walk(tree))}
        constants = _constants(tree)
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args):
                continue
            called = ast.unparse(node.func).removeprefix("re.")
            if called != "compile" and called not in _METHODS:
                continue
            place = f"{path.relative_to(_ROOT)}:{node.lineno}"
            pattern = _compiled(node, constants, called)
            if pattern is None:
                continue
            used = {called} if called != "compile" else methods.get(names.get(id(node), ""), set())
            searches = not used or bool(used & _SEARCHES)
            yield Use(place, pattern, "search" if searches else "fullmatch" if used == {"fullmatch"} else "match")


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """List the names and values of assignments."""
    for node in nodes:
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name):
                yield target.id, node.value


def _evaluate(value: ast.expr, names: dict[str, Any]) -> Any:
    builtins = {"str": str, "sorted": sorted, "len": len}
    return eval(compile(ast.Expression(value), "", "eval"), {"re": re, "__builtins__": builtins}, names)  # our own


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Evaluate the texts that a module's patterns are built from."""
    found: dict[str, Any] = {}
    for name, value in _assigned(tree.body):
        try:
            found[name] = _evaluate(value, found)
        except Exception:  # noqa: BLE001  # what is not a constant is no part of a pattern
            continue
    return found


def _compiled(call: ast.Call, constants: dict[str, Any], called: str) -> re.Pattern[Any] | None:
    flags = call.args[1] if called == "compile" and len(call.args) > 1 else None
    flags = next((each.value for each in call.keywords if each.arg == "flags"), flags)
    try:
        return re.compile(_evaluate(call.args[0], constants), _evaluate(flags, constants) if flags else 0)
    except Exception:  # noqa: BLE001  # made of values that are known only at run time
        return None


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
    """Make texts that a pattern accepts for long, and then not."""
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
def test_every_pattern_is_linear() -> None:
    """No pattern takes more than 5 ms of processor time for 3,000 characters that it was made for."""
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
def test_a_quadratic_pattern_is_found() -> None:
    """The texts expose a pattern whose time grows with the square of their length, or faster, on a fast machine too."""
    for pattern in (r"\w{3,}ed", r"\s+$", r"(?:\. ?){5,}\d$", r"://[^/]+:[^/]+@", r"(?:\w+,?)x"):
        use = Use("", re.compile(pattern), "search")
        texts = _texts(use.pattern, length=2 * _LENGTH)
        assert any(_seconds(use, text, tries=1) >= _MOST_SECONDS for text in texts), pattern
