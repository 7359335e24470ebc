"""A plugin of pytest that notes how many examples Hypothesis tried, beside the properties that tests record."""

import re
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Count the examples of a property in the report of its call."""
    report = (yield).get_result()
    statistics = getattr(item, "hypothesis_statistics", "")
    if call.when == "call" and statistics:
        report.user_properties.append(("cases", sum(map(int, re.findall(r"(\d+) passing examples", statistics)))))
