"""Desks over the labelled documents, opened once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.extractive_desk import Desk
from benchmarks.extractive_questions import read_questions


@pytest.fixture(scope="session")
async def desks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Path, Desk]:
    state = tmp_path_factory.mktemp("desks")
    folders = dict.fromkeys(question.folder for question in read_questions())
    return {folder: await Desk.open(folder, state) for folder in folders}


@pytest.fixture(scope="session")
def ferries(desks: Mapping[Path, Desk]) -> Desk:
    return next(desk for folder, desk in desks.items() if folder.name == "harbour-ferries")
