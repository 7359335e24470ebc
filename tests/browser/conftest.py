"""One browser for all tests of a process; each opens pages in profiles of its own."""

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
