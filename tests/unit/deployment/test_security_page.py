"""The page of hostile tests names tests that exist, and is what its figures say."""

from pathlib import Path

import pytest

from tests.security.page import CLASSES, page

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", CLASSES)
def test_every_test_of_a_class_exists(name: str) -> None:
    """A class cannot hold because a file was renamed."""
    assert [path for path in CLASSES[name].tests if not (ROOT / path).exists()] == []


def test_the_page_is_written_from_its_figures() -> None:
    """Nobody edits it by hand."""
    assert (ROOT / "docs" / "security-tests.md").read_text(encoding="utf-8") == page()
