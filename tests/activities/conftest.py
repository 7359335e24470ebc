"""Fixtures for tests of pages and downloads."""

from collections.abc import AsyncIterator

import pytest

from tests.activities.pages.page_server import PageServer, serve_pages


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    async with serve_pages() as serving:
        yield serving
