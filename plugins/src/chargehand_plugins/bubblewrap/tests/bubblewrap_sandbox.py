"""The bubblewrap sandbox for tests that run inside it; where it is unusable, they check that it is refused.

It is unusable where it is not installed, or where the host allows no user namespaces;
`test_the_sandbox_passes_its_self_test_on_every_capable_host` keeps that from masking a defect.
"""

import functools
import shutil
import struct
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from activities.tools.code.protocol import CodeResult
from chargehand_plugins.bubblewrap.runner import BubblewrapLimits, BubblewrapRunner, SandboxUnusableError
from chargehand_plugins.bubblewrap.self_test import require_tight

LIMITS = BubblewrapLimits(seconds=10.0, memory_bytes=512 << 20, folder_bytes=16 << 20, files=500, output_bytes=10_000)
ALLOW_ALL = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)

Test = Callable[..., Awaitable[None]]


@functools.cache
def can_hold() -> bool:
    """Whether this host has bubblewrap and lets it create namespaces, checked without any of our code."""
    bwrap = shutil.which("bwrap")
    tried = [bwrap or "", "--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "true"]
    return bwrap is not None and subprocess.run(tried, check=False, capture_output=True).returncode == 0


def inside(test: Test, needs: str = "bwrap") -> Test:
    """Run a test if the sandbox and the program it needs are usable; otherwise check that they are refused."""

    @functools.wraps(test)
    async def run(*arguments: object, **named: object) -> None:
        runner = BubblewrapRunner()
        if can_hold() and shutil.which(needs):
            await test(*arguments, **named)
        elif can_hold():
            await require_tight(runner)
            assert runner.languages == ("python",)
        else:
            with pytest.raises(SandboxUnusableError):
                await require_tight(runner)

    return run


async def ran(code: str, limits: BubblewrapLimits = LIMITS, packages: Path | None = None, **given: Any) -> CodeResult:
    runner = BubblewrapRunner(limits, packages)
    runner.start()
    runner.find_node()
    return await runner.run(code, "s/1", **given)
