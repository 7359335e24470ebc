"""The page of hostile tests names tests that exist, and is what its figures say."""

import re
from pathlib import Path

from tests.security.page import CLASSES, page

ROOT = Path(__file__).parents[3]


def test_every_risk_has_a_control_and_a_test() -> None:
    """The page has both OWASP lists whole, and each risk and each attack names tests, all of which exist."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    tables = [each for each in re.split(r"^## ", text, flags=re.MULTILINE) if "| control | test |" in each]
    rows = re.findall(r"^\| (\S.*?) \| \S.* \| (.+) \|$", "\n".join(tables), re.MULTILINE)
    tested = {
        risk: re.findall(r"`((?:plugins/src/[^`]+/)?tests/[^`]+)`", tests)
        for risk, tests in rows
        if tests not in {"test", "---"}
    }

    assert [risk[:5] for risk in tested if re.match(r"(LLM|ASI)\d", risk)] == [
        f"{name}{number:02}" for name in ("LLM", "ASI") for number in range(1, 11)
    ]
    assert [risk for risk, tests in tested.items() if not tests] == []
    assert [test for tests in tested.values() for test in tests if not (ROOT / test).exists()] == []


def test_every_test_of_a_class_exists() -> None:
    """A class cannot hold because a file was renamed."""
    for name in CLASSES:
        assert [path for path in CLASSES[name].tests if not (ROOT / path).exists()] == []


def test_the_page_is_written_from_its_figures() -> None:
    """Nobody edits it by hand."""
    assert (ROOT / "docs" / "security-tests.md").read_text(encoding="utf-8") == page()
