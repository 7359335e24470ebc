"""The files of a session."""

from pathlib import Path

from chargehand import Report, Trace
from chargehand_cli.session_files import SessionFiles, keep, kept_report
from tests.unit.cli.reports import report, trace


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    """Report and trace survive as JSON, beside a page and Markdown, for their owner only."""
    kept = keep(tmp_path, report(), trace())

    assert kept_report(tmp_path, "session-1") == report()
    assert Report.model_validate_json(kept.report.read_bytes()) == report()
    assert Trace.model_validate_json(kept.trace.read_bytes()) == trace()
    assert kept.page.read_text().startswith("<!doctype html>")
    assert kept.markdown.read_text().startswith("They are **tested**")
    assert kept.folder.stat().st_mode & 0o077 == 0


def test_no_id_leads_out_of_the_folder(tmp_path: Path) -> None:
    """Whatever a session is called, its files can be made and lie one level below the sessions' folder."""
    for session_id in ("../../etc", "a/b", "..", ".", "a\0b", "ü" * 500):
        folder = SessionFiles(tmp_path, session_id).folder
        folder.mkdir(parents=True)
        assert folder.resolve().parent == tmp_path / "sessions"
