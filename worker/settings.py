"""All operator settings. Only `worker_main.py` reads them from the environment."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import new_class
from typing import Annotated, Any, Final, Literal, Self, TypeVar, cast

from pydantic import (
    DirectoryPath,
    Field,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from activities.backends import ENVIRONMENT_PREFIX
from activities.documents.registry import DocumentSettings
from activities.heartbeat import HEARTBEAT_TIMEOUT, LONGEST_HEARTBEAT_TIMEOUT
from activities.models.registry import ModelSettings
from activities.queues import ROLES, Kind, Role
from activities.tools.code.registry import CodeSettings
from activities.tools.search.registry import SearchSettings
from chargehand.contracts import Limits
from chargehand.contracts.base import Form
from chargehand.contracts.limits import MOST_TURNS
from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.plugins import Extension, installed
from chargehand.strict_json import each_once
from chargehand.toml_file import parser_words
from chargehand.wire import TASK_QUEUE
from worker.logs import LogFormat

_TURNS_WITHOUT_STORAGE: Final = 100
"""Keeps the largest histories within a quarter of Temporal's 50 MiB: see docs/how-to/changing-a-workflow.md, Sizes."""
_HEARTBEAT_SECONDS: Final = int(HEARTBEAT_TIMEOUT.total_seconds())
_MOST_HEARTBEAT_SECONDS: Final = int(LONGEST_HEARTBEAT_TIMEOUT.total_seconds())
_PORTS: Final = 65_536
_Part = TypeVar("_Part", bound=BaseSettings)


class PartSettings(BaseSettings):
    """Base class of plug-in settings; attribute docstrings describe the fields."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)


class Settings(ModelSettings, SearchSettings, CodeSettings, DocumentSettings):
    """All operator settings, from the environment: `CHARGEHAND_…` and the vendors' names for keys.

    The settings of a backend are in its own `registry.py`.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, populate_by_name=True, extra="ignore", use_attribute_docstrings=True
    )

    task_queue: Annotated[str, Form(r"^\S{1,200}$", "must be 200 characters at most, without spaces")] = TASK_QUEUE
    """Task queue of the workers and their clients."""
    crews: DirectoryPath | None = None
    """A folder of crew files; they add to the shipped crews and replace those of the same name."""
    ceilings: Limits = Limits(
        max_turns=_TURNS_WITHOUT_STORAGE,
        budget_usd=Decimal(50),
        max_parallel=20,
        max_rounds=250,
        max_reviews=6,
        deadline=timedelta(hours=6),
        subtask_deadline=timedelta(hours=1),
    )
    """Maximum limits of a request, as a JSON object; 1,000 turns with `storage`."""
    recall_seconds: int = Field(default=3_600, ge=1, le=30 * 24 * 3_600)
    """Seconds for which agents can recall the outcome of a finished subtask."""
    queues: dict[Kind, Annotated[int, Field(strict=True, ge=1, le=1_000)]] = {}
    """Kinds of work with a separate task queue, and how many of each this worker runs at once: a JSON
    object with `models`, `tools` and `sandboxes`."""
    roles: frozenset[Role] = ROLES
    """Kinds of work of this worker: a JSON list of `sessions`, `models`, `tools` and `sandboxes`; all by default."""
    max_activities: int = Field(default=500, ge=1, le=1_000)
    """Maximum concurrent model turns and tool calls in each worker process."""
    heartbeat_timeout: int = Field(default=_HEARTBEAT_SECONDS, ge=_HEARTBEAT_SECONDS, le=_MOST_HEARTBEAT_SECONDS)
    """Seconds without a heartbeat after which an activity's worker is considered lost. Heartbeats are sent 6 times as
    often, and Temporal Cloud bills each: more seconds cost less, but delay the recovery from a lost worker."""
    processes: int = Field(default=1, ge=1, le=64)
    """Worker processes on this host, one per core to use."""
    encryption_keys: SecretStr | None = None
    """The keys that encrypt payloads and artifacts: a JSON object of 32 bytes in base64 by key id, or a file of it."""
    encryption_key_id: str | None = None
    """The key that encrypts new payloads; encryption is on if this and the keys are set."""
    encryption_accept_plain: bool = False
    """Whether unencrypted payloads are also read, while sessions started without encryption still run."""
    credential_keys: SecretStr | None = None
    """The keys that seal the credentials of calling users, written like `encryption_keys`; the last one seals."""
    storage: str | None = None
    """Where large payloads are stored instead of in the history: a location as for `artifacts`, or `off`."""
    storage_threshold: int | None = Field(default=None, ge=0)
    """Minimum size in bytes of payloads that are stored."""
    storage_results: bool = False
    """Whether reports and responses to queries and updates are stored too; clients then need the same storage."""
    deployment: Annotated[str, Form(r"^[A-Za-z0-9_/-]{1,200}$", "must be letters, digits, _ / and -")] | None = None
    """The Worker Deployment of this worker; setting it turns Worker Versioning on."""
    build_id: Annotated[str, Form(r"^[A-Za-z0-9_.+-]{1,200}$", "must be letters, digits, _ . + and -")] | None = None
    """The build of this worker; sessions stay on the build they started on. By default, a digest of its code."""
    metrics_address: Annotated[str, Form(r"^\S+:\d{1,5}$", "must be IP:PORT, such as 127.0.0.1:9464")] | None = None
    """IP:PORT, such as 127.0.0.1:9464, where Prometheus reads this worker's `/metrics`; none by default. Each further
    process uses the next port."""
    health_file: Path | None = None
    """A file that this worker touches every five seconds while it polls, for health checks; none by default. If there
    are several processes, all of them must poll."""
    log_format: LogFormat = "auto"
    """`json`, one record per line, or `text`; by default text on a terminal and JSON elsewhere."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Minimum log level; at DEBUG the log contains text of users, models and documents."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # the library's own name
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment, refusing JSON objects with repeated keys."""
        return init_settings, _Environment(settings_cls)

    @field_validator("*", mode="wrap")
    @classmethod
    def _are_readable(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        """Report unreadable values and invalid paths together with other problems."""
        if isinstance(value, _Unreadable):
            raise ValueError(value.problem)
        try:
            return read(value)
        except OSError as error:
            raise ValueError(error.strerror) from error
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
            raise ValueError(f"its check failed: {type(error).__name__}: {error}") from error

    @model_validator(mode="after")
    def _builds_have_deployments(self) -> Self:
        if self.build_id and not self.deployment:
            raise ValueError("CHARGEHAND_BUILD_ID belongs to a deployment: set CHARGEHAND_DEPLOYMENT to its name too")
        return self

    def of_process(self, number: int) -> Self:
        """Return the settings of one of several processes, each with its own metrics port."""
        if not self.metrics_address:
            return self
        host, _, port = self.metrics_address.rpartition(":")
        return self.model_copy(update={"metrics_address": f"{host}:{int(port) + number}"})

    @model_validator(mode="after")
    def _ports_exist(self) -> Self:
        if self.metrics_address and int(self.metrics_address.rpartition(":")[2]) + self.processes > _PORTS:
            raise ValueError(f"CHARGEHAND_METRICS_ADDRESS: there are not so many ports from {self.metrics_address} on")
        return self

    @model_validator(mode="after")
    def _roles_have_queues(self) -> Self:
        own = {*self.queues, *(["models"] if self.requests_per_second else [])}
        if "sessions" not in self.roles and (missing := sorted(self.roles - own)):
            raise ValueError(
                f"CHARGEHAND_ROLES: {missing[0]} have no task queue of their own; name them in CHARGEHAND_QUEUES, "
                "here and for the workers that do the rest"
            )
        if not self.roles:
            raise ValueError("CHARGEHAND_ROLES: names nothing that this worker does; leave it out for everything")
        return self

    @model_validator(mode="after")
    def _histories_stay_small(self) -> Self:
        if self.storage and self.storage != "off":
            if "ceilings" not in self.model_fields_set:
                self.ceilings = self.ceilings.model_copy(update={"max_turns": MOST_TURNS})
        elif self.ceilings.max_turns > _TURNS_WITHOUT_STORAGE:
            raise ValueError(
                f"CHARGEHAND_CEILINGS: max_turns above {_TURNS_WITHOUT_STORAGE} lets a session outgrow Temporal's "
                "limit on histories; lower it, or set CHARGEHAND_STORAGE, which stores large payloads elsewhere"
            )
        return self


def read_settings(**given: Any) -> Settings:
    """Read the settings that are not given from the environment. Raises `PluginError` if a plug-in's cannot be read."""
    try:
        return settings_type()(**given)
    except ValidationError:
        raise
    except (Exception, SystemExit):
        for extension in installed().settings:
            with extension.calling("settings"), suppress(ValidationError):
                _settings_with(extension)()
        raise


def settings_type() -> type[Settings]:
    """Return the settings class with the plug-ins' settings as base classes."""
    return _settings_with(*installed().settings)


@cache
def _settings_with(*extensions: Extension) -> type[Settings]:
    added = [extension.load(type(BaseSettings)) for extension in extensions]
    if not added:
        return Settings
    namespace = {"model_config": Settings.model_config}  # otherwise that of the last base would count
    settings = new_class("Settings", (Settings, *added), exec_body=lambda body: body.update(namespace))
    return cast("type[Settings]", settings)


def settings_of(settings: BaseSettings, part: type[_Part]) -> _Part:
    """Return a plug-in's part of the worker's settings, or its defaults if they lack it."""
    return settings if isinstance(settings, part) else part()


@dataclass(frozen=True)
class _Unreadable:
    problem: str


class _Environment(EnvSettingsSource):
    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        if not self.field_is_complex(field) or not isinstance(value, str):
            return super().decode_complex_value(field_name, field, value)
        try:
            return json.loads(value, object_pairs_hook=each_once)
        except json.JSONDecodeError:
            return _Unreadable('is not JSON; write an object like {"name": 1} or a list like ["name"]')
        except (ValueError, RecursionError) as error:
            return _Unreadable(parser_words(error) or str(error))


def describe_unusable(error: ValidationError) -> str:
    """Describe each invalid setting by its environment variable."""
    named = (each.removeprefix("input: ") for each in describe_problems(error, settings_type()))
    return join_problems(
        re.sub(r"^[a-z]\w*(?=[.:])", lambda field: _in_the_environment(field[0]), each) for each in named
    )


def _in_the_environment(field: str) -> str:
    known = settings_type().model_fields.get(field)
    return f"{ENVIRONMENT_PREFIX}{field.upper()}" if known and not known.validation_alias else field
