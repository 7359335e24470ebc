"""The sandboxes for agents' programs: their settings, and one row each."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Backend, Host, Row, secret, with_added
from activities.tools.code.protocol import CodeRunner
from chargehand.plugins import Extension, installed, require


class CodeSettings(BaseSettings):
    """The settings of code execution."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    code: str | None = None
    """Where agents' programs run; by default at E2B if its key is set, else in Monty."""
    code_internet: bool = False
    """Whether programs at E2B can access the internet; programs in other sandboxes never can."""
    e2b_api_key: SecretStr | None = Field(default=None, validation_alias="E2B_API_KEY")
    """Key of E2B, which runs programs in virtual machines."""
    e2b_domain: Host | None = Field(default=None, validation_alias="E2B_DOMAIN")
    """Domain of a self-hosted E2B; by default the vendor's."""


async def _e2b(settings: CodeSettings, _: AsyncExitStack) -> CodeRunner:
    from activities.tools.code.e2b import E2BRunner

    return E2BRunner(secret(settings.e2b_api_key), domain=settings.e2b_domain, internet=settings.code_internet)


async def _monty(_: CodeSettings, closing: AsyncExitStack) -> CodeRunner:
    from activities.tools.code.monty import MontyRunner

    runner = MontyRunner()
    closing.push_async_callback(runner.close)
    return runner


async def _build_added(extension: Extension, settings: CodeSettings, closing: AsyncExitStack) -> CodeRunner:
    with extension.calling("sandbox"):
        return require(CodeRunner, await extension.load_function()(settings, closing))


_CODE: Final = Backend(
    "code",
    "CHARGEHAND_CODE",
    (Row("e2b", _e2b, needs="E2B_API_KEY"), Row("monty", _monty)),
    default="a subset of Python runs in an embedded sandbox",
)


def code_backend() -> Backend[Callable[[CodeSettings, AsyncExitStack], Awaitable[CodeRunner]]]:
    """Return the sandboxes, including those of plug-ins."""
    return with_added(_CODE, installed().code_sandboxes, lambda each: partial(_build_added, each))
