"""Settings of webhooks that cannot be used end the worker with their name."""

import pytest

from worker.program import main


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHARGEHAND_WEBHOOK_HOSTS", "{}"),
        ("CHARGEHAND_WEBHOOK_HOSTS", "hooks.example"),
        ("CHARGEHAND_WEBHOOK_SECRET", "short"),
        ("CHARGEHAND_WEBHOOK_SECRET", "whsec_" + "=" * 32),
    ],
)
def test_bad_values_are_refused_by_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each setting refuses a value that it cannot have."""
    monkeypatch.setenv(name, value)

    code = main(["--check-settings"])

    assert (code, name in capsys.readouterr().err) == (2, True)
