"""Which sandbox a worker runs agents' programs in, by its settings."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities.backends import SettingsError
from activities.code.protocol import CodeRunner
from activities.code.registry import CODE
from activities.settings import Settings


async def sandbox(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CodeRunner:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings(state_dir=tmp_path)
    async with AsyncExitStack() as closing:
        return await CODE.builder(settings, CODE.choose(settings).adapter)(settings, closing)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "monty"),
        ({"E2B_API_KEY": ""}, "monty"),
        ({"E2B_API_KEY": "e2b_key"}, "e2b"),
        ({"E2B_API_KEY": "e2b_key", "CHARGEHAND_CODE": "monty"}, "monty"),
        ({"E2B_API_KEY": "e2b_key", "CHARGEHAND_CODE": "e2b"}, "e2b"),
    ],
)
async def test_a_key_chooses_unless_the_setting_does(
    environment: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key is enough; the explicit setting takes precedence; only it selects full Python on this host."""
    assert (await sandbox(environment, monkeypatch, tmp_path)).name == name


async def test_a_choice_without_its_key_stops_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A sandbox never silently replaces the configured one."""
    with pytest.raises(SettingsError, match="E2B_API_KEY is not set, but the code backend 'e2b' needs it"):
        await sandbox({"CHARGEHAND_CODE": "e2b"}, monkeypatch, tmp_path)


async def test_internet_is_off_unless_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs at E2B reach nothing by default."""
    off = await sandbox({"E2B_API_KEY": "e2b_key"}, monkeypatch, tmp_path)
    on = await sandbox({"E2B_API_KEY": "e2b_key", "CHARGEHAND_CODE_INTERNET": "true"}, monkeypatch, tmp_path)

    assert (off.reaches_out, on.reaches_out) == (False, True)
