"""The best region of a table of sales, as data.

chargehand up &
python sales.py sales.csv
"""

import sys

from pydantic import BaseModel

from chargehand import Limits, OutputInvalid, SessionRequest
from chargehand.sync import Chargehand


class Region(BaseModel):
    """A region with its revenue."""

    name: str
    revenue_eur: float


class Sales(BaseModel):
    """What is asked for; None where the table does not say it."""

    regions: list[Region]
    best: str | None = None


REQUEST = SessionRequest(
    goal="What was the revenue of each region, and which region had the most?",
    crew="analysis",
    limits=Limits(budget_usd=0.5),
)


if __name__ == "__main__":
    try:
        print(Chargehand.connect().run(REQUEST, documents=sys.argv[1:], output=Sales).model_dump_json(indent=2))
    except OutputInvalid as error:
        sys.exit(f"{error}\n{error.report.answer}")
