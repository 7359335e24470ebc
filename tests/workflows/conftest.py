"""A stage without a workflow cache for every test of workflows."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
from temporalio.client import Client

from chargehand.contracts import Limits
from tests.scripted_model import Respond
from tests.stage import Stage, open_stage


class OpenStage(Protocol):
    """Opens a stage; see `tests.stage.open_stage`."""

    def __call__(
        self, respond: Respond, *, ceilings: Limits | None = None, cached_workflows: int = 0
    ) -> AbstractAsyncContextManager[Stage]: ...


@pytest.fixture
def stage(client: Client, tmp_path: Path) -> OpenStage:
    """Open a worker whose model answers by a function."""
    return partial(open_stage, client, tmp_path)
