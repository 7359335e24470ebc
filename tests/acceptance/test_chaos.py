"""One experiment, in its short form; `make chaos` runs all of them."""

from pathlib import Path
from random import Random

import pytest

from chaos.catalogue import EXPERIMENTS

pytestmark = pytest.mark.nightly

SEED = 20_261_121


async def test_a_fault_loses_no_session_and_no_cent(tmp_path: Path) -> None:
    """A server killed and started on its database: every session ends in the report that it has without faults, and
    its books are the provider's."""
    result = await EXPERIMENTS["server-killed"]("short", Random(f"{SEED}/server-killed"), tmp_path)

    assert result.problems == []
    assert (result.lost, result.stuck, result.different) == (0, 0, 0)
    assert result.faults >= 1
