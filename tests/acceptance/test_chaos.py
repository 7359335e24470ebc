"""The cheapest experiments, in their short form; `make chaos` runs all of them."""

from pathlib import Path
from random import Random

import pytest

from chaos.catalogue import EXPERIMENTS

SEED = 20_261_121


@pytest.mark.parametrize("name", ["server-killed", "deploys"])
async def test_a_fault_loses_no_session_and_no_cent(name: str, tmp_path: Path) -> None:
    """A server killed and started on its database, a deploy and its rollback: every session
    ends in the report that it has without faults, and its books are the provider's."""
    result = await EXPERIMENTS[name]("short", Random(f"{SEED}/{name}"), tmp_path)

    assert result.problems == []
    assert (result.lost, result.stuck, result.different) == (0, 0, 0)
    assert result.faults >= 1
