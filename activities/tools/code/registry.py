"""The sandboxes for agents' programs: their settings, and one row each."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from pydantic import DirectoryPath, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Backend, Row, SettingsError, secret

if TYPE_CHECKING:
    from activities.tools.code.protocol import CodeRunner


class CodeSettings(BaseSettings):
    """The settings of code execution."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    code: str | None = None
    """Where agents' programs run; by default at E2B if its key is set, else in Monty."""
    code_internet: bool = False
    """Whether programs at E2B may reach the internet; in other sandboxes they never may."""
    code_packages: DirectoryPath | None = None
    """A folder of packages (made by `pip install --target`) that programs in bubblewrap may import."""
    e2b_api_key: SecretStr | None = Field(default=None, validation_alias="E2B_API_KEY")
    """Key of E2B, which runs programs in virtual machines."""
    e2b_domain: str | None = Field(default=None, validation_alias="E2B_DOMAIN")
    """Domain of your own E2B; the vendor's if absent."""


async def _e2b(settings: CodeSettings, _: AsyncExitStack) -> "CodeRunner":
    from activities.tools.code.e2b import E2BRunner

    return E2BRunner(secret(settings.e2b_api_key), domain=settings.e2b_domain, internet=settings.code_internet)


async def _bubblewrap(settings: CodeSettings, _: AsyncExitStack) -> "CodeRunner":
    from activities.tools.code.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError
    from activities.tools.code.bubblewrap.self_test import require_tight

    runner = BubblewrapRunner(packages=settings.code_packages)
    try:
        await require_tight(runner)
    except SandboxUnusableError as error:
        raise SettingsError(f"CHARGEHAND_CODE=bubblewrap cannot be used here: {error}.") from error
    return runner


async def _monty(_: CodeSettings, closing: AsyncExitStack) -> "CodeRunner":
    from activities.tools.code.monty import MontyRunner

    runner = MontyRunner()
    closing.push_async_callback(runner.close)
    return runner


CODE: Final = Backend(
    "code",
    "CHARGEHAND_CODE",
    (
        Row("e2b", _e2b, chosen_by="E2B_API_KEY", needs="E2B_API_KEY"),
        Row("bubblewrap", _bubblewrap),
        Row("monty", _monty),
    ),
    default="a subset of Python runs in an embedded sandbox",
)
