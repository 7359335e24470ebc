"""Write the generated documents of the example: `python examples/make_examples.py [FOLDER]`.

The bytes are the same on every machine and day: fixed dates, no compression, integer arithmetic. The Markdown
documents are written by hand; a test checks that the figures they quote are the ones worked out here.
"""

import csv
import sys
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path

import engine_manual
from ferry_figures import VESSELS, outages, refunds, repairs
from openpyxl import Workbook
from openpyxl.styles import Font

HERE = Path(__file__).parent
FOLDER = HERE / "harbour-ferries"
WRITTEN = datetime(2026, 1, 9, 9, 0, 0)  # noqa: DTZ001 - office files hold local times without a zone


def main(folder: Path) -> None:
    """Write all generated documents into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_outages(folder / "outages-2025.csv")
    write_register(folder / "vessel-register.csv")
    write_costs(folder / "costs-2025.xlsx")
    engine_manual.write(HERE / "engine-maintenance-manual.md", folder / "engine-maintenance-manual.pdf")


def write_outages(path: Path) -> None:
    """Write one row for every loss of service in 2025."""
    columns = ("date", "route", "vessel", "cause", "minutes_lost", "sailings_cancelled", "passengers_affected")
    rows = (
        (o.day, o.route, o.vessel, o.cause, o.minutes_lost, o.sailings_cancelled, o.passengers_affected)
        for o in outages()
    )
    _write_csv(path, columns, rows)


def write_register(path: Path) -> None:
    """Write the vessels of the fleet."""
    columns = ("vessel", "call_sign", "built", "length_m", "passengers_max", "engines", "home_route", "next_dry_dock")
    rows = (
        (v.name, v.call_sign, v.built, v.length_m, v.passengers_max, v.engines, v.home_route, v.next_dry_dock)
        for v in VESSELS
    )
    _write_csv(path, columns, rows)


def write_costs(path: Path) -> None:
    """Write what repairs and refunds cost, a sheet each."""
    book = Workbook()
    book.remove(book.worksheets[0])
    _add_sheet(book, "repairs", ("month", "vessel", "invoices", "repair_cost_eur", "largest_item"), repairs())
    _add_sheet(book, "refunds", ("month", "route", "claims", "refunds_paid_eur"), refunds())
    book.properties.creator = "Carrow Harbour Ferries, accounts"
    book.properties.created = WRITTEN
    buffer = BytesIO()
    book.save(buffer)
    path.write_bytes(_timeless(buffer))


def _add_sheet(book: Workbook, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    sheet = book.create_sheet(title)
    sheet.append(columns)
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    for row in rows:
        sheet.append(row)
    for number, column in enumerate(columns):
        sheet.column_dimensions["ABCDE"[number]].width = 44 if column == "largest_item" else 18
    sheet.freeze_panes = "A2"


def _timeless(saved: BytesIO) -> bytes:
    """Store the workbook's parts under one fixed date: openpyxl stamps the moment of saving into each of them."""
    result = BytesIO()
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(result, "w", zipfile.ZIP_STORED) as target:
        for name in sorted(source.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            part = source.read(name)
            if name == "docProps/core.xml":
                before, _, rest = part.partition(b"<dcterms:modified")
                opening, _, rest = rest.partition(b">")
                _, _, after = rest.partition(b"<")
                part = (
                    before + b"<dcterms:modified" + opening + b">" + f"{WRITTEN:%Y-%m-%dT%H:%M:%SZ}<".encode() + after
                )
            target.writestr(zipfile.ZipInfo(name, WRITTEN.timetuple()[:6]), part)
    return result.getvalue()


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
