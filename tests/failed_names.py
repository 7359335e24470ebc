"""A pytest plugin that writes the names of failed tests to a file as soon as they fail, however pytest ends.

`-p tests.failed_names --failed-names FILE`
"""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-names", type=Path, metavar="FILE", help="add each failed test to this file as it fails")


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("failed_names")
    if file is not None and not hasattr(config, "workerinput"):  # what xdist's workers find reaches their controller
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
        config.pluginmanager.register(_FailedNames(file))


class _FailedNames:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._add(report.nodeid if report.when == "call" else f"{report.nodeid} ({report.when})")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._add(f"{report.nodeid} (collection): {_last_line(str(report.longrepr))}")

    def pytest_internalerror(self, excrepr: object) -> None:
        self._add(f"pytest itself: {_last_line(str(excrepr))}")

    def _add(self, line: str) -> None:
        with self._file.open("a", encoding="utf-8") as names:
            names.write(f"{line}\n")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
