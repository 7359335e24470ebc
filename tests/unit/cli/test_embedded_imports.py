"""What is loaded before it is needed: nothing slow."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "slow"),
    [
        ("import chargehand_cli.embedded.keeper", {"temporalio", "pydantic", "asyncio", "rich"}),
        ("import chargehand_cli.embedded.user", {"temporalio", "pydantic", "asyncio", "rich"}),
        ("import chargehand_cli.live_session", {"jinja2"}),
        ("import chargehand.upload", {"boto3", "botocore", "google.cloud"}),
        (
            "from chargehand_cli.main import execute; execute(['run', '--help'])",
            {"temporalio", "chargehand.contracts", "rich", "starlette", "uvicorn", "jinja2"},
        ),
    ],
)
def test_nothing_slow_is_loaded(program: str, slow: set[str]) -> None:
    """The keeper and its user need the standard library only, following no pages, uploads no bucket's library,
    and help no contracts."""
    program = f"import sys; {program}; print(sorted({slow} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.endswith("[]\n")
