"""Every prompt as its model reads it, in `docs/prompts`."""

from pathlib import Path

from activities.turn_kinds.registry import TASK_TYPES
from tests.unit.activities.prompt_files import TASKS, prompt_files

GOLDEN = Path(__file__).parents[3] / "docs" / "prompts"
RENEW = (
    "Read the change as the model will, then run `.venv/bin/python -m tests.unit.activities.prompt_files docs/prompts`."
)


def test_prompts_change_only_on_purpose() -> None:
    """Every prompt is the same as the file that was reviewed; every kind of turn has one, and no file is left over."""
    assert prompt_files() == {file.name: file.read_text(encoding="utf-8") for file in GOLDEN.iterdir()}, RENEW
    assert {task.kind for _, task in TASKS.values()} == set(TASK_TYPES)
