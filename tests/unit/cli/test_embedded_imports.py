"""What the keeper may load: it has to be up before its caller has imported anything."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["chargehand_cli.embedded.keeper", "chargehand_cli.embedded.user"])
def test_the_embedded_server_needs_the_standard_library_only(module: str) -> None:
    """Neither temporalio nor pydantic nor asyncio is loaded by the keeper or by its user."""
    program = f"import sys, {module}; print(sorted({{'temporalio', 'pydantic', 'asyncio', 'rich'}} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded == "[]\n"
