"""A pytest plugin that records how many examples Hypothesis tried, next to the properties that tests record."""

import re
from collections.abc import Generator

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, None, None]:
    """Add the number of examples to the properties of a test."""
    yield
    statistics = getattr(item, "hypothesis_statistics", "")
    if call.when == "call" and statistics:
        item.user_properties.append(("cases", sum(map(int, re.findall(r"(\d+) passing,", statistics)))))
