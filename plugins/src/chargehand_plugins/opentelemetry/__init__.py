"""OpenTelemetry: the spans of sessions, exported by workers."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the settings of OpenTelemetry, and what makes spans of workflows and activities."""
    registry.settings(f"{__name__}.settings:TracingSettings")
    registry.choices(f"{__name__}.settings:choose")
    registry.client_plugins(f"{__name__}.worker:client_plugins")
    registry.interceptors(f"{__name__}.worker:interceptors")
    registry.hook(Hook.WORKFLOW_ACTIVATION, f"{__name__}.headers:drop_unreadable_traces")
