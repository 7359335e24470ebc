"""State is changed only where it lives: by the methods of the object that holds it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WORKFLOWS: Final = Path(__file__).parents[3] / "workflows"
MUTATORS: Final = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
    "sort", "update",
})  # fmt: skip


def foreign_changes(source: str) -> Iterator[str]:
    """List the statements that change a field of anything but `self`."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        match node:
            case ast.Assign() | ast.Delete():
                targets = list(node.targets)
            case ast.AugAssign() | ast.AnnAssign():
                targets = [node.target]
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in MUTATORS:
                targets = [value]
            case _:
                pass
        for target in targets:
            for changed in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if _is_foreign_field(changed):
                    yield f"line {changed.lineno}: {ast.unparse(changed)}"


def _is_foreign_field(target: ast.expr) -> bool:
    while isinstance(target, ast.Subscript):
        target = target.value
    return isinstance(target, ast.Attribute) and not (isinstance(target.value, ast.Name) and target.value.id == "self")


def test_no_module_changes_the_fields_of_another_object() -> None:
    for file in sorted(WORKFLOWS.rglob("*.py")):
        assert list(foreign_changes(file.read_text(encoding="utf-8"))) == []


def test_workflows_use_no_finally() -> None:
    """`finally` also runs when a workflow is evicted; `on_exit` does not."""
    for file in sorted(WORKFLOWS.rglob("*.py")):
        tries = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Try)]
        assert not [f"{file.name}:{node.lineno}" for node in tries if node.finalbody]


def test_the_foreign_field_check_detects_every_kind_of_change() -> None:
    cases = [
        "session.deadline = 1", "session.reviews += 1", "session.ready: bool = True",
        "self.progress.plan = plan", "one, session.plan = plans", "session.answers[id_] = text",
        "del session.questions[id_]", "session.progress.gaps.append(gap)",
    ]  # fmt: skip
    for statement in cases:
        assert len(list(foreign_changes(statement))) == 1
