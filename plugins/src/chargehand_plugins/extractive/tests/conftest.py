"""Desks over the labelled documents, opened once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.extractive_harness import Harness
from benchmarks.extractive_questions import read_questions


@pytest.fixture(scope="session")
async def harnesses(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Path, Harness]:
    state = tmp_path_factory.mktemp("harnesses")
    folders = dict.fromkeys(question.folder for question in read_questions())
    return {folder: await Harness.open(folder, state) for folder in folders}


@pytest.fixture(scope="session")
def ferries(harnesses: Mapping[Path, Harness]) -> Harness:
    return next(harness for folder, harness in harnesses.items() if folder.name == "harbour-ferries")
