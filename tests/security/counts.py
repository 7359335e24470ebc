"""A plugin of pytest that notes how many examples Hypothesis tried, beside the properties that tests record."""

import re
from collections.abc import Generator

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, None, None]:
    """Count the examples of a property among the properties of its test."""
    yield
    statistics = getattr(item, "hypothesis_statistics", "")
    if call.when == "call" and statistics:
        item.user_properties.append(("cases", sum(map(int, re.findall(r"(\d+) passing,", statistics)))))
