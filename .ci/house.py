"""Check what CONTRIBUTING.md promises of the code; the limits stand in pyproject.toml, [tool.house].

Lines a folder, lines a file and a function, words that users must not read, constants that stand in two places, and
private modules of Temporal's SDK.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_NUMBER: Final = re.compile(r"-?[\d_.]+( (<<|\*) [\d_.]+)*|(timedelta|Decimal)\([^()]*\)")
_READ: Final = ("docs/", "cli/", "client/", "deploy/", "plugins/")
"""Folders with pages that users read; those elsewhere are documents of examples and benchmarks."""
_PRIVATE_SDK: Final = re.compile(r"temporalio(\.\w+)*\._\w+|temporalio\.bridge\b")


class Source:
    """One module, parsed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.lines = self.text.count("\n")
        self.tree = ast.parse(self.text)

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield each function with its length."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield each string that is no docstring, with its line."""
        documentation = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                yield node.lineno, node.value

    def numbers(self) -> Iterator[tuple[str, str]]:
        """Yield the module's constants that are a number or a duration, if two words or more say of what."""
        for node in self.tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                name, value = node.target.id.strip("_"), ast.unparse(node.value)
                if "_" in name and _NUMBER.fullmatch(value):
                    yield name, value

    def private_sdk(self) -> bool:
        """Whether it imports what Temporal's SDK does not promise to keep."""
        return any(
            isinstance(node, ast.ImportFrom) and node.module is not None and _PRIVATE_SDK.match(node.module)
            for node in ast.walk(self.tree)
        )


def tracked(suffix: str) -> list[str]:
    """List the files of the checkout that git tracks, or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{suffix}"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603  # our own command
    return sorted(path for path in listed.stdout.split() if (ROOT / path).is_file())


def is_test(path: str) -> bool:
    """Whether a module is one of the tests, in their folder or in a plug-in's."""
    return path.startswith("tests/") or "/tests/" in path


def problems(limits: Mapping[str, Any], modules: Sequence[Source]) -> Iterator[str]:
    """Yield what is wrong, one line each."""
    product = [each for each in modules if not is_test(each.path) and each.path.startswith(tuple(limits["product"]))]
    tests = sum(each.lines for each in modules if is_test(each.path))
    folders = {
        folder: sum(each.lines for each in product if each.path.startswith(folder)) for folder in limits["product"]
    }
    core = sum(lines for folder, lines in folders.items() if folder in limits["core"])
    sizes = {**folders, "core": core, "product": sum(folders.values()), "tests": tests}
    for name, most in limits["lines"].items():
        if sizes[name] > most:
            yield f"{name}: {sizes[name]:,} lines, {most:,} allowed"
    for each in [*product, *(each for each in modules if is_test(each.path))]:
        if each.lines > limits["file"]:
            yield f"{each.path}: {each.lines} lines, {limits['file']} allowed"
    for each in product:
        for name, length in each.functions():
            if length > limits["function"]:
                yield f"{each.path}: {name} has {length} lines, {limits['function']} allowed"
    yield from _words(limits["words"], product)
    yield from _doubles(product, limits["own_numbers"])
    private = [each.path for each in product if each.private_sdk() and each.path not in limits["private_sdk"]]
    yield from (f"{path}: imports a private module of Temporal's SDK" for path in private)


def _words(unwanted: Sequence[str], product: Sequence[Source]) -> Iterator[str]:
    pattern = re.compile(rf"\b({'|'.join(unwanted)})\b", re.IGNORECASE)
    texts = [(each.path, line, text) for each in product for line, text in each.texts()]
    pages = [path for path in [*tracked(".md"), *tracked(".html")] if path.startswith(_READ) or "/" not in path]
    texts += [
        (path, number, line)
        for path in pages
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), start=1)
    ]
    for path, line, text in texts:
        if found := pattern.search(text):
            yield f"{path}:{line}: says '{found[0]}'; name who or what"


def _doubles(product: Sequence[Source], own: Sequence[str]) -> Iterator[str]:
    homes = defaultdict[tuple[str, str], list[str]](list)
    for each in product:
        for constant in each.numbers():
            homes[constant].append(each.path)
    for (name, value), paths in homes.items():
        if len(paths) > 1 and name not in own:
            yield f"{name} = {value} stands in {' and '.join(paths)}; give it one home"


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["house"]
    wrong = list(problems(limits, [Source(path) for path in tracked(".py")]))
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
