"""Settings of tapes that cannot be used end the worker with their name; without the plug-in there is no verb."""

from collections.abc import Callable

import pytest

from chargehand_cli.main import execute
from worker.program import main


@pytest.mark.parametrize(
    "settings",
    [
        {"CHARGEHAND_TAPE_REPLAY": "/no/such/file"},
        {"CHARGEHAND_TAPE_REPLAY": __file__, "CHARGEHAND_TAPE_RECORD": "/no/such/file"},
    ],
)
def test_bad_values_are_refused_by_name(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tape that is not there is refused, and so are two."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    code = main(["--check-settings"])

    told = capsys.readouterr().err
    assert (code, [name for name in settings if name not in told]) == (2, [])


def test_an_absent_plugin_leaves_nothing_but_how_to_add_it(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--help` does not have the verb, which says what to install."""
    install()

    codes = execute(["--help"]), execute(["tape", "replay", "session.jsonl"])

    told = capsys.readouterr()
    assert codes == (0, 2)
    assert "tape" not in told.out
    assert "pip install 'chargehand[cli]'" in told.err
