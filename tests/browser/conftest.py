"""One browser for all tests of a process; each test opens pages in separate profiles."""

from collections.abc import AsyncIterator

import pytest

from tests.browser.chromium import Chromium, Tab, open_chromium


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Chromium]:
    async with open_chromium() as browser:
        yield browser


@pytest.fixture
async def tab(chromium: Chromium) -> AsyncIterator[Tab]:
    async with chromium.tab() as opened:
        yield opened
