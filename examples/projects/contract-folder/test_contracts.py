"""The table, with the client's stand-in: no server, no worker, no key."""

import asyncio
import csv
from pathlib import Path

import pytest
from contracts import read_all, write

from chargehand import SessionFailed
from chargehand.wire import ErrorType
from chargehand_plugins.testing import StandInChargehand, StandInScript, report_of


def test_a_row_for_each_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has terms, one is silent on some, one failed; the table has all three, in order."""
    monkeypatch.setattr("contracts.AT_ONCE", 1)  # the stand-in's scripts are for sessions in the order of their starts
    for number in range(3):
        (tmp_path / f"{number}.md").write_text(f"Contract {number}")
    terms = {"supplier": "Brine Ltd", "notice_days": 30}
    chargehand = StandInChargehand(
        StandInScript(report_of("Thirty days.").model_copy(update={"output": terms})),
        StandInScript(report_of("Unclear.").model_copy(update={"output_problems": ("notice_days: is missing",)})),
        StandInScript(SessionFailed("the key is wrong", ErrorType.PROVIDER_REFUSED)),
    )

    rows = asyncio.run(read_all(chargehand, sorted(tmp_path.iterdir())))
    write(rows, tmp_path / "terms.csv")

    with (tmp_path / "terms.csv").open(encoding="utf-8", newline="") as file:
        table = [*csv.DictReader(file)]
    assert [(row["file"], row["supplier"], row["notice_days"]) for row in table] == [
        ("0.md", "Brine Ltd", "30"),
        ("1.md", "", ""),
        ("2.md", "", ""),
    ]
    assert table[1]["problem"] == "notice_days: is missing"
    assert "the key is wrong" in table[2]["problem"]


def test_a_second_run_starts_nothing_again(tmp_path: Path) -> None:
    """A session's id is made of the contract's bytes, whatever the file is called."""
    (tmp_path / "lease.md").write_text("Contract")
    (tmp_path / "copy.md").write_text("Contract")
    chargehand = StandInChargehand(report_of("Thirty days."))

    for _ in range(2):
        asyncio.run(read_all(chargehand, sorted(tmp_path.iterdir())))

    assert len(chargehand.requests) == 1
