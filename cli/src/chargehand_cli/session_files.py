"""Keep what a session came to: report and trace as files that outlive the server's memory of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from chargehand.contracts import Report, Trace
from chargehand_cli.rendering.page import report_page
from chargehand_cli.rendering.text import report_markdown

_MOST_NAME: Final = 120
"""Characters of a folder's name; file systems take 255 bytes."""


@dataclass(frozen=True)
class Kept:
    """Where the files of one session are."""

    folder: Path

    @property
    def page(self) -> Path:
        return self.folder / "report.html"

    @property
    def report(self) -> Path:
        return self.folder / "report.json"

    @property
    def markdown(self) -> Path:
        return self.folder / "report.md"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.json"


def folder_of(state: Path, session_id: str) -> Kept:
    """Say where a session's files are, or will be."""
    name = quote(session_id, safe=" ").replace(".", "%2E")
    if len(name) > _MOST_NAME:
        name = f"{name[:_MOST_NAME]}-{hashlib.sha256(session_id.encode()).hexdigest()[:16]}"
    return Kept(state / "sessions" / name)


def keep(state: Path, report: Report, trace: Trace | None) -> Kept:
    """Write a session's files; those of an earlier time are replaced."""
    kept = folder_of(state, report.session)
    kept.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept.report.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    kept.markdown.write_text(report_markdown(report), encoding="utf-8")
    kept.page.write_text(report_page(report, trace), encoding="utf-8")
    if trace:
        kept.trace.write_text(trace.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return kept


def kept_report(state: Path, session_id: str) -> Report | None:
    """Read a report that was kept; None if there is none."""
    try:
        return Report.model_validate_json(folder_of(state, session_id).report.read_bytes())
    except (OSError, ValueError):
        return None


def shown(path: Path) -> str:
    """Write a path as short as it can be used."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
