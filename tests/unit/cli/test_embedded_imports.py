"""What is loaded before it is needed: nothing slow."""

import subprocess
import sys


def test_nothing_slow_is_loaded() -> None:
    """The keeper and its user need the standard library only, following no pages, uploads no bucket's library,
    and help no contracts."""
    cases = [
        ("import chargehand_cli.embedded.keeper", {"temporalio", "pydantic", "asyncio", "rich"}),
        ("import chargehand_cli.embedded.user", {"temporalio", "pydantic", "asyncio", "rich"}),
        ("import chargehand_cli.live_session", {"jinja2"}),
        ("import chargehand.upload", {"boto3", "botocore", "google.cloud"}),
        (
            "from chargehand_cli.main import execute; execute(['run', '--help'])",
            {"temporalio", "chargehand.contracts", "rich", "starlette", "uvicorn", "jinja2"},
        ),
    ]
    for statement, slow in cases:
        program = f"import sys; {statement}; print(sorted({slow} & set(sys.modules)))"
        loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert loaded.endswith("[]\n")
