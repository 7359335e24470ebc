"""Settings of OpenTelemetry that cannot be used end the worker with their name."""

import pytest

from chargehand_plugins.opentelemetry.settings import TracingSettings
from worker import program

_BAD_ADDRESSES = ("file:/etc/passwd", "ftp://host/", "localhost:80", "http://", "https:///path", " https://host")
_BAD = {
    "OTEL_TRACES_EXPORTER": ("console", "otlp,zipkin"),
    "OTEL_EXPORTER_OTLP_ENDPOINT": _BAD_ADDRESSES,
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": _BAD_ADDRESSES,
}
_BAD_WITH_SPANS = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("grpc", "http/json"),
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": ("grpc",),
    "OTEL_EXPORTER_OTLP_HEADERS": ("sk-secret-key", "Authorization: Bearer sk-secret-key"),
    "OTEL_TRACES_SAMPLER": ("often", "parentbased_jaeger_remote"),
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": ("EVENT_ONLY", "SPAN_AND_EVENT", "yes"),
    "OTEL_BSP_SCHEDULE_DELAY": ("0", "-5", "1s"),
}
"""Which other programs may have; here they must be right only if spans are exported."""


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in _BAD.items() for value in values])
def test_bad_values_are_refused_by_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each setting refuses a value that it cannot have, in a short message that names it."""
    monkeypatch.setenv(name, value)

    code = program.main(["--explain"])

    told = capsys.readouterr().err
    assert (code, name in told) == (2, True)
    assert len(told) < 1_000


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in _BAD_WITH_SPANS.items() for value in values]
)
def test_bad_values_of_opentelemetry_are_refused_if_spans_are_exported(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting is named, and no key in it; a worker that exports nothing does not mind."""
    monkeypatch.setenv(name, value)

    assert program.main(["--check-settings"]) == 0
    for variable, exported in (("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"), ("OTEL_SDK_DISABLED", "true")):
        monkeypatch.setenv(variable, exported)
        told = program.main(["--check-settings"]), capsys.readouterr().err

        assert told[0] == (0 if exported == "true" else 2)
        assert (name in told[1]) == (exported != "true")
        assert "sk-secret-key" not in told[1]


@pytest.mark.parametrize("share", ["", "2", "-0.1", "half"])
def test_a_share_of_sessions_is_from_0_to_1(share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler by ratio needs its ratio: the library would silently trace everything."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", share)

    assert program.main(["--check-settings"]) == 2


def test_every_setting_has_a_bad_value() -> None:
    """The lists above are complete but for names and switches."""
    names = {str(field.validation_alias) for field in TracingSettings.model_fields.values()}
    free = {"OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER_ARG"}

    assert names - free == {*_BAD, *_BAD_WITH_SPANS}
