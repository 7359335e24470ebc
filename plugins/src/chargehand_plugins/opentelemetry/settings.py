"""The OpenTelemetry settings that a worker validates; the library itself reads these and all others."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from pydantic import Field, SecretStr

from activities.backends import Choice, SettingsError, is_address, secret
from worker.settings import PartSettings, Settings, settings_of

_HEADERS: Final = r"(\s*[\w.!#$&'*+^`|~-]+\s*=[^,]*(,\s*[\w.!#$&'*+^`|~-]+\s*=[^,]*)*,?\s*)?"
_RULES: Final = (
    ("otel_traces_exporter", r"(otlp)?", "write otlp or none."),
    ("otel_protocol", r"(http/protobuf)?", "write http/protobuf."),
    ("otel_traces_protocol", r"(http/protobuf)?", "write http/protobuf."),
    ("otel_headers", _HEADERS, "write name=value,name=value."),
    (
        "otel_sampler",
        r"(?i:(parentbased_)?(always_on|always_off|traceidratio))?",
        "write one of always_on, always_off, traceidratio, or parentbased_ before it.",
    ),
    ("otel_content", r"(?i:span_only|true|no_content|false)?", "write SPAN_ONLY or NO_CONTENT."),
    ("otel_schedule_delay", r"([1-9]\d{0,8})?", "write milliseconds, such as 1000."),
)
"""Pattern of each setting, and the remedy for a mismatch."""
_RATIO: Final = re.compile(r"0(\.\d+)?|1(\.0+)?|\.\d+")


class TracingSettings(PartSettings):
    """The settings of OpenTelemetry, by their standard names."""

    otel_traces_exporter: str = Field(default="", validation_alias="OTEL_TRACES_EXPORTER")
    """`otlp` exports spans, `none` does not; by default they are exported if an endpoint is set. Needs the extra
    `otel`."""
    otel_endpoint: str = Field(default="", validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """Address of an OTLP/HTTP receiver, without `/v1/traces`; `http://localhost:4318` if only the
    exporter is set."""
    otel_traces_endpoint: str = Field(default="", validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    """The full address including the path; replaces the address without it."""
    otel_service_name: str = Field(default="", validation_alias="OTEL_SERVICE_NAME")
    """The service name of spans; `chargehand` by default."""
    otel_headers: SecretStr | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_HEADERS")
    """HTTP headers for the receiver, such as a key: `name=value,name=value`, values percent-encoded."""
    otel_protocol: str = Field(default="", validation_alias="OTEL_EXPORTER_OTLP_PROTOCOL")
    """`http/protobuf`, the only supported one."""
    otel_traces_protocol: str = Field(default="", validation_alias="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    """The same, for spans only."""
    otel_sampler: str = Field(default="", validation_alias="OTEL_TRACES_SAMPLER")
    """Which sessions are traced: `parentbased_always_on` by default, or `parentbased_traceidratio` with a share."""
    otel_sampler_arg: str = Field(default="", validation_alias="OTEL_TRACES_SAMPLER_ARG")
    """The share of sessions, from 0 to 1."""
    otel_schedule_delay: str = Field(default="", validation_alias="OTEL_BSP_SCHEDULE_DELAY")
    """Milliseconds between two exports; 1,000 by default. A killed worker loses the spans that ended in between."""
    otel_content: str = Field(default="", validation_alias="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
    """`SPAN_ONLY` puts prompts, replies, and arguments and results of tools into spans, without anything that looks
    like a key; `NO_CONTENT` by default."""
    otel_disabled: str = Field(default="", validation_alias="OTEL_SDK_DISABLED")
    """`true` disables OpenTelemetry."""


def choose(all_settings: Settings) -> Sequence[Choice]:
    """Report for `doctor` whether spans are exported. Raises `SettingsError` if they should be but cannot."""
    settings = settings_of(all_settings, TracingSettings)
    because = _reason(settings)
    if not because:
        return [Choice("spans", "none", "no OTEL_TRACES_EXPORTER or OTEL_EXPORTER_OTLP_ENDPOINT")]
    if settings.otel_disabled.lower() == "true":
        return [Choice("spans", "none", "OTEL_SDK_DISABLED is true")]
    if settings.otel_traces_exporter == "none":
        return [Choice("spans", "none", "OTEL_TRACES_EXPORTER is none")]
    if problems := _problems(settings):
        raise SettingsError(" ".join(problems))
    if not _is_installed():
        raise SettingsError(
            f"{because}, but OpenTelemetry is not installed: `pip install 'chargehand[otel]'`, "
            "or set OTEL_TRACES_EXPORTER=none."
        )
    return [Choice("spans", "otlp", because)]


def _reason(settings: TracingSettings) -> str:
    asking = {
        "OTEL_TRACES_EXPORTER": settings.otel_traces_exporter,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": settings.otel_traces_endpoint,
        "OTEL_EXPORTER_OTLP_ENDPOINT": settings.otel_endpoint,
    }
    return next((f"{variable} is set" for variable, value in asking.items() if value), "")


def _problems(settings: TracingSettings) -> list[str]:
    """List invalid settings without their values, since addresses and headers may contain keys."""
    values = {name: secret(value) if isinstance(value, SecretStr) else value for name, value in settings}
    wrong = [(name, remedy) for name, pattern, remedy in _RULES if not re.fullmatch(pattern, values[name] or "")]
    for name, example in (("otel_endpoint", "HOST:4318"), ("otel_traces_endpoint", "HOST:4318/v1/traces")):
        if values[name] and not is_address(str(values[name]), {"http", "https"}):
            wrong.append((name, f"write an address, http://{example}."))
    is_share = settings.otel_sampler.lower().endswith("traceidratio")
    if is_share and not _RATIO.fullmatch(settings.otel_sampler_arg):
        wrong.append(("otel_sampler_arg", "write the share of sessions to trace, from 0 to 1, such as 0.1."))
    return [f"{TracingSettings.model_fields[name].validation_alias}: {remedy}" for name, remedy in wrong]


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False
