"""The names of the `CHARGEHAND_*` variables, so that unknown ones are reported instead of ignored."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from chargehand.plugins import SETTING, SHIPPED, installed

PREFIX: Final = "CHARGEHAND_"
BAD_SETTINGS: Final = 2
"""The exit code of a worker that cannot start because of its settings."""
_OF_WORKERS: Final = """
    ANSWER_TOKENS ARTIFACTS BUILD_ID CEILINGS CODE CODE_INTERNET CONTEXT_WINDOW CREDENTIAL_KEYS CREWS
    DEPLOYMENT DOCUMENT_ROOTS ENCRYPTION_ACCEPT_PLAIN ENCRYPTION_KEYS ENCRYPTION_KEY_ID FALLBACK_MODELS
    FALLBACK_PROVIDER HEALTH_FILE HEARTBEAT_TIMEOUT INDEX_DAYS LOG_FORMAT LOG_LEVEL MAX_ACTIVITIES METRICS_ADDRESS
    MODELS OPENAI_BACKGROUND OUTPUT_TOKENS PAGE_HOSTS PRICES PROCESSES PROVIDER QUEUES REASONING_MODELS RECALL_SECONDS
    REQUESTS_PER_SECOND ROLES SEARCH SILENCE_SECONDS STATE_DIR STORAGE STORAGE_RESULTS STORAGE_THRESHOLD
    TASK_QUEUE
"""
COMMAND_SETTINGS: Final = frozenset({f"{PREFIX}UI_URL", f"{PREFIX}WORKER"})
"""Variables that only commands read, except those of plug-ins."""
SETTINGS: Final = frozenset({SETTING, *COMMAND_SETTINGS, *(f"{PREFIX}{name}" for name in _OF_WORKERS.split())})
"""All variables that workers or commands read, except those of plug-ins."""
_OF_WORKER_PLUGINS: Final = {
    "CALLER_KEY": "caller_key",
    "CALLER_KEY_ACCEPTED": "caller_key",
    "CODE_PACKAGES": "bubblewrap",
    "SEARXNG_URL": "search_services",
    "TAPE_RECORD": "tape",
    "TAPE_REPLAY": "tape",
    "TENANTS": "tenants",
    "WEBHOOK_HOSTS": "webhooks",
    "WEBHOOK_SECRET": "webhooks",
}
_OF_PLUGINS: Final = _OF_WORKER_PLUGINS | {
    "CODEC_TOKEN": "codec_server",
    "CONSOLE_PORT": "console",
    "CONSOLE_TOKEN": "console",
}
"""Settings of shipped plug-ins, which may not be installed."""


def absent_plugin_settings(environment: Mapping[str, str], *, of_commands: bool = False) -> list[str]:
    """List the variables of plug-ins that are not installed, with the remedy."""
    return [
        f"{PREFIX}{name} belongs to the plug-in '{plugin}', which is not installed; install {SHIPPED}"
        for name, plugin in (_OF_PLUGINS if of_commands else _OF_WORKER_PLUGINS).items()
        if f"{PREFIX}{name}" in environment and plugin not in installed().names
    ]


def describe_unknown(environment: Mapping[str, str]) -> list[str]:
    """List the unknown `CHARGEHAND_*` variables, each with the likely intended one."""
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in SETTINGS)
    if not unknown:
        return []
    known = [each.removeprefix(PREFIX) for each in SETTINGS | installed().variables]
    others = (name for name in unknown if name.removeprefix(PREFIX) not in {*known, *_OF_PLUGINS})
    return [*absent_plugin_settings(environment, of_commands=True), *(_describe(name, known) for name in others)]


def _describe(name: str, known: Sequence[str]) -> str:
    meant = get_close_matches(name.removeprefix(PREFIX), known, n=1)
    return f"{name} is not a setting" + (f"; did you mean {PREFIX}{meant[0]}?" if meant else "")
