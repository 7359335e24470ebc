"""What an operator can set. Reading it from the environment is left to `worker_main.py`."""

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as NoJson

from chargehand.contracts import Limits, Tier
from chargehand.converter import describe_problems
from chargehand.wire import TASK_QUEUE

_APPLICATION: Final = Path(__file__).resolve().parent.parent
_PREFIX: Final = "CHARGEHAND_"
_READ_BY_CLIENTS: Final = frozenset({"CODEC_TOKEN", "WORKER"})
_MOST_IN_HISTORIES: Final = {"max_turns": 100, "max_rounds": 20}
"""What keeps the largest histories within a quarter of Temporal's 50 MiB: docs/how-to/changing-a-workflow.md, Sizes."""

Provider = Literal["anthropic", "openai", "openai_compatible", "extractive"]
Sandbox = Literal["e2b", "bubblewrap", "monty"]
SearchEngine = Literal["tavily", "searxng", "ddgs", "local"]


class SettingsError(Exception):
    """The settings cannot work together; the message names the setting and the remedy."""


class Settings(BaseSettings):
    """Everything that an operator can set, from the environment: `CHARGEHAND_…` and the vendors' own names for keys."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, populate_by_name=True, extra="ignore")

    state_dir: Path = _APPLICATION / ".chargehand"
    """Where documents, indexes and artifacts are kept on this host."""
    artifacts: Path | str | None = None
    """Where uploaded documents are, if not below the state directory: a folder that clients and workers share,
    `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`."""
    index_days: int = Field(default=30, ge=1, le=3_650)
    """How long the index of documents that nobody asks for is kept, and what was fetched from a bucket for it."""
    task_queue: str = TASK_QUEUE
    crews: Path | None = None
    """A folder of crew files; they add to, and replace by name, the crews that come with Chargehand."""
    document_roots: tuple[Path, ...] = ()
    """Folders of this host that requests may name as `file:` documents, as a JSON list."""
    page_hosts: frozenset[str] = frozenset()
    """Internal hosts, `name:port` or `name` for ports 80 and 443, that agents may read pages from, as a JSON list."""
    search: SearchEngine | None = None
    """Which search engine to use; by default as the keys and addresses in the environment say, and never `ddgs`."""
    searxng_url: str | None = None
    """The address of a SearXNG instance that answers in JSON; it may be an internal one."""
    provider: Provider | None = None
    """Which models to use; by default as the keys in the environment say."""
    models: dict[Tier, str] = {}
    """Model names by tier, as a JSON object; tiers that are not named keep the provider's default."""
    prices: dict[str, tuple[Decimal, Decimal]] = {}
    """Dollars per million input and output tokens by model name, as a JSON object; 0 for local models."""
    ceilings: Limits = Limits(
        max_turns=100,
        budget_usd=Decimal(50),
        max_parallel=20,
        max_rounds=20,
        deadline=timedelta(hours=6),
        subtask_deadline=timedelta(hours=1),
    )
    """The most that a request may ask for, as a JSON object."""
    max_activities: int = Field(default=100, ge=1, le=1_000)
    """Model turns and tool calls at the same time in this worker."""
    requests_per_second: float | None = Field(default=None, gt=0, le=10_000)
    """Model turns that all workers together begin in a second, below the provider's rate limit; None for no limit."""
    silence_seconds: float | None = Field(default=None, ge=1, le=3_600)
    """After this long without a word a model call is given up; by default a minute, for local models once it began."""
    answer_tokens: int | None = Field(default=None, ge=64)
    """The most output tokens of a call to `openai_compatible`, for models that may never come to an end."""
    encryption_keys: SecretStr | None = None
    """What payloads and artifacts are encrypted with: a JSON object of 32 bytes in base64 by key id, or its file."""
    encryption_key_id: str | None = None
    """The key of them that new payloads are encrypted with; encryption is on if this and the keys are set."""
    encryption_accept_plain: bool = False
    """Whether payloads that are not encrypted are read too, while sessions from before encryption still run."""
    storage: str | None = None
    """Where large payloads go instead of into the history: as for `artifacts`, or off."""
    storage_threshold: int | None = Field(default=None, ge=0)
    """How many bytes make a payload large."""
    deployment: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,100}$")
    """The Worker Deployment that this worker is part of; together with `build_id` it turns Worker Versioning on."""
    build_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.+-]{1,200}$")
    """Names this build of the workers; sessions stay with workers of the build that they began on."""
    metrics_address: str | None = Field(default=None, pattern=r"^\S+:\d{1,5}$")
    """IP:PORT, such as 127.0.0.1:9464, below which Prometheus reads this worker's `/metrics`; none by default."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    openai_background: bool = False
    """Whether OpenAI keeps replies for a while, so that one whose worker was lost is fetched and not paid again."""
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(default=None, validation_alias="ANTHROPIC_BASE_URL")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(default=None, validation_alias="OPENAI_BASE_URL")
    tavily_api_key: SecretStr | None = Field(default=None, validation_alias="TAVILY_API_KEY")
    tavily_base_url: str | None = Field(default=None, validation_alias="TAVILY_BASE_URL")
    code: Sandbox | None = None
    """Where agents' programs run; by default at E2B if there is a key for it, else in Monty."""
    code_internet: bool = False
    """Whether programs at E2B may reach the internet; elsewhere they never may."""
    code_packages: Path | None = None
    """A folder of packages (made by `pip install --target`) that programs in bubblewrap may import."""
    e2b_api_key: SecretStr | None = Field(default=None, validation_alias="E2B_API_KEY")
    e2b_domain: str | None = Field(default=None, validation_alias="E2B_DOMAIN")

    @model_validator(mode="after")
    def _builds_have_both_names(self) -> Self:
        if bool(self.deployment) != bool(self.build_id):
            missing = "CHARGEHAND_BUILD_ID" if self.deployment else "CHARGEHAND_DEPLOYMENT"
            raise ValueError(f"{missing} is not set; Worker Versioning needs the names of a deployment and of a build")
        return self

    @model_validator(mode="after")
    def _histories_stay_small(self) -> Self:
        if not self.storage or self.storage == "off":
            for name, most in _MOST_IN_HISTORIES.items():
                if getattr(self.ceilings, name) > most:
                    raise ValueError(
                        f"CHARGEHAND_CEILINGS: {name} above {most} lets a session outgrow what Temporal keeps of a "
                        f"workflow; lower it, or set CHARGEHAND_STORAGE, so that large payloads are kept elsewhere"
                    )
        return self


def describe_unknown(environment: Mapping[str, str]) -> list[str]:
    """Name what looks like a setting and is none: mistyped, it would be ignored without a word."""
    known = [field.upper() for field, info in Settings.model_fields.items() if not info.validation_alias]
    unknown: list[str] = []
    for name in sorted(environment):
        word = name.removeprefix(_PREFIX)
        if word != name and word not in known and word not in _READ_BY_CLIENTS:
            meant = get_close_matches(word, known, n=1)
            unknown.append(f"{name} is not a setting{f'; did you mean {_PREFIX}{meant[0]}?' if meant else ''}")
    return unknown


def describe_unusable(error: ValidationError | NoJson) -> str:
    """Say what is wrong with the environment, each setting by the name that it has there."""
    if isinstance(error, NoJson):
        field = re.search(r'field "(\w+)"', str(error))
        problems = [f"{field[1] if field else 'a setting'}: is not JSON; deploy/README.md shows an example"]
    else:
        problems = describe_problems(error, Settings)
    named = (each.removeprefix("input: ") for each in problems)
    return "; ".join(re.sub(r"^[a-z]\w*(?=[.:])", lambda field: _in_the_environment(field[0]), each) for each in named)


def _in_the_environment(field: str) -> str:
    known = Settings.model_fields.get(field)
    return f"{_PREFIX}{field.upper()}" if known and not known.validation_alias else field
