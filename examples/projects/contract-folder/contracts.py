"""The terms of each contract in a folder, as a table: a session for each file, a few at a time.

chargehand up &
python contracts.py folder/of/contracts/*.pdf
"""

import asyncio
import csv
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from chargehand import Chargehand, ChargehandError, Limits, SessionRequest
from chargehand.contracts import Report

GOAL = "What are the terms of this contract, amendments included? Leave empty what it does not say."
AT_ONCE = 4


class Terms(BaseModel):
    """What the table says of a contract; None where the contract is silent."""

    supplier: str | None = None
    ends_on: str | None = None
    notice_days: int | None = None
    liability_cap_eur: float | None = None


class Row(BaseModel):
    """A contract with its terms, or with the reason why there are none."""

    file: str
    terms: Terms = Terms()
    problem: str = ""
    cost_usd: float = 0.0


async def read(chargehand: Chargehand, file: Path) -> Row:
    """Read one contract; the same bytes are the same session, which is found again instead of paid for again."""
    request = SessionRequest(
        goal=GOAL,
        output_schema=Terms.model_json_schema(),
        limits=Limits(budget_usd=0.5, max_turns=12),
    )
    content = await asyncio.to_thread(file.read_bytes)
    session_id = f"terms-{hashlib.sha256(content).hexdigest()[:16]}"
    try:
        session = await chargehand.start(request, documents=[file], session_id=session_id)
        report = await session.result()
    except ChargehandError as error:
        return Row(file=file.name, problem=str(error))
    return _row(file, report)


def _row(file: Path, report: Report) -> Row:
    cost = float(report.usage.cost_usd)
    if report.output is None:
        return Row(file=file.name, problem="; ".join(report.output_problems) or report.stop_reason, cost_usd=cost)
    return Row(file=file.name, terms=Terms.model_validate(report.output), cost_usd=cost)


async def read_all(chargehand: Chargehand, files: Sequence[Path]) -> list[Row]:
    """Read all contracts, a few at a time; rows are in the order of the files."""
    places = asyncio.Semaphore(AT_ONCE)

    async def in_turn(file: Path) -> Row:
        async with places:
            return await read(chargehand, file)

    return await asyncio.gather(*map(in_turn, files))


def write(rows: Sequence[Row], to: Path) -> None:
    """Write the table."""
    with to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["file", *Terms.model_fields, "problem", "cost_usd"])
        writer.writeheader()
        writer.writerows({**row.model_dump(exclude={"terms"}), **row.terms.model_dump()} for row in rows)


async def main(files: Sequence[Path]) -> None:
    """Read contracts, and write `terms.csv`."""
    rows = await read_all(await Chargehand.connect(), files)
    write(rows, Path("terms.csv"))
    print(f"{len(rows)} contracts, {sum(bool(row.problem) for row in rows)} without terms: terms.csv")


if __name__ == "__main__":
    asyncio.run(main([Path(each) for each in sys.argv[1:]]))
