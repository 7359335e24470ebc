"""A crew that declares servers needs the plug-in."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities.backends import SettingsError
from worker.composition import compose
from worker.settings import Settings

_CREW = """
name = "clock"
description = "Tells the time anywhere."
guidance = "Give everything to the timekeeper."

[[agents]]
name = "timekeeper"
description = "Knows what time it is."
prompt = "You tell the time."
tools = ["time_now"]

[[mcp]]
name = "time"
command = "time-server"
tools = ["now"]
"""


async def test_a_worker_without_the_plugin_names_it(tmp_path: Path, install: Callable[..., None]) -> None:
    """It does not start with a crew whose tools it cannot have."""
    (tmp_path / "clock.toml").write_text(_CREW)
    install()

    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError, match=r"Crew 'clock' declares MCP servers.*chargehand\[mcp\]"):
            await compose(Settings(state_dir=tmp_path / "state", crews=tmp_path), {}, closing)
