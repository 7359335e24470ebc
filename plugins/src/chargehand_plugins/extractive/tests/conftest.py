"""Harnesses over the labelled documents, each opened when a test first needs it."""

from collections.abc import Awaitable, Callable

import pytest

from benchmarks.extractive_harness import Harness
from benchmarks.extractive_questions import read_questions

HarnessOf = Callable[[str], Awaitable[Harness]]
"""Opens the harness over the named folder of documents."""


@pytest.fixture(scope="session")
def harness_of(tmp_path_factory: pytest.TempPathFactory) -> HarnessOf:
    state, opened = tmp_path_factory.mktemp("harnesses"), dict[str, Harness]()
    folders = {question.folder.name: question.folder for question in read_questions()}

    async def harness_of(name: str) -> Harness:
        if name not in opened:
            opened[name] = await Harness.open(folders[name], state)
        return opened[name]

    return harness_of


@pytest.fixture(scope="session")
async def ferries(harness_of: HarnessOf) -> Harness:
    return await harness_of("harbour-ferries")
