"""Every prompt as its model reads it, in `docs/prompts`."""

from pathlib import Path

import pytest

from activities.turn_kinds.registry import TASK_TYPES
from tests.unit.activities.prompt_files import TASKS, prompt_files

GOLDEN = Path(__file__).parents[3] / "docs" / "prompts"
RENEW = (
    "Read the change as the model will, then run `.venv/bin/python -m tests.unit.activities.prompt_files docs/prompts`."
)


@pytest.mark.parametrize("name", sorted(prompt_files()))
def test_prompts_change_only_on_purpose(name: str) -> None:
    """Every prompt is the same as the file that was reviewed."""
    assert prompt_files()[name] == (GOLDEN / name).read_text(encoding="utf-8"), RENEW


def test_every_kind_of_turn_has_its_prompt() -> None:
    """A new kind of turn is not forgotten, and no file is left of one that went."""
    assert {task.kind for _, task in TASKS.values()} == set(TASK_TYPES)
    assert {file.name for file in GOLDEN.iterdir()} == set(prompt_files())
