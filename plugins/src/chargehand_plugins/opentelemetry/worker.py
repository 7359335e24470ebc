"""What a worker that exports spans gets: a plug-in of its client, and interceptors of its workflows and activities."""

from contextlib import AsyncExitStack

from temporalio.client import Client, Plugin
from temporalio.worker import Interceptor

from activities.backends import secret_values
from chargehand_plugins.opentelemetry.settings import TracingSettings, choose, wants_content
from worker.settings import Settings, settings_of


def client_plugins(settings: Settings, closing: AsyncExitStack) -> list[Plugin]:
    """Begin to export spans, if the settings say so, and return what clients need for that."""
    if choose(settings)[0].adapter == "none":
        return []
    from chargehand_plugins.opentelemetry.export import start_export

    return [start_export(settings_of(settings, TracingSettings), closing)]


def interceptors(settings: Settings, client: Client) -> list[Interceptor]:
    """Return what makes spans, for a client that traces. Others load nothing of OpenTelemetry's."""
    if not any(plugin.name() == "OpenTelemetryPlugin" for plugin in client.config()["plugins"]):
        return []
    from chargehand_plugins.opentelemetry.content import Content
    from chargehand_plugins.opentelemetry.workflows import Traced

    with_content = wants_content(settings_of(settings, TracingSettings))
    return [Traced(Content(secret_values(settings)) if with_content else None)]
