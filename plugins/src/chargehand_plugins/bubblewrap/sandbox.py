"""The sandbox's setting, its builder, and its check in `chargehand doctor`."""

from collections.abc import Sequence

from pydantic import DirectoryPath

from activities.backends import Choice, SettingsError
from activities.tools.code.protocol import CodeRunner
from worker.settings import PartSettings, Settings, settings_of


class BubblewrapSettings(PartSettings):
    code_packages: DirectoryPath | None = None
    """A folder of packages (made by `pip install --target`) that programs may import."""


async def open_sandbox(settings: Settings, *_: object) -> CodeRunner:
    from chargehand_plugins.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError
    from chargehand_plugins.bubblewrap.self_test import require_tight

    runner = BubblewrapRunner(packages=settings_of(settings, BubblewrapSettings).code_packages)
    try:
        await require_tight(runner)
    except SandboxUnusableError as error:
        raise SettingsError(f"CHARGEHAND_CODE=bubblewrap cannot be used here: {error}.") from error
    return runner


async def examine(settings: Settings, _: object) -> Sequence[Choice]:
    """Run the self-test that a worker requires at its start."""
    if settings.code != "bubblewrap":
        return ()
    why = "set by CHARGEHAND_CODE"
    try:
        languages = " and ".join((await open_sandbox(settings)).languages)
    except SettingsError as error:
        return (Choice("code", "bubblewrap", why, problem=str(error)),)
    return (Choice("code", "bubblewrap", f"{why}; its self-test passes on this host for {languages}"),)
