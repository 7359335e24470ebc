"""OpenTelemetry: spans of sessions, exported by workers or written afterwards by `chargehand trace`."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the settings, the creation and export of spans, and the propagation of callers' traces."""
    registry.settings(f"{__name__}.settings:TracingSettings")
    registry.choices(f"{__name__}.settings:choose")
    registry.examinations(f"{__name__}.worker:examine", at_start=True)
    registry.client_plugins(f"{__name__}.worker:client_plugins")
    registry.interceptors(f"{__name__}.worker:interceptors")
    registry.hook(Hook.CONNECTION, f"{__name__}.caller_trace:CallerTrace")
    registry.hook(Hook.WORKFLOW_ACTIVATION, f"{__name__}.worker:drop_unreadable_traces")
    registry.trace_format("otlp", f"{__name__}.otlp:otlp")
