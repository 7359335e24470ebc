"""What `chargehand.worker` loads: the parts of the worker program, with the errors of the client package."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from temporalio.client import Client

from activities.backends import SettingsError
from activities.crews.files import CrewError
from chargehand.errors import UnusableSettings
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.plugins import PluginError, add_modules
from worker.process import serving
from worker.program import main
from worker.settings import Settings, describe_unusable, settings_type

_UNUSABLE = (SettingsError, CrewError, PluginError, ProtectionSettingsError)


def choose_settings(given: Mapping[str, Any], plugins: Sequence[str] = ()) -> Settings:
    """Register plug-ins, and read the settings from what is given and from the environment.

    Raises:
        UnusableSettings: one of them is unknown or invalid, or a plug-in cannot be used.
    """
    try:
        add_modules(plugins)
    except PluginError as error:
        raise UnusableSettings(str(error)) from error
    known = settings_type().model_fields
    for name in given.keys() - known.keys():
        similar = get_close_matches(name, known, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise UnusableSettings(f"{name} is not a setting of the worker{hint}")
    try:
        return settings_type()(**given)
    except ValidationError as error:
        raise UnusableSettings(describe_unusable(error)) from error


@asynccontextmanager
async def embedded(client: Client, settings: Settings) -> AsyncGenerator[None]:
    """Run a worker.

    Raises:
        UnusableSettings: a backend, a crew or a tool cannot be used.
    """
    worker = serving(client, settings)
    try:
        await worker.__aenter__()
    except _UNUSABLE as error:
        raise UnusableSettings(str(error)) from error
    try:
        yield
    finally:
        await worker.__aexit__(None, None, None)


def run(given: Mapping[str, Any], plugins: Sequence[str] = ()) -> int:
    """Run the worker program until it is told to stop, and return its exit code."""
    return main([], choose_settings(given, plugins))
