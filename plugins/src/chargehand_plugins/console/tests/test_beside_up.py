"""The console that `chargehand up` serves beside the embedded server."""

import re
from pathlib import Path

import pytest
from httpx2 import get

from chargehand_cli.main import execute
from chargehand_cli.terminal import Exit
from tests.acceptance.test_embedded_cli import process


@pytest.mark.slow
def test_up_serves_the_console_and_its_api(tmp_path: Path) -> None:
    """`up` prints a link that signs in, and the API answers with the token of the environment alone."""
    token = "a-token-of-this-test"
    settings = {"CHARGEHAND_CONSOLE_TOKEN": token, "CHARGEHAND_CONSOLE_PORT": "0"}
    with process("up", "--state-dir", tmp_path / "state", **settings) as up:
        assert up.stderr
        said = ""
        while "HTTP API" not in said and (line := up.stderr.readline()):
            said += line
        console = re.search(r"Console: (\S+)/login\?code=\S+", said)
        assert console, said

        refused = get(f"{console[1]}/api/v1/sessions", trust_env=False)
        answered = get(f"{console[1]}/api/v1/sessions", headers={"Authorization": f"Bearer {token}"}, trust_env=False)

        assert f"HTTP API: {console[1]}/api/v1 with the token $CHARGEHAND_CONSOLE_TOKEN" in said
        assert (refused.status_code, answered.json()) == (401, {"sessions": []})


@pytest.mark.parametrize("port", ["eighty", "-1", "65536", "1e3", "¹"])
def test_a_port_that_is_none_is_refused(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is connected."""
    monkeypatch.setenv("CHARGEHAND_CONSOLE_PORT", port)

    assert execute(["console", "--address", "127.0.0.1:1", "--state-dir", str(tmp_path)]) == Exit.BAD_INPUT
    assert "CHARGEHAND_CONSOLE_PORT must be a port from 0 to 65535" in capsys.readouterr().err
